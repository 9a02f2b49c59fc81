// Values as text: Python's str() and repr(), and json.dumps. Append to `out`; the interpreter limits size and work.
#pragma once

#include <optional>
#include <string>

#include "chat/jinja/interpreter.hpp"

namespace minfer::chat::jinja {

void append_text(Interpreter& in, std::string& out, const Value& value);  // str
void append_repr(Interpreter& in, std::string& out, const Value& value);  // repr

struct JsonOptions {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;  // of one level
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};
// Raises for values that JSON can't hold.
void append_json(Interpreter& in, std::string& out, const Value& value, const JsonOptions& options);

// HTML-escapes & < > ' " as markupsafe does.
std::string escape_html(std::string_view text);

}  // namespace minfer::chat::jinja
