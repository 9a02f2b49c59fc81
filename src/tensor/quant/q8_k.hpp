// Q8_K: 256 elements in 292 bytes (9.125 bits each), x = d * q, q in -128..127.
// Layout:
//   byte 0   d         float, the scale
//   byte 4   qs[256]   signed bytes in element order
//   byte 260 bsums[16] signed 16-bit sums of each 16 quants; redundant, and not read here
// The field uses it for activations beside K-quant weights; a file may nevertheless hold such a tensor.
// Source of the layout: the ggml format (block_q8_K); oracle: numpy, by hand (the gguf package has no decoder for it).
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/quant/block.hpp"

namespace minfer::tensor {

struct BlockQ8_K {
  float d;
  int8_t qs[256];
  int16_t bsums[16];
};
static_assert(sizeof(BlockQ8_K) == 292);

// Decodes `blocks` blocks (any alignment) to blocks * 256 floats.
void dequantize_q8_k(const std::byte* source, int64_t blocks, float* destination);

}  // namespace minfer::tensor
