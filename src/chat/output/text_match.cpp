// Matching of pieces. Whitespace at the end of a piece takes all whitespace that comes, so that it is undecided until
// something else has come.
#include "chat/output/text_match.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace minfer::chat::output {

bool is_space(char byte) {
  return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r';
}

bool is_name_byte(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') || byte == '_' ||
         byte == '-' || byte == '.';
}

size_t after_space(std::string_view text, size_t at) {
  while (at < text.size() && is_space(text[at])) ++at;
  return at;
}

std::string_view trimmed(std::string_view text) {
  text.remove_prefix(after_space(text));
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

Match match_piece(std::string_view text, std::string_view piece, bool final) {
  const auto is_digit = [](char byte) { return byte >= '0' && byte <= '9'; };
  const Fit at_end = final ? Fit::no : Fit::more;
  size_t at = 0;
  for (size_t i = 0; i < piece.size();) {
    if (is_space(piece[i])) {
      i = after_space(piece, i);
      at = after_space(text, at);
      if (at == text.size() && !final) return {Fit::more};
    } else if (at == text.size()) {
      return {at_end};
    } else if (piece[i] == '0') {
      const size_t start = at;
      while (at < text.size() && is_digit(text[at])) ++at;
      if (at == text.size()) return {at_end};
      if (at == start) return {Fit::no};
      ++i;
    } else {
      if (text[at] != piece[i]) return {Fit::no};
      ++at;
      ++i;
    }
  }
  return {Fit::yes, at};
}

Match match_exact(std::string_view text, std::string_view piece, bool final) {
  if (text.starts_with(piece)) return {Fit::yes, piece.size()};
  return {!final && piece.starts_with(text) ? Fit::more : Fit::no};
}

size_t certain_bytes(std::string_view text, std::span<const std::string_view> marks) {
  size_t longest = 0;
  for (const std::string_view mark : marks) longest = std::max(longest, mark.size());
  for (size_t at = text.size() - std::min(text.size(), longest); at < text.size(); ++at) {
    const std::string_view rest = text.substr(at);
    const auto begins = [rest](std::string_view mark) { return mark.starts_with(rest); };
    if (std::any_of(marks.begin(), marks.end(), begins)) return at;
  }
  return text.size();
}

void append_escaped(std::string& out, std::string_view text) {
  for (const char byte : text) {
    switch (byte) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(byte) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(byte));
        } else {
          out += byte;
        }
    }
  }
}

}  // namespace minfer::chat::output
