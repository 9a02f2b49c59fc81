// String literal escapes: \n \t ... \ooo \xhh \uhhhh \Uhhhhhhhh \N{name}; an unknown escape stays as it is. See the
// header.
#include "chat/jinja/string_literal.hpp"

#include <unicode/uchar.h>

#include <algorithm>

#include "base/utf8.hpp"
#include "chat/jinja/failure.hpp"
#include "chat/jinja/text.hpp"

namespace minfer::chat::jinja {
namespace {

constexpr std::string_view kSimple = "\\'\"abfnrtv";
constexpr std::string_view kSimpleValues = "\\'\"\a\b\f\n\r\t\v";

class Unescaper {
 public:
  Unescaper(std::string_view body, int line) : body_(body), line_(line) {}

  std::string run() {
    while (at_ < body_.size()) {
      if (body_[at_] != '\\') {
        out_.push_back(body_[at_++]);
      } else {
        ++at_;
        escape();
      }
    }
    return std::move(out_);
  }

 private:
  void escape() {
    if (at_ >= body_.size()) syntax_error(line_, "\\ at end of string");
    const char kind = body_[at_];
    const size_t simple = kSimple.find(kind);
    if (simple != std::string_view::npos) {
      out_.push_back(kSimpleValues[simple]);
      ++at_;
    } else if (kind == '\n') {
      ++at_;
    } else if (kind >= '0' && kind <= '7') {
      octal();
    } else if (kind == 'x' || kind == 'u' || kind == 'U') {
      ++at_;
      hex(kind == 'x' ? 2 : kind == 'u' ? 4 : 8);
    } else if (kind == 'N') {
      named();
    } else {
      unknown();
    }
  }

  void octal() {
    char32_t code = 0;
    for (int count = 0; count < 3 && at_ < body_.size() && body_[at_] >= '0' && body_[at_] <= '7'; ++count, ++at_) {
      code = code * 8 + static_cast<char32_t>(body_[at_] - '0');
    }
    append_utf8(out_, code);
  }

  void hex(size_t digits) {
    char32_t code = 0;
    for (size_t count = 0; count < digits; ++count, ++at_) {
      const int digit = at_ < body_.size() ? u_digit(static_cast<unsigned char>(body_[at_]), 16) : -1;
      if (digit < 0) syntax_error(line_, "truncated hexadecimal escape in a string: {} digits expected", digits);
      code = code * 16 + static_cast<char32_t>(digit);
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
      syntax_error(line_, "the escape of U+{:04X} in a string is no character", static_cast<uint32_t>(code));
    }
    append_utf8(out_, code);
  }

  void named() {
    const size_t close = body_.find('}', at_);
    if (at_ + 1 >= body_.size() || body_[at_ + 1] != '{' || close == std::string_view::npos) {
      syntax_error(line_, "malformed \\N character escape");
    }
    const std::string name(body_.substr(at_ + 2, close - at_ - 2));
    UErrorCode status = U_ZERO_ERROR;
    const UChar32 code = u_charFromName(U_EXTENDED_CHAR_NAME, name.c_str(), &status);
    if (U_FAILURE(status)) syntax_error(line_, "unknown Unicode character name {}", quote(name));
    append_utf8(out_, static_cast<char32_t>(code));
    at_ = close + 1;
  }

  // Python has already turned a character beyond ASCII into an escape of its own when it meets the backslash before it.
  void unknown() {
    out_.push_back('\\');
    const char32_t code = next_code_point(body_, at_);
    if (code < 0x80) {
      append_utf8(out_, code);
    } else if (code < 0x100) {
      out_ += fmt::format("x{:02x}", static_cast<uint32_t>(code));
    } else if (code < 0x10000) {
      out_ += fmt::format("u{:04x}", static_cast<uint32_t>(code));
    } else {
      out_ += fmt::format("U{:08x}", static_cast<uint32_t>(code));
    }
  }

  std::string_view body_;
  int line_;
  size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string unescape_literal(std::string_view body, int line) {
  return Unescaper(body, line).run();
}

}  // namespace minfer::chat::jinja
