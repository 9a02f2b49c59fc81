// How models write tool calls: one row a syntax, as plain data. A call is written
//
//   prefix  call_begin NAME name_end ARGUMENTS call_end  (separator call_begin NAME name_end ARGUMENTS call_end)*
//   suffix
//
// with ARGUMENTS in the row's style. The pieces are what the model was trained to write and what a grammar that forces
// a call writes; OutputParser reads them more freely: any whitespace where a piece has some, any digits where it has a
// 0, and for rows of JSON objects the fields in any order. Sources: the published templates of the models named at each
// row (tool_syntax.cpp). Immutable, any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace minfer::chat {

// How the arguments are written between name_end and call_end.
enum class ArgumentStyle : uint8_t {
  json,    // one JSON object
  tagged,  // (parameter_begin KEY parameter_name_end VALUE parameter_end)*: text as it is, other values as JSON
  braces,  // Gemma 4: key:value, comma-separated; text between <|"|> marks; the braces belong to name_end and call_end
  python,  // key=value, comma-separated, Python literals; the parentheses belong to name_end and call_end
};

struct ToolSyntax {
  std::string_view name;  // "hermes"
  // A template that has all of these (the empty ones aside) is of this syntax; the first row that fits counts.
  std::array<std::string_view, 3> signs = {};
  std::string_view prefix = {};
  std::string_view call_begin = {};
  std::string_view name_end = {};
  std::string_view call_end = {};
  std::string_view separator = {};
  std::string_view suffix = {};
  ArgumentStyle arguments = ArgumentStyle::json;
  // Of the style `tagged`. A value of text stands as it is, so parameter_end can't be part of it.
  std::string_view parameter_begin = {};
  std::string_view parameter_name_end = {};
  std::string_view text_name_end = {};  // the same before a value of text, where that differs
  std::string_view parameter_end = {};
  // What a model may put before NAME and name_end besides: an id that is skipped.
  std::string_view id_mark = {};
  bool json_object = false;  // call_begin ... call_end is a JSON object with the name and the arguments as fields
  // Such an object (or a list of them) at the very beginning of the answer or in a ```json block is a call as well.
  bool bare = false;
  bool parallel = true;   // several calls in one answer
  bool channels = false;  // the answer is cut into channels: gpt-oss
  bool cdata = false;     // a value may be wrapped in <![CDATA[ and ]]>
  // Marks of the answer that are neither call nor text for a reader.
  std::array<std::string_view, 3> dropped = {};
};

// All rows, in the order in which detect_output_format tries them; the last is the generic one.
std::span<const ToolSyntax> tool_syntaxes();
// Bare JSON, {"name": ..., "arguments": {...}}: for models whose template knows no tools.
const ToolSyntax& generic_tool_syntax();

}  // namespace minfer::chat
