// Q5_0: 32 elements in 22 bytes (5.5 bits each), x = d * (q - 16), q in 0..31.
// Layout:
//   byte 0   d      half, the scale (may be negative)
//   byte 2   qh[4]  32 bits, little-endian: bit i is bit 4 of element i's q
//   byte 6   qs[16] low 4 bits: element i in the low half of qs[i], element i + 16 in the high half
// qh lies at an offset that no 4-byte type may have, so it is four bytes here.
// Source of the layout: the ggml format (block_q5_0); oracle: the gguf Python package.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tensor/quant/block.hpp"

namespace minfer::tensor {

struct BlockQ5_0 {
  uint16_t d;
  uint8_t qh[4];
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ5_0) == 22);

// q of 32 elements in order, 0..31, from the low 4 bits and the bit plane; Q5_1 packs the same way.
inline std::array<int8_t, kBlockElements> unpack_5bit(const uint8_t (&qs)[16], const uint8_t (&qh)[4]) {
  uint32_t high;
  std::memcpy(&high, qh, sizeof(high));
  std::array<int8_t, kBlockElements> quants;
  for (size_t i = 0; i < 16; ++i) {
    quants[i] = static_cast<int8_t>((qs[i] & 0x0F) | ((high >> i & 1) << 4));
    quants[i + 16] = static_cast<int8_t>((qs[i] >> 4) | ((high >> (i + 16) & 1) << 4));
  }
  return quants;
}

// q - 16 of the 32 elements, in order: -16..15.
inline std::array<int8_t, kBlockElements> unpack_quants(const BlockQ5_0& block) {
  auto quants = unpack_5bit(block.qs, block.qh);
  for (int8_t& quant : quants) quant = static_cast<int8_t>(quant - 16);
  return quants;
}

// Decodes `blocks` blocks (any alignment) to blocks * 32 floats.
void dequantize_q5_0(const std::byte* source, int64_t blocks, float* destination);

}  // namespace minfer::tensor
