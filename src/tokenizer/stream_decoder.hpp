// Ids to text while they are being generated: a token may end inside a character, so bytes wait until the character is
// whole, and no caller ever sees half of one. Bytes that can't become a character are emitted as U+FFFD, one for each
// malformed part as the Unicode standard counts them (at most three bytes of a broken sequence make one); that includes
// the rest that finish() finds waiting.
// One stream, one thread. The Tokenizer must outlive it.
#pragma once

#include <string>

#include "tokenizer/tokenizer.hpp"

namespace minfer::tokenizer {

class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, const DecodeOptions& options = {});

  // The text that became complete with token `id`, valid until the next call; often empty. Allocates nothing once the
  // buffers have the size of a token. Errors: invalid_input for an id out of range.
  std::string_view push(TokenId id);
  // The text that is left, as U+FFFD where it is part of a character. The stream is then as new, but not at a text
  // start. Likewise valid until the next call.
  std::string_view finish();

 private:
  std::string_view drain(bool at_end);

  const Tokenizer& tokenizer_;
  DecodeOptions options_;
  bool strip_space_;     // the next text may begin with the prefix space
  std::string pending_;  // at most three bytes between calls
  std::string shown_;    // by the last call
};

}  // namespace minfer::tokenizer
