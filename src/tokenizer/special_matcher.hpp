// Finds the next special token in a text: leftmost, and the longest where several start at one place, as published
// tokenizers split added tokens. Tokens are kept sorted; a match narrows the range of tokens that share the text read
// so far, one byte at a time, so a position costs at most the length of the longest token. Token texts are views into
// the vocabulary. Immutable; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/vocab.hpp"

namespace minfer::tokenizer {

class SpecialMatcher {
 public:
  struct Match {
    size_t begin;  // byte offset; text.size() where nothing was found
    size_t size_bytes;
    TokenId id;
  };

  explicit SpecialMatcher(std::vector<std::pair<std::string_view, TokenId>> tokens);
  Match find(std::string_view text, size_t begin) const;

 private:
  struct Range {
    uint32_t begin = 0;
    uint32_t end = 0;
  };
  Match match_at(std::string_view text, size_t begin) const;

  std::vector<std::pair<std::string_view, TokenId>> tokens_;  // sorted by bytes
  std::array<Range, 256> first_;                              // tokens that start with a byte
};

}  // namespace minfer::tokenizer
