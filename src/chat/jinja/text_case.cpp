// Case mapping as Python does it: full mappings (one code point may become several), final sigma, title case per word.
// ASCII text takes a direct path; everything else goes through ICU.
#include <unicode/locid.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>

#include "chat/jinja/text.hpp"

namespace minfer::chat::jinja {
namespace {

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char byte) { return static_cast<unsigned char>(byte) < 0x80; });
}

char ascii_upper(char byte) { return byte >= 'a' && byte <= 'z' ? static_cast<char>(byte - 32) : byte; }
char ascii_lower(char byte) { return byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte + 32) : byte; }

icu::UnicodeString to_icu(std::string_view text) {
  return icu::UnicodeString::fromUTF8(icu::StringPiece(text.data(), static_cast<int32_t>(text.size())));
}

std::string from_icu(const icu::UnicodeString& text) {
  std::string out;
  text.toUTF8String(out);
  return out;
}

// The full title-case mapping of one code point.
std::string title_of(std::string_view one) {
  if (one.size() == 1) return std::string(1, ascii_upper(one[0]));
  return from_icu(to_icu(one).toTitle(nullptr, icu::Locale::getRoot()));
}

bool is_cased(char32_t code) {
  const auto point = static_cast<UChar32>(code);
  return u_hasBinaryProperty(point, UCHAR_LOWERCASE) != 0 || u_hasBinaryProperty(point, UCHAR_UPPERCASE) != 0 ||
         u_charType(point) == U_TITLECASE_LETTER;
}

}  // namespace

std::string to_upper(std::string_view text) {
  std::string out(text);
  if (is_ascii(text)) {
    std::transform(out.begin(), out.end(), out.begin(), ascii_upper);
    return out;
  }
  return from_icu(to_icu(text).toUpper(icu::Locale::getRoot()));
}

std::string to_lower(std::string_view text) {
  std::string out(text);
  if (is_ascii(text)) {
    std::transform(out.begin(), out.end(), out.begin(), ascii_lower);
    return out;
  }
  return from_icu(to_icu(text).toLower(icu::Locale::getRoot()));
}

std::string capitalize(std::string_view text) {
  if (text.empty()) return {};
  size_t end = 0;
  next_code_point(text, end);
  return title_of(text.substr(0, end)) + to_lower(text.substr(end));
}

std::string to_title(std::string_view text) {
  const std::string lower = to_lower(text);
  const bool same_length = count_code_points(lower) == count_code_points(text);
  std::string out;
  bool in_word = false;
  size_t lower_at = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t code = next_code_point(text, at);
    const size_t lower_begin = lower_at;
    if (same_length) next_code_point(lower, lower_at);
    const std::string_view one = text.substr(begin, at - begin);
    if (!in_word) {
      out += title_of(one);
    } else if (same_length) {  // the whole text's lower case knows about final sigma
      out += std::string_view(lower).substr(lower_begin, lower_at - lower_begin);
    } else {
      out += to_lower(one);
    }
    in_word = is_cased(code);
  }
  return out;
}

std::string swap_case(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const auto code = static_cast<UChar32>(next_code_point(text, at));
    const std::string_view one = text.substr(begin, at - begin);
    const bool upper = u_hasBinaryProperty(code, UCHAR_UPPERCASE) != 0;
    const bool lower = u_hasBinaryProperty(code, UCHAR_LOWERCASE) != 0;
    out += upper ? to_lower(one) : lower ? to_upper(one) : std::string(one);
  }
  return out;
}

std::string fold_case(std::string_view text) {
  if (is_ascii(text)) return to_lower(text);
  return from_icu(to_icu(text).foldCase());
}

}  // namespace minfer::chat::jinja
