// Q5_K: 256 elements in 176 bytes (5.5 bits each), 8 groups of 32: x = (d * s_g) * q - (dmin * m_g), q in 0..31.
// Layout:
//   byte 0   d          half, scale of the scales
//   byte 2   dmin       half, scale of the minima
//   byte 4   scales[12] packed as in Q4_K: unpack_scale_mins
//   byte 16  qh[32]     bit 4 of q: element i at bit i / 32 of qh[i % 32]
//   byte 48  qs[128]    low 4 bits, packed as in Q4_K
// Each of the two scale products, then the element's product, then the difference is rounded to float: as the oracle.
// Source of the layout: the ggml format (block_q5_K); oracle: the gguf Python package.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tensor/quant/block.hpp"
#include "tensor/quant/q4_k.hpp"

namespace minfer::tensor {

struct BlockQ5_K {
  uint16_t d;
  uint16_t dmin;
  uint8_t scales[12];
  uint8_t qh[32];
  uint8_t qs[128];
};
static_assert(sizeof(BlockQ5_K) == 176);

// q of the 256 elements, in order: 0..31.
inline std::array<int8_t, kSuperBlockElements> unpack_quants(const BlockQ5_K& block) {
  auto quants = unpack_4bit(block.qs);
  for (size_t i = 0; i < quants.size(); ++i) {
    quants[i] = static_cast<int8_t>(quants[i] | (block.qh[i % 32] >> (i / 32) & 1) << 4);
  }
  return quants;
}

// Decodes `blocks` blocks (any alignment) to blocks * 256 floats.
void dequantize_q5_k(const std::byte* source, int64_t blocks, float* destination);

}  // namespace minfer::tensor
