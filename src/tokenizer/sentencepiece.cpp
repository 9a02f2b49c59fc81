// SentencePiece BPE. See sentencepiece.hpp.
#include "tokenizer/sentencepiece.hpp"

#include <algorithm>
#include <bit>

#include "base/error.hpp"
#include "tokenizer/utf8.hpp"

namespace minfer::tokenizer {
namespace {

constexpr uint32_t kNeverMerged = UINT32_MAX;
constexpr uint32_t kSpaceRunKeys = 0x007FFFFF;  // keys below belong to runs of spaces: score_key maps no number there

// Maps a score to an integer that is smaller for a greater score.
uint32_t score_key(float score) {
  const auto bits = std::bit_cast<uint32_t>(score == 0.0F ? 0.0F : score);
  const uint32_t ascending = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return ~ascending;
}

void append_with_marks(std::string_view text, std::string& out) {
  for (const char c : text) {
    if (c == ' ') {
      out += kSpaceMark;
    } else {
      out.push_back(c);
    }
  }
}

bool is_space_run(std::string_view text) {
  for (; text.starts_with(kSpaceMark); text.remove_prefix(kSpaceMark.size())) {
  }
  return text.empty();
}

}  // namespace

void replace_spaces(std::string_view text, std::string& out) {
  out.clear();
  append_with_marks(text, out);
}

SentencePieceBpe::SentencePieceBpe(const Vocab& vocab) : vocab_(vocab) {
  check_scores(vocab);
  byte_ids_.fill(-1);
  read_keys();
  for (size_t ascii = 0; ascii < ascii_ids_.size(); ++ascii) {
    const char character = static_cast<char>(ascii);
    ascii_ids_[ascii] = character_id({&character, 1});
  }
  cuts_.finish();
}

void SentencePieceBpe::read_keys() {
  keys_.assign(vocab_.size(), kNeverMerged);
  for (size_t index = 0; index < keys_.size(); ++index) {
    const auto id = static_cast<TokenId>(index);
    const float score = vocab_.data().scores[index];
    const std::string_view text = vocab_.text(id);
    const TokenType type = vocab_.type(id);
    if (type == TokenType::byte) {
      byte_ids_[static_cast<size_t>(parse_byte_token(text))] = id;
    } else if (type == TokenType::normal || type == TokenType::unused) {
      keys_[index] = score_key(score);
      cuts_.add(text);
    } else if (type == TokenType::user_defined && is_space_run(text)) {
      keys_[index] = kSpaceRunKeys - static_cast<uint32_t>(text.size());
    }
    if (keys_[index] != kNeverMerged) longest_token_bytes_ = std::max(longest_token_bytes_, text.size());
  }
}

TokenId SentencePieceBpe::character_id(std::string_view character) const {
  const TokenId id = vocab_.find(character);
  return id >= 0 && keys_[static_cast<size_t>(id)] != kNeverMerged ? id : -1;
}

MergeChoice SentencePieceBpe::choose(std::string_view word, const Symbol& left, const Symbol& right) const {
  const size_t size = left.size + right.size;
  if (size > longest_token_bytes_) return {0, -1};
  const TokenId id = vocab_.find(word.substr(left.begin, size));
  if (id < 0 || keys_[static_cast<size_t>(id)] == kNeverMerged) return {0, -1};
  return {(static_cast<uint64_t>(keys_[static_cast<size_t>(id)]) << 32) | (UINT32_MAX - left.size), id};
}

void SentencePieceBpe::encode(std::string_view text, bool with_space, Scratch& scratch,
                              std::vector<TokenId>& out) const {
  std::string& marked = scratch.marked;
  marked.clear();
  if (with_space) marked += kSpaceMark;
  append_with_marks(text, marked);
  cuts_.for_each_word(marked, [&](std::string_view word) { encode_word(word, scratch, out); });
}

void SentencePieceBpe::encode_word(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const {
  scratch.cache.encode(word, out, [&] { encode_new_word(word, scratch, out); });
}

void SentencePieceBpe::encode_new_word(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const {
  auto& symbols = scratch.merge.symbols;
  symbols.clear();
  for (size_t at = 0; at < word.size();) {
    const auto byte = static_cast<uint8_t>(word[at]);
    const size_t size = byte < 0x80 ? 1 : utf8_step(word, at).size_bytes;
    const TokenId id = byte < 0x80 ? ascii_ids_[byte] : character_id(word.substr(at, size));
    append_symbol(symbols, static_cast<uint32_t>(at), static_cast<uint32_t>(size), id);
    at += size;
  }
  merge_symbols(scratch.merge,
                [this, word](const Symbol& left, const Symbol& right) { return choose(word, left, right); });
  for (int32_t index = 0; index >= 0; index = symbols[static_cast<size_t>(index)].next) {
    const Symbol& symbol = symbols[static_cast<size_t>(index)];
    if (symbol.id >= 0) {
      out.push_back(symbol.id);
    } else {
      append_unmerged(word.substr(symbol.begin, symbol.size), out);
    }
  }
}

void SentencePieceBpe::append_unmerged(std::string_view character, std::vector<TokenId>& out) const {
  const bool has_bytes = std::all_of(character.begin(), character.end(),
                                     [this](char c) { return byte_ids_[static_cast<uint8_t>(c)] >= 0; });
  if (has_bytes) {
    for (const char c : character) out.push_back(byte_ids_[static_cast<uint8_t>(c)]);
  } else if (vocab_.unk()) {
    out.push_back(*vocab_.unk());
  } else {
    fail(ErrorCode::invalid_input,
         "the character '{}' has no token, and the vocabulary has neither tokens for its bytes nor an unknown token",
         character);
  }
}

void append_sentencepiece_bytes(const Vocab& vocab, TokenId id, std::string& out) {
  std::string_view text = vocab.text(id);
  const TokenType type = vocab.type(id);
  if (type == TokenType::byte) {
    out.push_back(static_cast<char>(parse_byte_token(text)));
    return;
  }
  if (type == TokenType::control || type == TokenType::unknown) {
    out += text;
    return;
  }
  for (size_t mark = text.find(kSpaceMark); mark != std::string_view::npos; mark = text.find(kSpaceMark)) {
    out += text.substr(0, mark);
    out += ' ';
    text.remove_prefix(mark + kSpaceMark.size());
  }
  out += text;
}

}  // namespace minfer::tokenizer
