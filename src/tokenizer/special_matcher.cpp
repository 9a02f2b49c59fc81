// Leftmost-longest search for special tokens. See special_matcher.hpp.
#include "tokenizer/special_matcher.hpp"

#include <algorithm>

namespace minfer::tokenizer {

SpecialMatcher::SpecialMatcher(std::vector<std::pair<std::string_view, TokenId>> tokens) : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const auto& token) { return token.first.empty(); });
  std::sort(tokens_.begin(), tokens_.end());
  for (uint32_t index = 0; index < tokens_.size(); ++index) {
    Range& range = first_[static_cast<uint8_t>(tokens_[index].first[0])];
    if (range.end == 0) range.begin = index;
    range.end = index + 1;
  }
}

SpecialMatcher::Match SpecialMatcher::match_at(std::string_view text, size_t begin) const {
  Match match{begin, 0, -1};
  Range range = first_[static_cast<uint8_t>(text[begin])];
  for (size_t depth = 1; range.begin < range.end; ++depth) {
    // A token that ends here sorts before those that go on.
    if (tokens_[range.begin].first.size() == depth) {
      match = {begin, depth, tokens_[range.begin].second};
      ++range.begin;
    }
    if (range.begin == range.end || begin + depth == text.size()) break;
    const auto byte = static_cast<uint8_t>(text[begin + depth]);
    const auto from = tokens_.begin() + range.begin;
    const auto to = tokens_.begin() + range.end;
    const auto byte_of = [depth](const auto& token) { return static_cast<uint8_t>(token.first[depth]); };
    const auto low = std::partition_point(from, to, [&](const auto& token) { return byte_of(token) < byte; });
    const auto high = std::partition_point(low, to, [&](const auto& token) { return byte_of(token) == byte; });
    range = {static_cast<uint32_t>(low - tokens_.begin()), static_cast<uint32_t>(high - tokens_.begin())};
  }
  return match;
}

SpecialMatcher::Match SpecialMatcher::find(std::string_view text, size_t begin) const {
  if (!tokens_.empty()) {
    for (; begin < text.size(); ++begin) {
      if (first_[static_cast<uint8_t>(text[begin])].end == 0) continue;
      const Match match = match_at(text, begin);
      if (match.size_bytes > 0) return match;
    }
  }
  return {text.size(), 0, -1};
}

}  // namespace minfer::tokenizer
