// Template text to tokens, with jinja2's whitespace control: '-' and '+' at tag borders, trim_blocks and lstrip_blocks
// always on (as transformers sets them), one final newline dropped, line ends normalized to \n. Oracle: jinja2 3.1.
// Tokens own their text; the source need not outlive them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace minfer::chat::jinja {

constexpr size_t kMaxTemplateBytes = 4u << 20;

enum class TokenKind : uint8_t {
  data,            // literal template text
  variable_begin,  // {{
  variable_end,    // }}
  block_begin,     // {%
  block_end,       // %}
  name,
  string,
  integer,
  floating,
  op,       // text holds the operator
  end,      // end of the template
  failure,  // the text goes on wrongly: `text` is the message, raised where the parser comes to it
};

struct Token {
  TokenKind kind;
  int line;
  std::string text;  // data, name, string (unescaped), op
  int64_t integer = 0;
  double floating = 0;

  bool is_name(std::string_view name) const { return kind == TokenKind::name && text == name; }
  bool is_op(std::string_view op) const { return kind == TokenKind::op && text == op; }
};

// "name 'x'", "'|'", "end of statement block", ...
std::string describe(const Token& token);

// The tokens, ending with one `end` or `failure`: what the parser refuses earlier is told first, as jinja2 does, which
// makes tokens one by one.
std::vector<Token> tokenize(std::string_view source);

}  // namespace minfer::chat::jinja
