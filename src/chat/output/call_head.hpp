// Where a tool call begins, up to its arguments, and what stands between one call and the next: functions of the text
// that waits. They are asked again as more comes, so all that they look at is short (the caller's limit).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/output/text_match.hpp"
#include "chat/output_parser.hpp"

namespace minfer::chat::output {

// A mark that may begin a call.
struct Opener {
  std::string_view mark;
  std::string_view closer = {};  // behind a call written as a JSON object
  bool object_only = false;      // a JSON object must follow
  bool needs_arguments = false;  // a name alone is no call
};

// What the parser looks for, made once an answer from a row and the tools.
struct CallSyntax {
  const ToolSyntax* row;
  const std::vector<ToolSignature>* tools;
  std::vector<Opener> openers;
};
CallSyntax make_call_syntax(const ToolSyntax& row, const std::vector<ToolSignature>& tools);

struct CallHead {
  Fit fit = Fit::no;
  size_t size = 0;  // bytes up to the arguments
  size_t tool = 0;  // index
  // Of the form of a JSON object: how many are open, and whether in a list.
  bool object = false;
  uint32_t open_objects = 0;
  bool in_list = false;
  std::string_view closer = {};
  // The arguments, where they are known already: they stood before the name, in quotes, or not at all.
  std::optional<std::string> arguments = {};
};

// `text` begins with `opener`'s mark.
CallHead match_head(const CallSyntax& syntax, const Opener& opener, std::string_view text, bool final);
// `text` is the beginning of the answer, without whitespace.
CallHead match_bare_head(const CallSyntax& syntax, std::string_view text, bool final);
// `text` stands behind the arguments of the call `last`. no, more, or yes: `size` bytes were syntax, and where `next`
// has Fit::yes the next call begins with them.
struct CallTail {
  Fit fit = Fit::no;
  size_t size = 0;
  CallHead next = {};
};
CallTail match_tail(const CallSyntax& syntax, const CallHead& last, std::string_view text, bool final);

}  // namespace minfer::chat::output
