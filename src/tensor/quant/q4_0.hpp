// Q4_0: 32 elements in 18 bytes (4.5 bits each), x = d * (q - 8), q in 0..15.
// Layout:
//   byte 0   d      half, the scale (may be negative: the quantizer puts the largest magnitude at q = 0)
//   byte 2   qs[16] element i in the low half of qs[i], element i + 16 in the high half
// Decoding does one float product an element, exact in order, so every decoder agrees bit for bit.
// Source of the layout: the ggml format (block_q4_0); oracle: the gguf Python package.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tensor/quant/block.hpp"

namespace minfer::tensor {

struct BlockQ4_0 {
  uint16_t d;
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ4_0) == 18);

// q - 8 of the 32 elements, in order: -8..7.
inline std::array<int8_t, kBlockElements> unpack_quants(const BlockQ4_0& block) {
  std::array<int8_t, kBlockElements> quants;
  for (size_t i = 0; i < 16; ++i) {
    quants[i] = static_cast<int8_t>((block.qs[i] & 0x0F) - 8);
    quants[i + 16] = static_cast<int8_t>((block.qs[i] >> 4) - 8);
  }
  return quants;
}

// Decodes `blocks` blocks (any alignment) to blocks * 32 floats.
void dequantize_q4_0(const std::byte* source, int64_t blocks, float* destination);

}  // namespace minfer::tensor
