// Collects the characters after which SentencePiece text is not cut. See space_cuts.hpp.
#include "tokenizer/space_cuts.hpp"

namespace minfer::tokenizer {

char32_t SpaceCuts::character_before(std::string_view text, size_t at) {
  size_t begin = at - 1;
  while (begin > 0 && (static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) --begin;
  const Utf8Step step = utf8_step(text.substr(0, at), begin);
  // A token's text may be malformed; no well-formed text has such a character.
  return step.status == Utf8Status::whole ? step.character : kSpaceMarkCharacter;
}

void SpaceCuts::add(std::string_view text) {
  for (size_t at = text.find(kSpaceMark, 1); at != std::string_view::npos; at = text.find(kSpaceMark, at + 1)) {
    const char32_t before = character_before(text, at);
    if (before == kSpaceMarkCharacter) continue;
    if (before < before_ascii_.size()) {
      before_ascii_[before] = true;
    } else {
      before_space_.push_back(before);
    }
  }
}

void SpaceCuts::finish() {
  std::sort(before_space_.begin(), before_space_.end());
  before_space_.erase(std::unique(before_space_.begin(), before_space_.end()), before_space_.end());
}

}  // namespace minfer::tokenizer
