// Where a text of SentencePiece may be cut into words without changing its tokens: before a "▁" that follows another
// character, unless some token has that character before a "▁" inside it. No token of published vocabularies but a few
// does; the characters that do are collected here, and no cut is made after them. Words can then be cached.
// Immutable once finished; any thread.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "tokenizer/utf8.hpp"
#include "tokenizer/vocab.hpp"

namespace minfer::tokenizer {

class SpaceCuts {
 public:
  // Takes note of a token's text.
  void add(std::string_view text);
  // To be called after the last token.
  void finish();

  // Calls word(view) for each word of `marked`, in order; well-formed, its spaces as "▁".
  template <class Word>
  void for_each_word(std::string_view marked, const Word& word) const {
    size_t begin = 0;
    for (size_t at = marked.find(kSpaceMark, 1); at != std::string_view::npos; at = marked.find(kSpaceMark, at + 1)) {
      if (!may_cut(marked, at)) continue;
      word(marked.substr(begin, at - begin));
      begin = at;
    }
    if (begin < marked.size()) word(marked.substr(begin));
  }

 private:
  // Whether the text may be cut at `at`, where a "▁" is that is not the first character.
  bool may_cut(std::string_view marked, size_t at) const {
    const auto last = static_cast<uint8_t>(marked[at - 1]);
    if (last < before_ascii_.size()) return !before_ascii_[last];
    const char32_t before = character_before(marked, at);
    return before != kSpaceMarkCharacter && !std::binary_search(before_space_.begin(), before_space_.end(), before);
  }
  static char32_t character_before(std::string_view text, size_t at);

  static constexpr char32_t kSpaceMarkCharacter = 0x2581;
  std::vector<char32_t> before_space_;    // characters that precede "▁" within a token, sorted
  std::array<bool, 128> before_ascii_{};  // the same of ASCII ones
};

}  // namespace minfer::tokenizer
