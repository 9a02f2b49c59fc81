// The tables of the byte-level alphabet. See utf8.hpp.
#include "tokenizer/utf8.hpp"

#include <array>

namespace minfer::tokenizer {
namespace {

constexpr size_t kAlphabetEnd = 256 + 68;  // 68 bytes have no printable character of their own

constexpr bool is_printable_byte(unsigned byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || (byte >= 174 && byte <= 255);
}

constexpr std::array<uint16_t, 256> make_character_table() {
  std::array<uint16_t, 256> table{};
  uint16_t next = 256;
  for (unsigned byte = 0; byte < 256; ++byte) {
    table[byte] = is_printable_byte(byte) ? static_cast<uint16_t>(byte) : next++;
  }
  return table;
}

constexpr std::array<uint16_t, 256> kByteLevelCharacter = make_character_table();

constexpr std::array<int16_t, kAlphabetEnd> make_byte_table() {
  std::array<int16_t, kAlphabetEnd> table{};
  for (auto& entry : table) entry = -1;
  for (unsigned byte = 0; byte < 256; ++byte) table[kByteLevelCharacter[byte]] = static_cast<int16_t>(byte);
  return table;
}

constexpr std::array<int16_t, kAlphabetEnd> kByteLevelByte = make_byte_table();

}  // namespace

char32_t byte_level_character(uint8_t byte) {
  return kByteLevelCharacter[byte];
}

int byte_level_byte(char32_t character) {
  return character < kAlphabetEnd ? kByteLevelByte[character] : -1;
}

}  // namespace minfer::tokenizer
