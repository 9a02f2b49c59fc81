// Q3_K: 256 elements in 110 bytes (3.4375 bits each), 16 groups of 16: x = (d * s_g) * q, q in -4..3, s_g in -32..31.
// Layout:
//   byte 0   hmask[32]  element i: bit i / 32 of hmask[i % 32]; a clear bit means "subtract 4"
//   byte 32  qs[64]     low 2 bits, packed as in Q2_K
//   byte 96  scales[12] 16 six-bit scales, stored plus 32: see unpack_scales
//   byte 108 d          half, scale of the scales
// The scale product, then the element's product is rounded to float: as the oracle.
// Source of the layout: the ggml format (block_q3_K); oracle: the gguf Python package.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tensor/quant/block.hpp"
#include "tensor/quant/q2_k.hpp"

namespace minfer::tensor {

struct BlockQ3_K {
  uint8_t hmask[32];
  uint8_t qs[64];
  uint8_t scales[12];
  uint16_t d;
};
static_assert(sizeof(BlockQ3_K) == 110);

// q of the 256 elements, in order: -4..3.
inline std::array<int8_t, kSuperBlockElements> unpack_quants(const BlockQ3_K& block) {
  auto quants = unpack_2bit(block.qs);
  for (size_t i = 0; i < quants.size(); ++i) {
    const bool high = (block.hmask[i % 32] >> (i / 32) & 1) != 0;
    quants[i] = static_cast<int8_t>(quants[i] - (high ? 0 : 4));
  }
  return quants;
}

// The 16 group scales, -32..31. Low 4 bits of scale g: half g / 8 (low, high) of byte g % 8. High 2 bits: bits 2 (g /
// 4) of byte 8 + g % 4.
inline std::array<int8_t, 16> unpack_scales(const BlockQ3_K& block) {
  std::array<int8_t, 16> scales;
  for (size_t g = 0; g < scales.size(); ++g) {
    const int low = block.scales[g % 8] >> (g / 8 * 4) & 0x0F;
    const int high = block.scales[8 + g % 4] >> (g / 4 * 2) & 3;
    scales[g] = static_cast<int8_t>((low | high << 4) - 32);
  }
  return scales;
}

// Decodes `blocks` blocks (any alignment) to blocks * 256 floats.
void dequantize_q3_k(const std::byte* source, int64_t blocks, float* destination);

}  // namespace minfer::tensor
