// Forms C and D through ICU, linear on runs of combining marks. See normalize.hpp.
#include "tokenizer/normalize.hpp"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/stringpiece.h>
#include <unicode/uchar.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "base/error.hpp"
#include "tokenizer/utf8.hpp"

namespace minfer::tokenizer {
namespace {

constexpr size_t kLongMarkRun = 32;
constexpr char32_t kFirstMark = 0x300;  // no character before has a combining class or changes under form C

struct Mark {
  uint8_t combining_class;
  uint32_t order;  // place in the run: marks of one class keep their order
  char32_t character;
};

// Characters that decompose into combining marks only; form C never composes them again.
std::u32string_view mark_decomposition(char32_t character) {
  switch (character) {
    case 0x0344:
      return U"\u0308\u0301";
    case 0x0F73:
      return U"\u0F71\u0F72";
    case 0x0F75:
      return U"\u0F71\u0F74";
    case 0x0F81:
      return U"\u0F71\u0F80";
    default:
      return {};
  }
}

uint8_t combining_class(char32_t character) {
  return character < kFirstMark ? uint8_t{0} : u_getCombiningClass(static_cast<UChar32>(character));
}

bool has_long_mark_run(std::string_view text) {
  size_t run = 0;
  for (size_t offset = 0; offset < text.size();) {
    const Utf8Step step = utf8_step(text, offset);
    offset += step.size_bytes;
    const bool mark = combining_class(step.character) != 0 || !mark_decomposition(step.character).empty();
    run = mark ? run + 1 : 0;
    if (run > kLongMarkRun) return true;
  }
  return false;
}

// Puts every run of combining marks into canonical order.
std::string sort_mark_runs(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  std::vector<Mark> run;
  const auto flush = [&] {
    std::sort(run.begin(), run.end(), [](const Mark& a, const Mark& b) {
      return std::tie(a.combining_class, a.order) < std::tie(b.combining_class, b.order);
    });
    for (const Mark& mark : run) append_utf8(out, mark.character);
    run.clear();
  };
  const auto add = [&run](char32_t mark) {
    run.push_back({combining_class(mark), static_cast<uint32_t>(run.size()), mark});
  };
  for (size_t offset = 0; offset < text.size();) {
    const Utf8Step step = utf8_step(text, offset);
    offset += step.size_bytes;
    const std::u32string_view parts = mark_decomposition(step.character);
    for (const char32_t part : parts) add(part);
    if (!parts.empty()) continue;
    if (combining_class(step.character) != 0) {
      add(step.character);
    } else {
      flush();
      append_utf8(out, step.character);
    }
  }
  flush();
  return out;
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<uint8_t>(c) < 0x80; });
}

std::string_view normalize(const icu::Normalizer2* form, UErrorCode status, std::string_view text,
                           std::string& storage) {
  if (U_FAILURE(status)) fail(ErrorCode::internal, "ICU has no normalization data: {}", u_errorName(status));
  std::string sorted;
  if (has_long_mark_run(text)) {
    sorted = sort_mark_runs(text);
    text = sorted;
  }
  const icu::StringPiece piece(text.data(), static_cast<int32_t>(text.size()));
  if (sorted.empty() && form->isNormalizedUTF8(piece, status) && U_SUCCESS(status)) return text;
  storage.clear();
  icu::StringByteSink<std::string> sink(&storage);
  form->normalizeUTF8(0, piece, sink, nullptr, status);
  if (U_FAILURE(status)) fail(ErrorCode::internal, "ICU failed to normalise a text: {}", u_errorName(status));
  return storage;
}

constexpr char32_t kCapitalIWithDot = 0x130;  // the one character whose lower case is two, whatever the language

}  // namespace

std::string_view normalize_nfc(std::string_view text, std::string& storage) {
  if (is_ascii(text)) return text;
  UErrorCode status = U_ZERO_ERROR;
  return normalize(icu::Normalizer2::getNFCInstance(status), status, text, storage);
}

std::string_view normalize_nfd(std::string_view text, std::string& storage) {
  if (is_ascii(text)) return text;
  UErrorCode status = U_ZERO_ERROR;
  return normalize(icu::Normalizer2::getNFDInstance(status), status, text, storage);
}

std::string_view lowercase(std::string_view text, std::string& storage) {
  storage.clear();
  for (size_t offset = 0; offset < text.size();) {
    const Utf8Step step = utf8_step(text, offset);
    if (step.character == kCapitalIWithDot) {
      storage += "i\xCC\x87";
    } else {
      append_utf8(storage, static_cast<char32_t>(u_tolower(static_cast<UChar32>(step.character))));
    }
    offset += step.size_bytes;
  }
  return storage;
}

}  // namespace minfer::tokenizer
