// Reading SentencePiece's compiled normalizer. See charsmap.hpp. A node's offset and a child's label are joined by XOR,
// as the double array of Darts has it.
#include "tokenizer/charsmap.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"

namespace minfer::tokenizer {
namespace {

constexpr uint32_t kValueMark = 1u << 31;
constexpr uint32_t kHasValue = 1u << 8;

uint32_t read_u32(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t index = 0; index < 4; ++index) {
    value |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[at + index])) << (8 * index);
  }
  return value;
}

uint32_t label_of(uint32_t node) {
  return node & (kValueMark | 0xFF);
}

uint32_t offset_of(uint32_t node) {
  const uint32_t unit_shift = (node & (1u << 9)) != 0 ? 8 : 0;
  return ((node & ~kValueMark) >> 10) << unit_shift;
}

}  // namespace

Charsmap::Charsmap(std::string_view blob) {
  if (blob.empty()) return;
  if (blob.size() > kMaxBytes) {
    fail(ErrorCode::invalid_input, "tokenizer.ggml.precompiled_charsmap has {} bytes; the limit is {}", blob.size(),
         kMaxBytes);
  }
  const uint32_t trie_bytes = blob.size() < 4 ? 0 : read_u32(blob, 0);
  if (trie_bytes == 0 || trie_bytes % 4 != 0 || trie_bytes > blob.size() - 4) {
    fail(ErrorCode::invalid_input,
         "tokenizer.ggml.precompiled_charsmap has {} bytes and a trie of {}; expected a multiple of 4 that fits",
         blob.size(), trie_bytes);
  }
  nodes_.resize(trie_bytes / 4);
  for (size_t index = 0; index < nodes_.size(); ++index) nodes_[index] = read_u32(blob, 4 + index * 4);
  texts_ = blob.substr(4 + trie_bytes);
  if (!texts_.empty() && texts_.back() != '\0') {
    fail(ErrorCode::invalid_input, "tokenizer.ggml.precompiled_charsmap ends within a text; expected a zero byte");
  }
}

uint32_t Charsmap::node(size_t index) const {
  if (index >= nodes_.size()) {
    fail(ErrorCode::invalid_input, "tokenizer.ggml.precompiled_charsmap: node {} is outside its trie of {}", index,
         nodes_.size());
  }
  return nodes_[index];
}

Charsmap::Replacement Charsmap::find(std::string_view text, size_t offset) const {
  Replacement found{0, {}};
  if (nodes_.empty()) return found;
  uint32_t place = offset_of(node(0));
  const size_t end = std::min(text.size(), offset + kMaxKeyBytes);
  for (size_t at = offset; at < end; ++at) {
    const auto byte = static_cast<uint8_t>(text[at]);
    if (byte == 0) break;  // label 0 is that of values
    place ^= byte;
    const uint32_t child = node(place);
    if (label_of(child) != byte) break;
    place ^= offset_of(child);
    if ((child & kHasValue) == 0) continue;
    const uint32_t value = node(place) & ~kValueMark;
    if (value >= texts_.size()) {
      fail(ErrorCode::invalid_input, "tokenizer.ggml.precompiled_charsmap: text {} is outside its {} bytes of texts",
           value, texts_.size());
    }
    const std::string_view rest = texts_.substr(value);
    found = {at + 1 - offset, rest.substr(0, rest.find('\0'))};
  }
  return found;
}

}  // namespace minfer::tokenizer
