// Steps over UTF-8. See utf8.hpp.
#include "base/utf8.hpp"

#include <cstdint>
#include <cstring>

namespace minfer {
namespace {

// What the first byte says: the length of the sequence (0: no sequence starts so) and the range of the second byte.
struct Lead {
  size_t size_bytes;
  uint8_t second_low;
  uint8_t second_high;
};

Lead classify_lead(uint8_t lead) {
  if (lead < 0x80) return {1, 0, 0};
  if (lead < 0xC2) return {0, 0, 0};
  if (lead < 0xE0) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead < 0xF0) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead < 0xF4) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Step utf8_step(std::string_view text, size_t offset) {
  const auto byte_at = [&](size_t index) { return static_cast<uint8_t>(text[offset + index]); };
  const uint8_t first = byte_at(0);
  if (first < 0x80) return {Utf8Status::whole, 1, first};
  const Lead lead = classify_lead(first);
  if (lead.size_bytes == 0) return {Utf8Status::malformed, 1, 0};
  char32_t character = first & (0x7Fu >> lead.size_bytes);
  for (size_t index = 1; index < lead.size_bytes; ++index) {
    if (offset + index >= text.size()) return {Utf8Status::incomplete, index, 0};
    const uint8_t byte = byte_at(index);
    const uint8_t low = index == 1 ? lead.second_low : 0x80;
    const uint8_t high = index == 1 ? lead.second_high : 0xBF;
    if (byte < low || byte > high) return {Utf8Status::malformed, index, 0};
    character = (character << 6) | (byte & 0x3Fu);
  }
  return {Utf8Status::whole, lead.size_bytes, character};
}

size_t find_malformed_utf8(std::string_view text) {
  constexpr uint64_t kHighBits = 0x8080808080808080u;
  size_t offset = 0;
  while (offset < text.size()) {
    uint64_t block = 0;
    if (text.size() - offset >= sizeof(block)) {
      std::memcpy(&block, text.data() + offset, sizeof(block));
      if ((block & kHighBits) == 0) {
        offset += sizeof(block);
        continue;
      }
    }
    const Utf8Step step = utf8_step(text, offset);
    if (step.status != Utf8Status::whole) return offset;
    offset += step.size_bytes;
  }
  return std::string_view::npos;
}

void append_utf8(std::string& out, char32_t character) {
  const auto push = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (character < 0x80) {
    push(character);
  } else if (character < 0x800) {
    push(0xC0 | (character >> 6));
    push(0x80 | (character & 0x3F));
  } else if (character < 0x10000) {
    push(0xE0 | (character >> 12));
    push(0x80 | ((character >> 6) & 0x3F));
    push(0x80 | (character & 0x3F));
  } else {
    push(0xF0 | (character >> 18));
    push(0x80 | ((character >> 12) & 0x3F));
    push(0x80 | ((character >> 6) & 0x3F));
    push(0x80 | (character & 0x3F));
  }
}

}  // namespace minfer
