// Python's string operations on UTF-8: code points, whitespace, splitting, quoting. Case mapping is in text_case.cpp.
#include "chat/jinja/text.hpp"

#include <unicode/uchar.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "base/utf8.hpp"

namespace minfer::chat::jinja {
namespace {

bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0u) == 0x80u;
}

// The code point that ends at byte `end`, which moves before it.
char32_t previous_code_point(std::string_view text, size_t& end) {
  size_t begin = end - 1;
  while (begin > 0 && is_continuation(text[begin])) --begin;
  end = begin;
  return next_code_point(text, begin);
}

bool in_set(std::u32string_view set, char32_t code) {
  return set.find(code) != std::u32string_view::npos;
}

bool is_line_break(char32_t code) {
  return (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 || code == 0x2028 ||
         code == 0x2029;
}

std::vector<std::string_view> split_space(std::string_view text, int64_t max_split) {
  std::vector<std::string_view> parts;
  std::string_view rest = strip(text, std::nullopt, Side::left);
  while (!rest.empty()) {
    if (max_split >= 0 && static_cast<int64_t>(parts.size()) >= max_split) {
      parts.push_back(rest);
      return parts;
    }
    size_t end = 0;
    while (end < rest.size()) {
      size_t next = end;
      if (is_space(next_code_point(rest, next))) break;
      end = next;
    }
    parts.push_back(rest.substr(0, end));
    rest = strip(rest.substr(end), std::nullopt, Side::left);
  }
  return parts;
}

std::vector<std::string_view> split_space_right(std::string_view text, int64_t max_split) {
  std::vector<std::string_view> parts;
  std::string_view rest = strip(text, std::nullopt, Side::right);
  while (!rest.empty()) {
    if (max_split >= 0 && static_cast<int64_t>(parts.size()) >= max_split) {
      parts.push_back(rest);
      break;
    }
    size_t begin = rest.size();
    while (begin > 0) {
      size_t next = begin;
      if (is_space(previous_code_point(rest, next))) break;
      begin = next;
    }
    parts.push_back(rest.substr(begin));
    rest = strip(rest.substr(0, begin), std::nullopt, Side::right);
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

void append_escaped(std::string& out, char32_t code) {
  if (code < 0x100) {
    fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<uint32_t>(code));
  } else if (code < 0x10000) {
    fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<uint32_t>(code));
  } else {
    fmt::format_to(std::back_inserter(out), "\\U{:08x}", static_cast<uint32_t>(code));
  }
}

}  // namespace

char32_t next_code_point(std::string_view text, size_t& at) {
  const Utf8Step step = utf8_step(text, at);
  at += step.size_bytes;
  return step.character;
}

size_t count_code_points(std::string_view text) {
  return text.size() - static_cast<size_t>(std::count_if(text.begin(), text.end(), is_continuation));
}

size_t byte_offset(std::string_view text, size_t index) {
  size_t at = 0;
  for (; index > 0 && at < text.size(); --index) {
    ++at;
    while (at < text.size() && is_continuation(text[at])) ++at;
  }
  return at;
}

bool is_space(char32_t code) {
  if (code < 0x80) return code == 0x20 || (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x1F);
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
         code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool is_printable(char32_t code) {
  if (code < 0x7F) return code >= 0x20;
  constexpr uint32_t kHidden = U_GC_C_MASK | U_GC_ZL_MASK | U_GC_ZP_MASK | U_GC_ZS_MASK;
  return (U_GET_GC_MASK(static_cast<UChar32>(code)) & kHidden) == 0;
}

bool is_word(char32_t code) {
  if (code == '_') return true;
  return (U_GET_GC_MASK(static_cast<UChar32>(code)) & (U_GC_L_MASK | U_GC_N_MASK)) != 0;
}

std::string_view strip(std::string_view text, std::optional<std::string_view> chars, Side side) {
  std::u32string set;
  if (chars) {
    for (size_t at = 0; at < chars->size();) set.push_back(next_code_point(*chars, at));
  }
  const auto drops = [&](char32_t code) { return chars ? in_set(set, code) : is_space(code); };
  size_t begin = 0;
  if (side != Side::right) {
    for (size_t at = 0; begin < text.size(); begin = at) {
      if (!drops(next_code_point(text, at))) break;
    }
  }
  size_t end = text.size();
  if (side != Side::left) {
    for (size_t at = end; end > begin; end = at) {
      if (!drops(previous_code_point(text, at))) break;
    }
  }
  return text.substr(begin, end - begin);
}

std::vector<std::string_view> split(std::string_view text, std::optional<std::string_view> separator,
                                    int64_t max_split) {
  if (!separator) return split_space(text, max_split);
  std::vector<std::string_view> parts;
  while (max_split < 0 || static_cast<int64_t>(parts.size()) < max_split) {
    const size_t found = text.find(*separator);
    if (found == std::string_view::npos) break;
    parts.push_back(text.substr(0, found));
    text.remove_prefix(found + separator->size());
  }
  parts.push_back(text);
  return parts;
}

std::vector<std::string_view> split_right(std::string_view text, std::optional<std::string_view> separator,
                                          int64_t max_split) {
  if (!separator) return split_space_right(text, max_split);
  std::vector<std::string_view> parts;
  while (max_split < 0 || static_cast<int64_t>(parts.size()) < max_split) {
    const size_t found = text.rfind(*separator);
    if (found == std::string_view::npos) break;
    parts.push_back(text.substr(found + separator->size()));
    text = text.substr(0, found);
  }
  parts.push_back(text);
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = at;
    if (!is_line_break(next_code_point(text, at))) continue;
    if (text[end] == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.push_back(text.substr(begin));
  return lines;
}

std::string replace(std::string_view text, std::string_view old_text, std::string_view new_text, int64_t max_count,
                    const std::function<void(size_t bytes)>& charge) {
  const auto more = [&](size_t count) { return max_count < 0 || static_cast<int64_t>(count) < max_count; };
  std::string out;
  size_t count = 0;
  if (old_text.empty()) {  // between all code points, and at both ends
    charge(text.size() + (count_code_points(text) + 1) * new_text.size());
    size_t at = 0;
    while (more(count)) {
      out += new_text;
      ++count;
      if (at >= text.size()) return out;
      const size_t begin = at;
      next_code_point(text, at);
      out += text.substr(begin, at - begin);
    }
    return out.append(text.substr(at));
  }
  for (size_t at = text.find(old_text); at != std::string_view::npos && more(count);
       at = text.find(old_text, at + old_text.size())) {
    ++count;
  }
  charge(text.size() + count * new_text.size() - count * old_text.size());
  for (; count > 0; --count) {
    const size_t found = text.find(old_text);
    out += text.substr(0, found);
    out += new_text;
    text.remove_prefix(found + old_text.size());
  }
  return out.append(text);
}

std::string quote(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char mark = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, mark);
  for (size_t at = 0; at < text.size();) {
    const char32_t code = next_code_point(text, at);
    if (code == static_cast<char32_t>(mark) || code == '\\') {
      out.push_back('\\');
      out.push_back(static_cast<char>(code));
    } else if (code == '\n') {
      out += "\\n";
    } else if (code == '\r') {
      out += "\\r";
    } else if (code == '\t') {
      out += "\\t";
    } else if (is_printable(code)) {
      append_utf8(out, code);
    } else {
      append_escaped(out, code);
    }
  }
  out.push_back(mark);
  return out;
}

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 64> buffer{};
  auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific).ptr;
  std::string text(buffer.data(), end);
  const int exponent = std::stoi(text.substr(text.find('e') + 1));
  if (exponent < -4 || exponent >= 16) return text;
  end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed).ptr;
  text.assign(buffer.data(), end);
  return text.find('.') == std::string::npos ? text + ".0" : text;
}

std::string format_float(double value, char type, int precision, bool alternate) {
  const bool upper = type >= 'A' && type <= 'Z';
  if (std::isnan(value)) return upper ? "NAN" : "nan";
  if (std::isinf(value)) return std::string(value < 0 ? "-" : "") + (upper ? "INF" : "inf");
  const std::string pattern = fmt::format("{{:{}.{}{}}}", alternate ? "#" : "", precision, type);
  return fmt::format(fmt::runtime(pattern), value);
}

}  // namespace minfer::chat::jinja
