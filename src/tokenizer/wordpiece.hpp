// WordPiece ("bert" models): text is cleaned (control characters go, white space becomes a space, Chinese characters
// stand alone), its accents are taken off and its letters lowered where the model asks for it, and it is cut at spaces
// and around each punctuation mark. A word is then the longest token at its begin, the longest that goes on from there,
// and so on; a word that can't be covered so, or of more than kMaxWordCharacters characters, is the unknown token.
// Files store the tokens that begin a word with "▁" before them, and those that go on one without the published "##".
// Time: a word costs its length times that of the longest token, both of which are bounded.
// Immutable; scratch belongs to the caller, one thread at a time. Oracle: the Python package `tokenizers`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/vocab.hpp"
#include "tokenizer/word_cache.hpp"

namespace minfer::tokenizer {

class WordPiece {
 public:
  static constexpr size_t kMaxWordCharacters = 100;  // as published

  struct Scratch {
    WordCache cache;
    std::string cleaned;
    std::string decomposed;
    std::string lowered;
    std::string word;  // with "▁" before it
  };

  // `vocab` must outlive this. Errors: invalid_input where it has no unknown token.
  explicit WordPiece(const Vocab& vocab);

  // Appends the ids of well-formed `text`, which has no special tokens in it.
  void encode(std::string_view text, Scratch& scratch, std::vector<TokenId>& out) const;
  // Appends the bytes that a token stands for: a space and the word, or what goes on one.
  void append_bytes(TokenId id, std::string& out) const;

 private:
  std::string_view normalized(std::string_view text, Scratch& scratch) const;
  void encode_word(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const;
  void encode_new_word(std::string_view word, Scratch& scratch, std::vector<TokenId>& out) const;
  bool cover_word(std::string_view marked, std::vector<TokenId>& out) const;

  const Vocab& vocab_;
  size_t longest_token_bytes_ = 0;
  bool lowercase_;
  bool strip_accents_;
};

}  // namespace minfer::tokenizer
