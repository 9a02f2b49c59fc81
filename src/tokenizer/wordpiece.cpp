// WordPiece. See wordpiece.hpp. Character classes are ICU's.
#include "tokenizer/wordpiece.hpp"

#include <unicode/uchar.h>

#include <algorithm>

#include "base/error.hpp"
#include "tokenizer/normalize.hpp"
#include "tokenizer/sentencepiece.hpp"
#include "tokenizer/utf8.hpp"

namespace minfer::tokenizer {
namespace {

constexpr char32_t kAsciiEnd = 0x80;
constexpr char32_t kReplacement = 0xFFFD;

uint32_t category_mask(char32_t character) {
  return U_GET_GC_MASK(static_cast<UChar32>(character));
}

bool is_removed(char32_t character) {
  if (character == '\t' || character == '\n' || character == '\r') return false;
  if (character < kAsciiEnd) return character < 0x20 || character == 0x7F;
  return character == kReplacement || (category_mask(character) & (U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK)) != 0;
}

bool is_space(char32_t character) {
  if (character < kAsciiEnd) return character == ' ' || (character >= '\t' && character <= '\r');
  return u_isUWhiteSpace(static_cast<UChar32>(character)) != 0;
}

bool is_punctuation(char32_t character) {
  if (character < kAsciiEnd) {  // its symbols too
    const bool is_letter = (character | 0x20) >= 'a' && (character | 0x20) <= 'z';
    return character > ' ' && character < 0x7F && !is_letter && !(character >= '0' && character <= '9');
  }
  return (category_mask(character) & U_GC_P_MASK) != 0;
}

// The blocks that the published tokenizer calls Chinese. One begins at U+2B920 there, not at its first character.
bool is_chinese(char32_t character) {
  struct Block {
    char32_t first;
    char32_t last;
  };
  constexpr Block kBlocks[] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},   {0x20000, 0x2A6DF},
                               {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};
  if (character < kBlocks[0].first) return false;
  return std::any_of(std::begin(kBlocks), std::end(kBlocks),
                     [character](const Block& block) { return character >= block.first && character <= block.last; });
}

bool is_continuation(char byte) {
  return (static_cast<uint8_t>(byte) & 0xC0) == 0x80;
}

// Calls next(character, bytes) for each character of `text`.
template <class Next>
void for_each_character(std::string_view text, const Next& next) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Step step = utf8_step(text, at);
    next(step.character, text.substr(at, step.size_bytes));
    at += step.size_bytes;
  }
}

void clean(std::string_view text, std::string& out) {
  out.clear();
  for_each_character(text, [&out](char32_t character, std::string_view bytes) {
    if (is_removed(character)) return;
    const bool alone = is_chinese(character);
    if (alone || is_space(character)) out += ' ';
    if (!is_space(character)) out += bytes;
    if (alone) out += ' ';
  });
}

void drop_accents(std::string& text) {
  std::string kept;
  for_each_character(text, [&kept](char32_t character, std::string_view bytes) {
    if (character < kAsciiEnd || (category_mask(character) & U_GC_MN_MASK) == 0) kept += bytes;
  });
  text.swap(kept);
}

}  // namespace

WordPiece::WordPiece(const Vocab& vocab)
    : vocab_(vocab),
      lowercase_(vocab.data().lowercase.value_or(true)),
      strip_accents_(vocab.data().strip_accents.value_or(lowercase_)) {
  if (!vocab.unk()) {
    fail(ErrorCode::invalid_input,
         "a 'bert' tokenizer needs an unknown token: neither tokenizer.ggml.unknown_token_id nor a token '[UNK]' is "
         "there");
  }
  for (size_t id = 0; id < vocab.size(); ++id) {
    longest_token_bytes_ = std::max(longest_token_bytes_, vocab.text(static_cast<TokenId>(id)).size());
  }
}

// Accents are taken off what was cleaned, and lower case is made of what has none: the order that is published.
std::string_view WordPiece::normalized(std::string_view text, Scratch& scratch) const {
  clean(text, scratch.cleaned);
  std::string_view result = scratch.cleaned;
  if (strip_accents_) {
    result = normalize_nfd(result, scratch.decomposed);
    if (result.data() != scratch.decomposed.data()) scratch.decomposed = result;
    drop_accents(scratch.decomposed);
    result = scratch.decomposed;
  }
  return lowercase_ ? lowercase(result, scratch.lowered) : result;
}

void WordPiece::encode(std::string_view text, Scratch& scratch, std::vector<TokenId>& out) const {
  const std::string_view all = normalized(text, scratch);
  size_t begin = 0;
  size_t at = 0;
  const auto end_word = [&] {
    if (at > begin) encode_word(all.substr(begin, at - begin), scratch, out);
  };
  for_each_character(all, [&](char32_t character, std::string_view bytes) {
    const bool space = is_space(character);
    if (space || is_punctuation(character)) {
      end_word();
      begin = at + bytes.size();
      if (!space) encode_word(bytes, scratch, out);
    }
    at += bytes.size();
  });
  end_word();
}

void WordPiece::encode_word(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const {
  scratch.cache.encode(word, out, [&] { encode_new_word(word, scratch, out); });
}

void WordPiece::encode_new_word(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const {
  const size_t before = out.size();
  const auto characters = std::count_if(word.begin(), word.end(), [](char c) { return !is_continuation(c); });
  scratch.word.assign(kSpaceMark);
  bool covered = static_cast<size_t>(characters) <= kMaxWordCharacters;
  if (covered) {
    scratch.word += word;
    covered = cover_word(scratch.word, out);
  }
  if (!covered) {
    out.resize(before);
    out.push_back(*vocab_.unk());
  }
}

bool WordPiece::cover_word(std::string_view marked, std::vector<TokenId>& out) const {
  // The first token has the mark in it: the mark alone covers nothing of the word.
  size_t shortest = kSpaceMark.size() + 1;
  for (size_t begin = 0; begin < marked.size(); shortest = 1) {
    TokenId best = -1;
    // A "▁" of the text itself: tokens that have one first begin a word.
    if (begin > 0 && marked.substr(begin).starts_with(kSpaceMark)) return false;
    size_t size = std::min(marked.size() - begin, longest_token_bytes_);
    for (; size >= shortest; --size) {
      if (begin + size < marked.size() && is_continuation(marked[begin + size])) continue;
      best = vocab_.find(marked.substr(begin, size));
      // A control token is never made from text that was not parsed for special tokens.
      if (best >= 0 && vocab_.type(best) == TokenType::normal) break;
      best = -1;
    }
    if (best < 0) return false;
    out.push_back(best);
    begin += size;
  }
  return true;
}

void WordPiece::append_bytes(TokenId id, std::string& out) const {
  append_sentencepiece_bytes(vocab_, id, out);
}

}  // namespace minfer::tokenizer
