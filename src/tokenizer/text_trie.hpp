// A trie of token texts: all tokens that begin at a place of a text, shortest first, in one walk. Nodes lie breadth
// first, a node's children side by side, sorted by their byte. Immutable; any thread.
// Limits: kMaxNodes nodes, of 12 bytes each.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/vocab.hpp"

namespace minfer::tokenizer {

class TextTrie {
 public:
  static constexpr size_t kMaxNodes = size_t{1} << 26;

  // Of (text, id); texts that are empty are left out. Errors: invalid_input where it has more than kMaxNodes nodes.
  explicit TextTrie(std::vector<std::pair<std::string_view, TokenId>> tokens);

  // Calls found(id, size_bytes) for each token that `text` begins with, the shortest first.
  template <class Found>
  void for_each_prefix(std::string_view text, const Found& found) const {
    if (text.empty()) return;
    uint32_t index = roots_[static_cast<uint8_t>(text[0])];
    for (size_t depth = 1; index != kNone; ++depth) {
      const Node& node = nodes_[index];
      if (node.id >= 0) found(node.id, depth);
      if (depth == text.size()) return;
      index = child(node, static_cast<uint8_t>(text[depth]));
    }
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Node {
    TokenId id;            // -1: no token ends here
    uint32_t first_child;  // index of the first
    uint16_t child_count;
    uint8_t byte;  // that leads here
  };
  uint32_t child(const Node& node, uint8_t byte) const {
    const auto from = nodes_.begin() + node.first_child;
    const auto to = from + node.child_count;
    const auto at = std::lower_bound(from, to, byte, [](const Node& a, uint8_t b) { return a.byte < b; });
    return at != to && at->byte == byte ? static_cast<uint32_t>(at - nodes_.begin()) : kNone;
  }

  std::vector<Node> nodes_;
  std::array<uint32_t, 256> roots_;
};

}  // namespace minfer::tokenizer
