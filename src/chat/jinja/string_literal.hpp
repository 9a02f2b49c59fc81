// The escapes of string literals in templates. jinja2 encodes a literal to ASCII with backslash escapes and decodes it
// with Python's "unicode-escape"; this does the same in one pass.
#pragma once

#include <string>
#include <string_view>

namespace minfer::chat::jinja {

// `body` is the text between the quotes. Throws SyntaxError with `line`.
std::string unescape_literal(std::string_view body, int line);

}  // namespace minfer::chat::jinja
