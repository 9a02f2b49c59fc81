// Q4_1: 32 elements in 20 bytes (5 bits each), x = d * q + m, q in 0..15.
// Layout:
//   byte 0   d      half, the scale
//   byte 2   m      half, the block's minimum
//   byte 4   qs[16] element i in the low half of qs[i], element i + 16 in the high half
// Decoding rounds the product to float, then the sum (no fused multiply-add): bit for bit as the oracle.
// Source of the layout: the ggml format (block_q4_1); oracle: the gguf Python package.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tensor/quant/block.hpp"

namespace minfer::tensor {

struct BlockQ4_1 {
  uint16_t d;
  uint16_t m;
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ4_1) == 20);

// q of the 32 elements, in order: 0..15.
inline std::array<int8_t, kBlockElements> unpack_quants(const BlockQ4_1& block) {
  std::array<int8_t, kBlockElements> quants;
  for (size_t i = 0; i < 16; ++i) {
    quants[i] = static_cast<int8_t>(block.qs[i] & 0x0F);
    quants[i + 16] = static_cast<int8_t>(block.qs[i] >> 4);
  }
  return quants;
}

// Decodes `blocks` blocks (any alignment) to blocks * 32 floats.
void dequantize_q4_1(const std::byte* source, int64_t blocks, float* destination);

}  // namespace minfer::tensor
