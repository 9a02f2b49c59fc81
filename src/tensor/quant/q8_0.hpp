// Q8_0: 32 elements in 34 bytes (8.5 bits each), x = d * q, q in -128..127 (quantizers write -127..127).
// Layout:
//   byte 0   d      half, the scale
//   byte 2   qs[32] signed bytes in element order
// A kernel that negates a quant or takes its magnitude must allow for -128: a file may hold it.
// Source of the layout: the ggml format (block_q8_0); oracle: the gguf Python package.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tensor/quant/block.hpp"

namespace minfer::tensor {

struct BlockQ8_0 {
  uint16_t d;
  int8_t qs[32];
};
static_assert(sizeof(BlockQ8_0) == 34);

// q of the 32 elements, in order.
inline std::array<int8_t, kBlockElements> unpack_quants(const BlockQ8_0& block) {
  std::array<int8_t, kBlockElements> quants;
  for (size_t i = 0; i < quants.size(); ++i) quants[i] = block.qs[i];
  return quants;
}

// Decodes `blocks` blocks (any alignment) to blocks * 32 floats.
void dequantize_q8_0(const std::byte* source, int64_t blocks, float* destination);

}  // namespace minfer::tensor
