// What the answers of a model look like, as told by its chat template: the syntax of tool calls and the marks around
// reasoning. Decided once a model; plain data, any thread may read it.
#pragma once

#include <functional>
#include <string_view>

#include "chat/tool_syntax.hpp"

namespace minfer::chat {

// The marks around reasoning. `channels` syntaxes (gpt-oss) have channels instead, and no row of these.
struct ReasoningTags {
  std::string_view open;   // "<think>"
  std::string_view close;  // "</think>"
};

struct OutputFormat {
  const ToolSyntax* tools = &generic_tool_syntax();  // never null
  const ReasoningTags* reasoning = nullptr;          // null: the template knows none
  // The template shows tools to the model. Where false, the caller must describe them (and the generic syntax) itself.
  bool template_knows_tools = false;
  // The marks are control tokens, whose text the parser must see: Request::show_control.
  bool show_control = false;
};

// `template_source` is the template's text; `is_control` tells whether a text is a control token of the vocabulary.
OutputFormat detect_output_format(std::string_view template_source,
                                  const std::function<bool(std::string_view)>& is_control);

// Whether an answer to `prompt` (the rendered conversation) begins within reasoning: the prompt ends with the mark that
// opens it, whitespace aside.
bool begins_in_reasoning(const OutputFormat& format, std::string_view prompt);

}  // namespace minfer::chat
