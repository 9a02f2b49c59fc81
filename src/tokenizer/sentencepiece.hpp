// SentencePiece BPE ("llama" models): spaces become "▁", every character is a symbol, and neighbours whose joined text
// is a token merge, best score first. A character without a token becomes its bytes' tokens, else the unknown token.
// Order among equal scores (several splits of one token): the longer left part first, then the leftmost, as the merge
// lists of published tokenizers have it. Runs of spaces that the file lists as user-defined tokens merge before all
// others, longest first, as in those lists; other user-defined tokens are matched before this and never form here.
// Speed: text is cut into words where that changes nothing (space_cuts.hpp), and words are cached.
// Immutable; scratch belongs to the caller, one thread at a time.
// Oracle: the Python package `tokenizers` with published tokenizer.json files; llama.cpp's expected ids for llama-spm.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/merge.hpp"
#include "tokenizer/space_cuts.hpp"
#include "tokenizer/vocab.hpp"
#include "tokenizer/word_cache.hpp"

namespace minfer::tokenizer {

// Appends the bytes that a token of a SentencePiece vocabulary stands for, its "▁" as spaces.
void append_sentencepiece_bytes(const Vocab& vocab, TokenId id, std::string& out);

// `out` becomes `text` with its spaces as "▁".
void replace_spaces(std::string_view text, std::string& out);

class SentencePieceBpe {
 public:
  struct Scratch {
    MergeScratch merge;
    WordCache cache;
    std::string marked;
  };

  // `vocab` must outlive this. Errors: invalid_input where the scores are missing, too few or not numbers.
  explicit SentencePieceBpe(const Vocab& vocab);

  // Appends the ids of well-formed `text`, which has no special tokens in it; with_space puts a space before it.
  // Errors: invalid_input where a character has no token, no byte tokens and the vocabulary has no unknown token.
  void encode(std::string_view text, bool with_space, Scratch& scratch, std::vector<TokenId>& out) const;
  // Appends the bytes that a token stands for, its "▁" as spaces.
  void append_bytes(TokenId id, std::string& out) const { append_sentencepiece_bytes(vocab_, id, out); }

 private:
  void read_keys();
  TokenId character_id(std::string_view character) const;
  MergeChoice choose(std::string_view word, const Symbol& left, const Symbol& right) const;
  void encode_word(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const;
  void encode_new_word(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const;
  void append_unmerged(std::string_view character, std::vector<TokenId>& out) const;

  const Vocab& vocab_;
  std::vector<uint32_t> keys_;  // merge order of each token, best first; kNeverMerged where it is never formed
  size_t longest_token_bytes_ = 0;
  std::array<TokenId, 256> byte_ids_;   // -1: no such byte token
  std::array<TokenId, 128> ascii_ids_;  // -1: no such token
  SpaceCuts cuts_;
};

}  // namespace minfer::tokenizer
