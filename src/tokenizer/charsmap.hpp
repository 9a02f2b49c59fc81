// SentencePiece's compiled normalizer: a trie of texts that are replaced, and the texts that replace them. At each
// place of a text the longest key that begins there is replaced; a character that begins no key stays. Layout of the
// blob, little-endian: u32 size of the trie in bytes (a multiple of 4); the trie, a double array of u32 nodes (Darts:
// label in bits 0-7, "has a value" in bit 8, offset in bits 10-30 with its unit in bit 9, bit 31 marks a value node,
// whose low 31 bits are the value); then texts that each end with a zero byte, at which values point. Everything is
// checked at construction or where it is read; a view of the file. Immutable; any thread. Source: Darts-clone's
// documentation, and the format of SentencePiece's NormalizerSpec.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace minfer::tokenizer {

class Charsmap {
 public:
  static constexpr size_t kMaxBytes = size_t{64} << 20;
  static constexpr size_t kMaxKeyBytes = 64;  // a longer key is never looked for: published ones have 30

  // An empty blob replaces nothing. Errors: invalid_input where the blob is not of this layout.
  explicit Charsmap(std::string_view blob);

  struct Replacement {
    size_t size_bytes;      // of the text that is replaced; 0: nothing is
    std::string_view text;  // that replaces it
  };
  // The longest key at `offset` of `text`. Errors: invalid_input where the trie points outside the blob.
  Replacement find(std::string_view text, size_t offset) const;

 private:
  uint32_t node(size_t index) const;

  std::vector<uint32_t> nodes_;
  std::string_view texts_;
};

}  // namespace minfer::tokenizer
