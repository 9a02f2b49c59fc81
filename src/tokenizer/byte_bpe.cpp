// Byte-level BPE. See byte_bpe.hpp.
#include "tokenizer/byte_bpe.hpp"

#include <algorithm>
#include <bit>
#include <thread>

#include "base/error.hpp"
#include "base/log.hpp"
#include "tokenizer/normalize.hpp"
#include "tokenizer/sentencepiece.hpp"
#include "tokenizer/utf8.hpp"

namespace minfer::tokenizer {
namespace {

constexpr size_t kMergesAtOnce = 256;
constexpr size_t kMergesARound = size_t{1} << 16;
constexpr int kMostThreads = 4;

struct SplitMerge {
  std::string_view left;
  std::string_view right;
};

SplitMerge split_merge(std::string_view merge, size_t rank) {
  const size_t space = merge.find(' ', 1);
  if (space == std::string_view::npos || space + 1 == merge.size()) {
    fail(ErrorCode::invalid_input, "merge {} is '{}'; expected two tokens with a space between", rank, merge);
  }
  return {merge.substr(0, space), merge.substr(space + 1)};
}

// The texts of left, right and joined tokens of a block of merges, one after another, and their ids.
struct MergeBlock {
  std::vector<std::string_view> texts;
  std::vector<TokenId> ids;
  std::string joined;

  void read(const Vocab& vocab, std::span<const std::string_view> merges, size_t first_rank) {
    texts.clear();
    joined.clear();
    size_t bytes = 0;
    for (const std::string_view merge : merges) bytes += merge.size();
    joined.reserve(bytes);  // views of it stay
    for (size_t index = 0; index < merges.size(); ++index) {
      const SplitMerge parts = split_merge(merges[index], first_rank + index);
      const size_t begin = joined.size();
      joined += parts.left;
      joined += parts.right;
      texts.push_back(parts.left);
      texts.push_back(parts.right);
      texts.push_back(std::string_view(joined).substr(begin));
    }
    ids.resize(texts.size());
    vocab.find_all(texts, ids);
    for (size_t index = 0; index < ids.size(); ++index) {
      if (ids[index] >= 0) continue;
      fail(ErrorCode::invalid_input, "merge {} '{}' names '{}', which is no token", first_rank + index / 3,
           merges[index / 3], texts[index]);
    }
  }
};

// Two kinds of files bring the rule of their name, and need not name it.
std::string_view rule_name(const VocabData& data) {
  return data.model != "gpt2" && data.pre.empty() ? data.model : data.pre;
}

}  // namespace

MergeTable::MergeTable(const Vocab& vocab, const std::vector<std::string_view>& merges) {
  if (merges.size() > kMaxMerges) {
    fail(ErrorCode::invalid_input, "the vocabulary has {} merges; the limit is {}", merges.size(), kMaxMerges);
  }
  slots_.resize(std::bit_ceil(merges.size() * 2 + 2));
  const std::span<const std::string_view> all = merges;
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  ThreadPool pool(all.size() < kMergesARound ? 1 : std::clamp(cores, 1, kMostThreads));
  std::vector<Slot> found(std::min(kMergesARound, all.size()));
  for (size_t begin = 0; begin < all.size(); begin += kMergesARound) {
    const size_t count = std::min(kMergesARound, all.size() - begin);
    insert_round(pool, vocab, all.subspan(begin, count), begin, std::span(found).first(count));
  }
}

void MergeTable::insert_round(ThreadPool& pool, const Vocab& vocab, std::span<const std::string_view> merges,
                              size_t first_rank, std::span<Slot> found) {
  std::array<std::vector<Slot>, kMostThreads> left_over;
  pool.run([&](Worker& worker) {
    MergeBlock block;
    worker.parallel_for(static_cast<int64_t>(merges.size()), kMergesAtOnce, [&](int64_t from, int64_t to) {
      const auto begin = static_cast<size_t>(from);
      const size_t count = static_cast<size_t>(to) - begin;
      block.read(vocab, merges.subspan(begin, count), first_rank + begin);
      for (size_t index = 0; index < count; ++index) {
        const TokenId* ids = &block.ids[3 * index];
        found[begin + index] = {ids[0], ids[1], static_cast<uint32_t>(first_rank + begin + index), ids[2]};
      }
    });
    const auto parts = static_cast<size_t>(worker.count());
    const auto part = static_cast<size_t>(worker.index());
    left_over[part] = insert_part(found, slots_.size() * part / parts, slots_.size() * (part + 1) / parts);
  });
  for (const std::vector<Slot>& merges_left : left_over) {
    for (const Slot& merge : merges_left) insert(merge, first_slot(merge.left, merge.right), slots_.size() * 2);
  }
}

// Inserts those whose first slot is in [begin, end). Returns those that find no place there, in their order.
std::vector<MergeTable::Slot> MergeTable::insert_part(std::span<const Slot> merges, size_t begin, size_t end) {
  constexpr size_t kAhead = 16;
  std::vector<Slot> left_over;
  for (size_t index = 0; index < merges.size(); ++index) {
    if (index + kAhead < merges.size()) {
      const Slot& later = merges[index + kAhead];
      __builtin_prefetch(&slots_[first_slot(later.left, later.right)]);
    }
    const Slot& merge = merges[index];
    const size_t slot = first_slot(merge.left, merge.right);
    if (slot >= begin && slot < end && !insert(merge, slot, end)) left_over.push_back(merge);
  }
  return left_over;
}

// Whether there was a place from `slot` on before `end`, which may be beyond the last slot: the first ones follow it.
bool MergeTable::insert(const Slot& merge, size_t slot, size_t end) {
  for (; slot < end; ++slot) {
    Slot& entry = slots_[slot & (slots_.size() - 1)];
    // Listed twice: the first has the better rank.
    if (entry.left == merge.left && entry.right == merge.right) return true;
    if (entry.left < 0) {
      entry = merge;
      return true;
    }
  }
  return false;
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
  if (rule_.whole_characters) {
    for (size_t id = 0; id < vocab_.size(); ++id) cuts_.add(vocab_.text(static_cast<TokenId>(id)));
    cuts_.finish();
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

size_t ByteBpe::most_shrink() const {
  if (rule_.whole_characters || lowercase_) return 0;
  if (!rule_.normalize_nfc) return 1;
  // What form C composes has two bytes or more, and is made of at most four characters of at most four bytes.
  constexpr size_t kMostComposed = 8;
  const bool keeps_all = std::all_of(byte_ids_.begin(), byte_ids_.end(), [](TokenId id) { return id >= 0; });
  return keeps_all ? kMostComposed : 0;
}

size_t ByteBpe::kept_bytes(std::string_view text) const {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [this](char c) { return byte_ids_[static_cast<uint8_t>(c)] >= 0; }));
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
  for (const std::string_view piece : pretokenizer_.split(text, scratch.regex)) {
    if (rule_.whole_characters) {
      cuts_.for_each_word(piece, [&](std::string_view word) { encode_word(word, scratch, out); });
    } else {
      encode_word(piece, scratch, out);
    }
  }
  if (scratch.dropped_bytes) {
    log(LogLevel::warning, "a text has characters whose bytes are no tokens of this vocabulary; they were left out");
  }
}

void ByteBpe::encode_word(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const {
  scratch.cache.encode(word, out, [&] { encode_new_word(word, scratch, out); });
}

void ByteBpe::encode_new_word(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const {
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
