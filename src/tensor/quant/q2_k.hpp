// Q2_K: 256 elements in 84 bytes (2.625 bits each), 16 groups of 16: x = (d * s_g) * q - (dmin * m_g), q in 0..3.
// Layout:
//   byte 0   scales[16] group g: scale s_g in the low half, minimum m_g in the high half
//   byte 16  qs[64]     2 bits: element 128 h + 32 j + l at bit 2 j of qs[32 h + l] (h 0..1, j 0..3, l 0..31)
//   byte 80  d          half, scale of the scales
//   byte 82  dmin       half, scale of the minima
// Each of the two scale products, then the element's product, then the difference is rounded to float: as the oracle.
// Source of the layout: the ggml format (block_q2_K); oracle: the gguf Python package.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tensor/quant/block.hpp"

namespace minfer::tensor {

struct BlockQ2_K {
  uint8_t scales[16];
  uint8_t qs[64];
  uint16_t d;
  uint16_t dmin;
};
static_assert(sizeof(BlockQ2_K) == 84);

// The 2-bit fields of 256 elements, in order: 0..3; Q3_K packs its low bits the same way.
inline std::array<int8_t, kSuperBlockElements> unpack_2bit(const uint8_t (&qs)[64]) {
  std::array<int8_t, kSuperBlockElements> quants;
  for (size_t i = 0; i < quants.size(); ++i) {
    quants[i] = static_cast<int8_t>(qs[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3);
  }
  return quants;
}

// q of the 256 elements, in order: 0..3.
inline std::array<int8_t, kSuperBlockElements> unpack_quants(const BlockQ2_K& block) {
  return unpack_2bit(block.qs);
}

// Decodes `blocks` blocks (any alignment) to blocks * 256 floats.
void dequantize_q2_k(const std::byte* source, int64_t blocks, float* destination);

}  // namespace minfer::tensor
