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

char ascii_upper(char byte) {
  return byte >= 'a' && byte <= 'z' ? static_cast<char>(byte - 32) : byte;
}
char ascii_lower(char byte) {
  return byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte + 32) : byte;
}

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

bool is_case_ignorable(char32_t code) {
  return u_hasBinaryProperty(static_cast<UChar32>(code), UCHAR_CASE_IGNORABLE) != 0;
}

// Whether the nearest code point before `at` that is not case-ignorable is cased.
bool cased_before(std::string_view text, size_t at) {
  while (at > 0) {
    size_t begin = at - 1;
    while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0u) == 0x80u) --begin;
    at = begin;
    const char32_t code = next_code_point(text, begin);
    if (!is_case_ignorable(code)) return is_cased(code);
  }
  return false;
}

bool cased_after(std::string_view text, size_t at) {
  while (at < text.size()) {
    const char32_t code = next_code_point(text, at);
    if (!is_case_ignorable(code)) return is_cased(code);
  }
  return false;
}

// The lower case of the code point at [begin, end) of `text`: a capital sigma at a word's end has a form of its own.
std::string lower_of(std::string_view text, size_t begin, size_t end) {
  constexpr std::string_view kCapitalSigma = "Σ";
  const std::string_view one = text.substr(begin, end - begin);
  if (one != kCapitalSigma) return to_lower(one);
  return cased_before(text, begin) && !cased_after(text, end) ? "ς" : "σ";
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
  if (is_ascii(text)) return title_of(text.substr(0, 1)) + to_lower(text.substr(1));
  std::string out = title_of(text.substr(0, end));
  for (size_t at = end; at < text.size();) {
    const size_t begin = at;
    next_code_point(text, at);
    out += lower_of(text, begin, at);
  }
  return out;
}

std::string to_title(std::string_view text) {
  std::string out;
  bool in_word = false;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t code = next_code_point(text, at);
    out += in_word ? lower_of(text, begin, at) : title_of(text.substr(begin, at - begin));
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
    out += upper ? lower_of(text, begin, at) : lower ? to_upper(one) : std::string(one);
  }
  return out;
}

std::string fold_case(std::string_view text) {
  if (is_ascii(text)) return to_lower(text);
  return from_icu(to_icu(text).foldCase());
}

}  // namespace minfer::chat::jinja
