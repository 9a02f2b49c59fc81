// Q5_1: 32 elements in 24 bytes (6 bits each), x = d * q + m, q in 0..31.
// Layout:
//   byte 0   d      half, the scale
//   byte 2   m      half, the block's minimum
//   byte 4   qh[4]  32 bits, little-endian: bit i is bit 4 of element i's q
//   byte 8   qs[16] low 4 bits: element i in the low half of qs[i], element i + 16 in the high half
// Decoding rounds the product to float, then the sum (no fused multiply-add): bit for bit as the oracle.
// Source of the layout: the ggml format (block_q5_1); oracle: the gguf Python package.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tensor/quant/block.hpp"
#include "tensor/quant/q5_0.hpp"

namespace minfer::tensor {

struct BlockQ5_1 {
  uint16_t d;
  uint16_t m;
  uint8_t qh[4];
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ5_1) == 24);

// q of the 32 elements, in order: 0..31.
inline std::array<int8_t, kBlockElements> unpack_quants(const BlockQ5_1& block) {
  return unpack_5bit(block.qs, block.qh);
}

// Decodes `blocks` blocks (any alignment) to blocks * 32 floats.
void dequantize_q5_1(const std::byte* source, int64_t blocks, float* destination);

}  // namespace minfer::tensor
