// Byte-level BPE. See byte_bpe.hpp.
#include "tokenizer/byte_bpe.hpp"

#include <bit>

#include "base/error.hpp"
#include "base/log.hpp"
#include "tokenizer/normalize.hpp"
#include "tokenizer/utf8.hpp"

namespace minfer::tokenizer {
namespace {

TokenId merge_part(const Vocab& vocab, std::string_view text, size_t rank, std::string_view merge) {
  const TokenId id = vocab.find(text);
  if (id < 0) fail(ErrorCode::invalid_input, "merge {} '{}' names '{}', which is no token", rank, merge, text);
  return id;
}

}  // namespace

MergeTable::MergeTable(const Vocab& vocab, const std::vector<std::string_view>& merges) {
  if (merges.size() > kMaxMerges) {
    fail(ErrorCode::invalid_input, "the vocabulary has {} merges; the limit is {}", merges.size(), kMaxMerges);
  }
  slots_.resize(std::bit_ceil(merges.size() * 2 + 2));
  std::string joined;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string_view merge = merges[rank];
    const size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size()) {
      fail(ErrorCode::invalid_input, "merge {} is '{}'; expected two tokens with a space between", rank, merge);
    }
    joined.assign(merge.substr(0, space));
    joined += merge.substr(space + 1);
    const TokenId left = merge_part(vocab, merge.substr(0, space), rank, merge);
    const TokenId right = merge_part(vocab, merge.substr(space + 1), rank, merge);
    const TokenId merged = merge_part(vocab, joined, rank, merge);
    size_t slot = first_slot(left, right);
    while (slots_[slot].left >= 0 && (slots_[slot].left != left || slots_[slot].right != right)) {
      slot = (slot + 1) & (slots_.size() - 1);
    }
    if (slots_[slot].left >= 0) continue;  // listed twice: the first has the better rank
    slots_[slot] = {left, right, static_cast<uint32_t>(rank), merged};
  }
}

size_t MergeTable::first_slot(TokenId left, TokenId right) const {
  uint64_t key = (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
  key *= 0x9E3779B97F4A7C15u;  // the golden ratio: spreads neighbouring ids
  return static_cast<size_t>(key ^ (key >> 32)) & (slots_.size() - 1);
}

MergeChoice MergeTable::find(TokenId left, TokenId right) const {
  for (size_t slot = first_slot(left, right);; slot = (slot + 1) & (slots_.size() - 1)) {
    const Slot& entry = slots_[slot];
    if (entry.left < 0) return {0, -1};
    if (entry.left == left && entry.right == right) return {entry.rank, entry.merged};
  }
}

ByteBpe::ByteBpe(const Vocab& vocab)
    : vocab_(vocab),
      rule_(find_pretokenizer_rule(vocab.data().pre)),
      pretokenizer_(rule_),
      merges_(vocab, vocab.data().merges) {
  std::string text;
  for (unsigned byte = 0; byte < 256; ++byte) {
    text.clear();
    append_utf8(text, byte_level_character(static_cast<uint8_t>(byte)));
    byte_ids_[byte] = vocab_.find(text);
  }
}

void ByteBpe::encode(std::string_view text, Scratch& scratch, std::vector<TokenId>& out) const {
  if (rule_.normalize_nfc) text = normalize_nfc(text, scratch.normalized);
  scratch.dropped_bytes = false;
  for (const std::string_view word : pretokenizer_.split(text, scratch.regex)) {
    const uint64_t hash = WordCache::hash(word);
    const std::span<const TokenId> known = scratch.cache.find(word, hash);
    if (!known.empty()) {
      out.insert(out.end(), known.begin(), known.end());
      continue;
    }
    const size_t before = out.size();
    encode_word(word, scratch, out);
    scratch.cache.insert(word, hash, std::span<const TokenId>(out).subspan(before));
  }
  if (scratch.dropped_bytes) {
    log(LogLevel::warning, "a text has characters whose bytes are no tokens of this vocabulary; they were left out");
  }
}

void ByteBpe::encode_word(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const {
  if (rule_.ignore_merges && word.size() <= kMaxTokenBytes) {
    scratch.word_text.clear();
    for (const char c : word) append_utf8(scratch.word_text, byte_level_character(static_cast<uint8_t>(c)));
    const TokenId whole = vocab_.find(scratch.word_text);
    // A control token is never made from text that was not parsed for special tokens.
    if (whole >= 0 && vocab_.type(whole) == TokenType::normal) {
      out.push_back(whole);
      return;
    }
  }
  auto& symbols = scratch.merge.symbols;
  symbols.clear();
  for (const char c : word) {
    const TokenId id = byte_ids_[static_cast<uint8_t>(c)];
    if (id < 0) {
      scratch.dropped_bytes = true;
    } else {
      append_symbol(symbols, 0, 1, id);
    }
  }
  if (symbols.empty()) return;
  merge_symbols(scratch.merge,
                [this](const Symbol& left, const Symbol& right) { return merges_.find(left.id, right.id); });
  for (int32_t index = 0; index >= 0; index = symbols[static_cast<size_t>(index)].next) {
    out.push_back(symbols[static_cast<size_t>(index)].id);
  }
}

void ByteBpe::append_bytes(TokenId id, std::string& out) const {
  const std::string_view text = vocab_.text(id);
  if (vocab_.type(id) != TokenType::normal && vocab_.type(id) != TokenType::unused) {
    out += text;
    return;
  }
  for (size_t offset = 0; offset < text.size();) {
    const Utf8Step step = utf8_step(text, offset);
    const int byte = step.status == Utf8Status::whole ? byte_level_byte(step.character) : -1;
    // Texts that converters add beside the byte-level ones may hold other characters; they stand for themselves.
    if (byte >= 0) {
      out.push_back(static_cast<char>(byte));
    } else {
      out += text.substr(offset, step.size_bytes);
    }
    offset += step.size_bytes;
  }
}

}  // namespace minfer::tokenizer
