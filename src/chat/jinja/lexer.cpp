// The lexer: a root state (text up to the next tag) and a tag state (Python-like tokens up to the tag's end). See
// lexer.hpp.
#include "chat/jinja/lexer.hpp"

#include <unicode/uchar.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "chat/jinja/failure.hpp"
#include "chat/jinja/string_literal.hpp"
#include "chat/jinja/text.hpp"

namespace minfer::chat::jinja {
namespace {

constexpr std::array<std::string_view, 26> kOperators = {"**", "//", "==", "!=", ">=", "<=", "+", "-", "/",
                                                         "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                         ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

// \r\n and \r become \n; one final newline goes.
std::string normalize(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t at = 0; at < source.size(); ++at) {
    if (source[at] != '\r') {
      out.push_back(source[at]);
      continue;
    }
    out.push_back('\n');
    if (at + 1 < source.size() && source[at + 1] == '\n') ++at;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_digit(char byte) {
  return byte >= '0' && byte <= '9';
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalize(source)), text_(source_) {}

  std::vector<Token> run() {
    try {
      while (at_ < text_.size()) lex_root();
    } catch (SyntaxError& error) {
      tokens_.push_back(Token{TokenKind::failure, error.line, std::move(error.message)});
      return std::move(tokens_);
    }
    const int last_line = tokens_.empty() ? 1 : tokens_.back().line;
    tokens_.push_back(Token{TokenKind::end, last_line, ""});
    return std::move(tokens_);
  }

 private:
  bool starts(size_t at, std::string_view what) const {
    return text_.substr(std::min(at, text_.size()), what.size()) == what;
  }

  void add(TokenKind kind, std::string text) { tokens_.push_back(Token{kind, line_, std::move(text)}); }

  // Moves to `to`, counting lines; remembers whether the text consumed last ends a line.
  void advance(size_t to) {
    line_ += static_cast<int>(
        std::count(text_.begin() + static_cast<ptrdiff_t>(at_), text_.begin() + static_cast<ptrdiff_t>(to), '\n'));
    if (to > at_) line_starting_ = text_[to - 1] == '\n';
    at_ = to;
  }

  size_t skip_space(size_t at) const {
    while (at < text_.size()) {
      size_t next = at;
      if (!is_space(next_code_point(text_, next))) break;
      at = next;
    }
    return at;
  }

  static bool all_space(std::string_view text) {
    for (size_t at = 0; at < text.size();) {
      if (!is_space(next_code_point(text, at))) return false;
    }
    return true;
  }

  // The text before a tag, without what the tag's sign or lstrip_blocks strips.
  std::string_view stripped_before(std::string_view text, char sign, bool is_variable) const {
    if (sign == '-') return strip(text, std::nullopt, Side::right);
    if (sign == '+' || is_variable) return text;
    const size_t line_begin = text.rfind('\n') + 1;  // npos + 1 is 0
    if ((line_begin > 0 || line_starting_) && all_space(text.substr(line_begin))) return text.substr(0, line_begin);
    return text;
  }

  void add_data(std::string_view text) {
    if (!text.empty()) add(TokenKind::data, std::string(text));
  }

  static char sign_at(std::string_view text, size_t at) {
    return at < text.size() && (text[at] == '-' || text[at] == '+') ? text[at] : '\0';
  }

  void lex_root() {
    size_t open = at_;
    while (true) {
      open = text_.find('{', open);
      if (open == std::string_view::npos || open + 1 >= text_.size()) {
        add_data(text_.substr(at_));
        return advance(text_.size());
      }
      const char kind = text_[open + 1];
      if (kind == '{' || kind == '%' || kind == '#') break;
      ++open;
    }
    const char kind = text_[open + 1];
    const char sign = sign_at(text_, open + 2);
    add_data(stripped_before(text_.substr(at_, open - at_), sign, kind == '{'));
    const size_t inside = open + 2 + (sign == '\0' ? 0 : 1);
    if (kind == '%' && lex_raw(inside)) return;
    advance(inside);
    if (kind == '#') return lex_comment();
    add(kind == '{' ? TokenKind::variable_begin : TokenKind::block_begin, "");
    lex_tag(kind == '{');
  }

  void lex_comment() {
    if (at_ == text_.size()) return;  // as jinja2: only a comment that has begun must end
    const size_t close = text_.find("#}", at_);
    if (close == std::string_view::npos) syntax_error(line_, "Missing end of comment tag");
    const char sign = close > at_ ? text_[close - 1] : '\0';
    advance(after_block_end(close + 2, sign));
  }

  // Behind the '}' of a block or comment: '-' strips all whitespace, '+' none, else trim_blocks takes one newline.
  size_t after_block_end(size_t at, char sign) const {
    if (sign == '-') return skip_space(at);
    if (sign == '+') return at;
    return at < text_.size() && text_[at] == '\n' ? at + 1 : at;
  }

  // {% raw %} ... {% endraw %}; false where the tag at `inside` is another one.
  bool lex_raw(size_t inside) {
    size_t at = skip_space(inside);
    if (!starts(at, "raw")) return false;
    at = skip_space(at + 3);
    const bool strips = starts(at, "-%}");
    if (!strips && !starts(at, "%}")) return false;
    advance(strips ? skip_space(at + 3) : at + 2);
    if (at_ == text_.size()) return true;
    for (size_t open = text_.find("{%", at_); open != std::string_view::npos; open = text_.find("{%", open + 1)) {
      const char sign = sign_at(text_, open + 2);
      size_t end = skip_space(open + 2 + (sign == '\0' ? 0 : 1));
      if (!starts(end, "endraw")) continue;
      end = skip_space(end + 6);
      const char end_sign = sign_at(text_, end);
      if (end_sign != '\0') ++end;
      if (!starts(end, "%}")) continue;
      add_data(stripped_before(text_.substr(at_, open - at_), sign, false));
      advance(after_block_end(end + 2, end_sign));
      return true;
    }
    syntax_error(line_, "Missing end of raw directive");
  }

  bool lex_tag_end(bool is_variable) {
    const std::string_view end = is_variable ? "}}" : "%}";
    const char sign = sign_at(text_, at_);
    const bool signed_end = (sign == '-' || (sign == '+' && !is_variable)) && starts(at_ + 1, end);
    if (!signed_end && !starts(at_, end)) return false;
    add(is_variable ? TokenKind::variable_end : TokenKind::block_end, "");
    const size_t behind = at_ + end.size() + (signed_end ? 1 : 0);
    if (is_variable) {
      advance(signed_end ? skip_space(behind) : behind);
    } else {
      advance(after_block_end(behind, signed_end ? sign : '\0'));
    }
    return true;
  }

  void lex_tag(bool is_variable) {
    balance_.clear();
    while (at_ < text_.size()) {
      if (balance_.empty() && lex_tag_end(is_variable)) return;
      const size_t behind_space = skip_space(at_);
      if (behind_space != at_) {
        advance(behind_space);
        continue;
      }
      if (is_digit(text_[at_])) {
        lex_number();
      } else if (text_[at_] == '"' || text_[at_] == '\'') {
        lex_string();
      } else if (!lex_name() && !lex_operator()) {
        size_t next = at_;
        next_code_point(text_, next);
        syntax_error(line_, "unexpected char {} at {}", quote(text_.substr(at_, next - at_)),
                     count_code_points(text_.substr(0, at_)));
      }
    }
  }

  // The end of digits with single underscores between them, from `at`; `at` itself where there are none.
  template <class Accepts>
  size_t digits_end(size_t at, const Accepts& accepts) const {
    size_t end = at;
    while (true) {
      size_t next = end;
      if (end != at && next < text_.size() && text_[next] == '_') ++next;
      if (next >= text_.size() || !accepts(text_[next])) return end;
      end = next + 1;
    }
  }

  // The end of a float at the current place, or 0.
  size_t float_end() const {
    if (at_ > 0 && text_[at_ - 1] == '.') return 0;
    size_t end = digits_end(at_, is_digit);
    bool has_fraction = false;
    if (end < text_.size() && text_[end] == '.') {
      const size_t fraction = digits_end(end + 1, is_digit);
      has_fraction = fraction != end + 1;
      if (has_fraction) end = fraction;
    }
    if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
      const size_t digits = end + 1 + (sign_at(text_, end + 1) == '\0' ? 0 : 1);
      const size_t exponent = digits_end(digits, is_digit);
      if (exponent != digits) return exponent;
    }
    return has_fraction ? end : 0;
  }

  void lex_number() {
    if (const size_t end = float_end(); end != 0) {
      std::string digits(text_.substr(at_, end - at_));
      digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
      Token token{TokenKind::floating, line_, digits};
      const auto [tail, code] = std::from_chars(digits.data(), digits.data() + digits.size(), token.floating);
      if (code != std::errc()) {  // beyond the doubles: Python reads inf or 0
        const size_t exponent = digits.find_first_of("eE");
        const bool tiny = exponent != std::string::npos && digits[exponent + 1] == '-';
        token.floating = tiny ? 0.0 : HUGE_VAL;
      }
      tokens_.push_back(std::move(token));
      return advance(end);
    }
    lex_integer();
  }

  void lex_integer() {
    int base = 10;
    size_t begin = at_;
    size_t end = 0;
    if (text_[at_] == '0' && at_ + 1 < text_.size()) {
      const char mark = static_cast<char>(text_[at_ + 1] | 0x20);
      base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
      if (base != 10) {
        begin = at_ + 2;
        if (begin < text_.size() && text_[begin] == '_') ++begin;
        end = digits_end(begin, [&](char byte) {
          return u_digit(static_cast<unsigned char>(byte), static_cast<int8_t>(base)) >= 0;
        });
        if (end == begin) base = 10;
      }
    }
    if (base == 10) {
      begin = at_;
      end = text_[at_] == '0' ? digits_end(at_, [](char byte) { return byte == '0'; }) : digits_end(at_, is_digit);
    }
    std::string digits(text_.substr(begin, end - begin));
    digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
    Token token{TokenKind::integer, line_, digits};
    if (std::from_chars(digits.data(), digits.data() + digits.size(), token.integer, base).ec != std::errc()) {
      syntax_error(line_, "the integer {} does not fit in 64 bits", digits);
    }
    tokens_.push_back(std::move(token));
    advance(end);
  }

  void lex_string() {
    const char mark = text_[at_];
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != mark) end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) syntax_error(line_, "unexpected char {} at {}", quote(text_.substr(at_, 1)), at_);
    add(TokenKind::string, unescape_literal(text_.substr(at_ + 1, end - at_ - 1), line_));
    advance(end + 1);
  }

  bool lex_name() {
    size_t end = at_;
    while (end < text_.size()) {
      size_t next = end;
      const auto code = static_cast<UChar32>(next_code_point(text_, next));
      const UProperty property = end == at_ ? UCHAR_XID_START : UCHAR_XID_CONTINUE;
      if (code != '_' && u_hasBinaryProperty(code, property) == 0) break;
      end = next;
    }
    if (end == at_) return false;
    add(TokenKind::name, std::string(text_.substr(at_, end - at_)));
    advance(end);
    return true;
  }

  bool lex_operator() {
    const auto* const found =
        std::find_if(kOperators.begin(), kOperators.end(), [&](std::string_view op) { return starts(at_, op); });
    if (found == kOperators.end()) return false;
    const char first = found->front();
    if (first == '{' || first == '(' || first == '[') {
      balance_.push_back(first == '(' ? ')' : static_cast<char>(first + 2));
    } else if (first == '}' || first == ')' || first == ']') {
      if (balance_.empty()) syntax_error(line_, "unexpected '{}'", first);
      if (balance_.back() != first) syntax_error(line_, "unexpected '{}', expected '{}'", first, balance_.back());
      balance_.pop_back();
    }
    add(TokenKind::op, std::string(*found));
    advance(at_ + found->size());
    return true;
  }

  std::string source_;
  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::string balance_;  // the closing brackets that are due
  std::vector<Token> tokens_;
};

}  // namespace

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::data:
      return "template data / text";
    case TokenKind::variable_begin:
      return "begin of print statement";
    case TokenKind::variable_end:
      return "end of print statement";
    case TokenKind::block_begin:
      return "begin of statement block";
    case TokenKind::block_end:
      return "end of statement block";
    case TokenKind::string:
      return "string";
    case TokenKind::integer:
      return "integer";
    case TokenKind::floating:
      return "float";
    case TokenKind::end:
      return "end of template";
    case TokenKind::name:
    case TokenKind::op:
    case TokenKind::failure:
      break;
  }
  return token.text;
}

std::vector<Token> tokenize(std::string_view source) {
  return Lexer(source).run();
}

}  // namespace minfer::chat::jinja
