// Byte-level BPE. See byte_bpe.hpp.
#include "tokenizer/byte_bpe.hpp"

#include <algorithm>
#include <bit>

#include "base/error.hpp"
#include "base/log.hpp"
#include "tokenizer/normalize.hpp"
#include "tokenizer/sentencepiece.hpp"
#include "tokenizer/utf8.hpp"

namespace minfer::tokenizer {
namespace {

TokenId merge_part(const Vocab& vocab, std::string_view text, size_t rank, std::string_view merge) {
  const TokenId id = vocab.find(text);
  if (id < 0) fail(ErrorCode::invalid_input, "merge {} '{}' names '{}', which is no token", rank, merge, text);
  return id;
}

// Two kinds of files bring the rule of their name, and need not name it.
std::string_view rule_name(const VocabData& data) {
  if (data.model != "gpt2" && data.pre.empty()) return data.model;
  if (data.model == "gemma4") return data.model;
  return data.pre;
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
      rule_(find_pretokenizer_rule(rule_name(vocab.data()))),
      pretokenizer_(rule_),
      merges_(vocab, vocab.data().merges) {
  if (rule_.names.back().empty() && vocab.data().pre.empty()) {
    log(LogLevel::warning,
        "the file names no pre-tokenizer rule (tokenizer.ggml.pre); '{}' is used. If the model was made with another, "
        "give it with --pre NAME",
        rule_.names[0]);
  }
  lowercase_ = rule_.drops_space && vocab.data().lowercase.value_or(false);
  std::string text;
  for (unsigned byte = 0; byte < 256; ++byte) {
    text.clear();
    if (rule_.whole_characters) {
      text = fmt::format("<0x{:02X}>", byte);
    } else {
      append_utf8(text, byte_level_character(static_cast<uint8_t>(byte)));
    }
    byte_ids_[byte] = vocab_.find(text);
  }
}

// What the rule does to a text before it is split.
std::string_view ByteBpe::prepared(std::string_view text, Scratch& scratch) const {
  if (rule_.normalize_nfc) return normalize_nfc(text, scratch.normalized);
  if (lowercase_) return lowercase(text, scratch.normalized);
  if (!rule_.whole_characters || rule_.drops_space) return text;
  replace_spaces(text, scratch.normalized);
  return scratch.normalized;
}

void ByteBpe::encode(std::string_view text, Scratch& scratch, std::vector<TokenId>& out) const {
  text = prepared(text, scratch);
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
  if (rule_.ignore_merges && !rule_.whole_characters && word.size() <= kMaxTokenBytes) {
    scratch.word_text.clear();
    for (const char c : word) append_utf8(scratch.word_text, byte_level_character(static_cast<uint8_t>(c)));
    const TokenId whole = vocab_.find(scratch.word_text);
    // A control token is never made from text that was not parsed for special tokens.
    if (whole >= 0 && vocab_.type(whole) == TokenType::normal) {
      out.push_back(whole);
      return;
    }
  }
  append_symbols(word, scratch);
  auto& symbols = scratch.merge.symbols;
  if (symbols.empty()) return;
  merge_symbols(scratch.merge,
                [this](const Symbol& left, const Symbol& right) { return merges_.find(left.id, right.id); });
  for (int32_t index = 0; index >= 0; index = symbols[static_cast<size_t>(index)].next) {
    const Symbol& symbol = symbols[static_cast<size_t>(index)];
    if (symbol.id >= 0) {
      out.push_back(symbol.id);
    } else {
      append_unmerged(word.substr(symbol.begin, symbol.size), scratch, out);
    }
  }
}

void ByteBpe::append_symbols(std::string_view word, Scratch& scratch) const {
  auto& symbols = scratch.merge.symbols;
  symbols.clear();
  if (rule_.whole_characters) {
    for (size_t at = 0; at < word.size();) {
      const size_t size = utf8_step(word, at).size_bytes;
      const TokenId id = vocab_.find(word.substr(at, size));
      const bool is_text = id >= 0 && vocab_.type(id) == TokenType::normal;
      append_symbol(symbols, static_cast<uint32_t>(at), static_cast<uint32_t>(size), is_text ? id : -1);
      at += size;
    }
    return;
  }
  for (const char c : word) {
    const TokenId id = byte_ids_[static_cast<uint8_t>(c)];
    if (id < 0) {
      scratch.dropped_bytes = true;
    } else {
      append_symbol(symbols, 0, 1, id);
    }
  }
}

void ByteBpe::append_unmerged(std::string_view character, Scratch& scratch, std::vector<TokenId>& out) const {
  const bool has_bytes = std::all_of(character.begin(), character.end(),
                                     [this](char c) { return byte_ids_[static_cast<uint8_t>(c)] >= 0; });
  if (has_bytes) {
    for (const char c : character) out.push_back(byte_ids_[static_cast<uint8_t>(c)]);
  } else if (vocab_.unk()) {
    out.push_back(*vocab_.unk());
  } else {
    scratch.dropped_bytes = true;
  }
}

void ByteBpe::append_bytes(TokenId id, std::string& out) const {
  const std::string_view text = vocab_.text(id);
  if (rule_.whole_characters) {
    append_sentencepiece_bytes(vocab_, id, out);
    return;
  }
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
