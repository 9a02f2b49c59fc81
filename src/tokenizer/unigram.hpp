// Unigram ("t5" models): of all ways to cover a text with tokens, the one with the greatest sum of scores (Viterbi). A
// character that is no token costs kUnknownPenalty more than the worst token; what stays unknown becomes the tokens of
// its bytes where the vocabulary has them, else one unknown token for each run of such characters.
// Before that the text is normalized: by the file's compiled charsmap (charsmap.hpp), spaces at the ends go and runs of
// them become one where the file says so, one is put first where it says so, and all are written "▁".
// Text is cut into words where that changes nothing (space_cuts.hpp), and words are cached. Scores are added within a
// word, in double precision, as the published Python package does.
// Time: a text costs its length times that of the longest token, which is bounded; memory is linear in a word.
// Immutable; scratch belongs to the caller, one thread at a time. Oracle: the Python packages `sentencepiece` and
// `tokenizers`. Source: Kudo, "Subword Regularization" (2018).
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/charsmap.hpp"
#include "tokenizer/space_cuts.hpp"
#include "tokenizer/text_trie.hpp"
#include "tokenizer/vocab.hpp"
#include "tokenizer/word_cache.hpp"

namespace minfer::tokenizer {

class Unigram {
 public:
  static constexpr size_t kMaxPieceBytes = 1024;  // of a token that can be found in a text
  static constexpr double kUnknownPenalty = 10;

  // The best cover of a word that ends at a place.
  struct Best {
    double score;
    uint32_t begin;  // of its last token
    TokenId id;      // -1: an unknown character; -2: no cover
  };
  struct Scratch {
    WordCache cache;
    std::string marked;
    std::vector<Best> best;      // by byte offset in the word
    std::vector<uint32_t> ends;  // of the tokens of the best cover, last first
  };

  // `vocab` must outlive this. Errors: invalid_input for scores or a charsmap that are wrong, or a token too long.
  explicit Unigram(const Vocab& vocab);

  // Appends the ids of well-formed `text`, which has no special tokens in it; with_space puts a space before it.
  // Errors: invalid_input where a character has no token, no byte tokens and the vocabulary has no unknown token.
  void encode(std::string_view text, bool with_space, Scratch& scratch, std::vector<TokenId>& out) const;
  // Appends the bytes that a token stands for, its "▁" as spaces.
  void append_bytes(TokenId id, std::string& out) const;

 private:
  void normalize(std::string_view text, bool with_space, std::string& marked) const;
  void encode_word(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const;
  void encode_new_word(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const;
  void find_best(std::string_view word, Scratch& scratch) const;
  void append_unknown(std::string_view text, std::vector<TokenId>& out) const;

  const Vocab& vocab_;
  Charsmap charsmap_;
  SpaceCuts cuts_;
  TextTrie trie_;
  std::array<TokenId, 256> byte_ids_;  // -1: no such byte token
  double unknown_score_ = 0;
  bool remove_extra_spaces_;
};

}  // namespace minfer::tokenizer
