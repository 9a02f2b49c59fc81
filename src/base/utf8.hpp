// UTF-8 reading and writing. A step classifies the bytes at one position as a whole character, as a prefix that later
// bytes may complete, or as a malformed part; it follows the Unicode standard's table of well-formed sequences (no
// surrogates, no overlong forms, nothing above U+10FFFF), and a malformed part is the longest prefix that no
// continuation can save, which is what one U+FFFD replaces. Pure functions; any thread. In base because every room that
// takes text from outside checks it: file names and keys (gguf), texts (tokenizer, cli), templates and messages (chat).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace minfer {

enum class Utf8Status { whole, incomplete, malformed };

struct Utf8Step {
  Utf8Status status;
  size_t size_bytes;   // bytes of the character, the prefix or the malformed part; at least 1
  char32_t character;  // valid only where status is whole
};

// Classifies the bytes at `offset`, which must be less than text.size().
Utf8Step utf8_step(std::string_view text, size_t offset);

// Offset of the first byte that belongs to no whole character, or npos where all of `text` is well-formed.
size_t find_malformed_utf8(std::string_view text);

void append_utf8(std::string& out, char32_t character);

}  // namespace minfer
