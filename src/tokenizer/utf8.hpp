// The byte-level alphabet of GPT-2: every byte has a printable character, so that vocabularies and merges are text.
// Pure functions; any thread. UTF-8 itself is in base/utf8.hpp.
#pragma once

#include <cstdint>

#include "base/utf8.hpp"

namespace minfer::tokenizer {

using minfer::find_malformed_utf8;  // the rooms above ask whether a text can be encoded by this name

// The character that stands for `byte` in a byte-level vocabulary; always under U+0144.
char32_t byte_level_character(uint8_t byte);

// The byte that `character` stands for, or -1 where it is outside the alphabet.
int byte_level_byte(char32_t character);

}  // namespace minfer::tokenizer
