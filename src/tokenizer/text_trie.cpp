// Building a trie from sorted texts, a level at a time. See text_trie.hpp.
#include "tokenizer/text_trie.hpp"

#include "base/error.hpp"

namespace minfer::tokenizer {
namespace {

// Tokens [begin, end) share their first `depth` bytes.
struct Range {
  uint32_t begin;
  uint32_t end;
  uint32_t depth;
};

}  // namespace

TextTrie::TextTrie(std::vector<std::pair<std::string_view, TokenId>> tokens) {
  std::erase_if(tokens, [](const auto& token) { return token.first.empty(); });
  std::sort(tokens.begin(), tokens.end());
  roots_.fill(kNone);
  std::vector<Range> ranges;  // of each node, as long as its children are not there
  const auto add_children = [&](const Range& range) {
    for (uint32_t begin = range.begin; begin < range.end;) {
      const char byte = tokens[begin].first[range.depth];
      uint32_t end = begin + 1;
      while (end < range.end && tokens[end].first[range.depth] == byte) ++end;
      if (nodes_.size() == kMaxNodes) {
        fail(ErrorCode::invalid_input, "the vocabulary's tokens need a trie of more than {} nodes", kMaxNodes);
      }
      const bool ends_here = tokens[begin].first.size() == range.depth + 1;
      nodes_.push_back({ends_here ? tokens[begin].second : -1, 0, 0, static_cast<uint8_t>(byte)});
      // A token that ends here sorts before those that go on.
      ranges.push_back({ends_here ? begin + 1 : begin, end, range.depth + 1});
      begin = end;
    }
  };
  add_children({0, static_cast<uint32_t>(tokens.size()), 0});
  for (uint32_t index = 0; index < nodes_.size(); ++index) roots_[nodes_[index].byte] = index;
  for (size_t index = 0; index < nodes_.size(); ++index) {
    const auto first = static_cast<uint32_t>(nodes_.size());
    add_children(Range(ranges[index]));
    nodes_[index].first_child = first;
    nodes_[index].child_count = static_cast<uint16_t>(nodes_.size() - first);
  }
}

}  // namespace minfer::tokenizer
