// Matching the beginning of text that is still being written: a match may be certain, impossible, or not decided yet.
// All functions look at the whole text that waits, and give the same answer whatever pieces it came in.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace minfer::chat::output {

enum class Fit : uint8_t {
  no,
  more,  // what is there fits, the rest is still to come
  yes,
};

struct Match {
  Fit fit = Fit::no;
  size_t size = 0;  // bytes that matched, with Fit::yes
};

bool is_space(char byte);
// A byte that may stand in a tool's name.
bool is_name_byte(char byte);
// The position of the first byte from `at` that is no whitespace.
size_t after_space(std::string_view text, size_t at = 0);
std::string_view trimmed(std::string_view text);

// `text` against a piece of a syntax: whitespace in the piece stands for any, even none; a 0 for digits. `final`: no
// more text comes.
Match match_piece(std::string_view text, std::string_view piece, bool final);
// `text` against exactly `piece`.
Match match_exact(std::string_view text, std::string_view piece, bool final);

// The end of `text` from which on it may be the beginning of one of `marks`: bytes before that are certain.
size_t certain_bytes(std::string_view text, std::span<const std::string_view> marks);

// Appends `text` as the inside of a JSON string.
void append_escaped(std::string& out, std::string_view text);

}  // namespace minfer::chat::output
