// Byte-level BPE ("gpt2" models): text is split into words (pretokenizer.hpp), a word's bytes are its first symbols,
// and neighbours merge in the order of the file's merge list. The list is resolved to ids once, at construction. A byte
// that the vocabulary has no token for is left out, as the published tokenizers do, and reported to the log.
// A rule may ask for whole characters: symbols are characters, spaces are "▁", and a character without a token becomes
// the tokens of its bytes, else the unknown token; such text is cut into words where that changes nothing
// (space_cuts.hpp). Words are cached. Immutable;
// scratch belongs to the caller, one thread at a time. Oracle: the Python package `tokenizers` with the models'
// published tokenizer.json.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.hpp"
#include "tokenizer/merge.hpp"
#include "tokenizer/pretokenizer.hpp"
#include "tokenizer/space_cuts.hpp"
#include "tokenizer/vocab.hpp"
#include "tokenizer/word_cache.hpp"

namespace minfer::tokenizer {

constexpr size_t kMaxMerges = size_t{1} << 24;

// The merge list by pair of ids: open addressing, at most half full. Made by some threads, a round of merges after the
// other: they look up the tokens of blocks, then each inserts what begins in its part of the slots.
class MergeTable {
 public:
  // Errors: invalid_input naming a merge that is malformed or names a text that is no token.
  MergeTable(const Vocab& vocab, const std::vector<std::string_view>& merges);
  MergeChoice find(TokenId left, TokenId right) const;

 private:
  struct Slot {
    TokenId left = -1;
    TokenId right = -1;
    uint32_t rank = 0;
    TokenId merged = -1;
  };
  // `found`: room for the merges, with their tokens.
  void insert_round(ThreadPool& pool, const Vocab& vocab, std::span<const std::string_view> merges, size_t first_rank,
                    std::span<Slot> found);
  std::vector<Slot> insert_part(std::span<const Slot> merges, size_t begin, size_t end);
  bool insert(const Slot& merge, size_t slot, size_t end);
  size_t first_slot(TokenId left, TokenId right) const;
  std::vector<Slot> slots_;
};

class ByteBpe {
 public:
  struct Scratch {
    MergeScratch merge;
    Pretokenizer::Scratch regex;
    WordCache cache;
    std::string normalized;
    std::string word_text;
    bool dropped_bytes = false;  // in the last encode()
  };

  // `vocab` must outlive this. Errors: those of the rule's name and of the merge list.
  explicit ByteBpe(const Vocab& vocab);

  const PretokenizerRule& rule() const { return rule_; }
  // By how much a text may get shorter before it is cut into tokens, its kept_bytes() aside; 0: not known.
  size_t most_shrink() const;
  // The bytes of a text that the vocabulary has tokens for.
  size_t kept_bytes(std::string_view text) const;
  // Appends the ids of well-formed `text`, which has no special tokens in it.
  void encode(std::string_view text, Scratch& scratch, std::vector<TokenId>& out) const;
  // Appends the bytes that a token stands for.
  void append_bytes(TokenId id, std::string& out) const;

 private:
  std::string_view prepared(std::string_view text, Scratch& scratch) const;
  void encode_word(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const;
  void encode_new_word(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const;
  void append_symbols(std::string_view word, Scratch& scratch) const;
  void append_unmerged(std::string_view character, Scratch& scratch, std::vector<TokenId>& out) const;

  const Vocab& vocab_;
  const PretokenizerRule& rule_;
  Pretokenizer pretokenizer_;
  MergeTable merges_;
  std::array<TokenId, 256> byte_ids_;  // -1: the vocabulary lacks the byte
  SpaceCuts cuts_;                     // of whole characters
  bool lowercase_ = false;
};

}  // namespace minfer::tokenizer
