// IQ4_XS: 256 elements in 136 bytes (4.25 bits each), 8 groups of 32: x = (d * s_g) * kIq4Values[q], s_g in -32..31.
// Layout:
//   byte 0   d           half, scale of the scales
//   byte 2   scales_h    16 bits: high 2 bits of scale g at bit 2 g
//   byte 4   scales_l[4] low 4 bits of scale g: half g % 2 of byte g / 2; stored plus 32
//   byte 8   qs[128]     group g in qs[16 g ... 16 g + 15]: element i in a low half, i + 16 in the high (as IQ4_NL)
// The scale product, then the element's product is rounded to float: as the oracle.
// Source of the layout: the ggml format (block_iq4_xs); oracle: the gguf Python package.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tensor/quant/block.hpp"
#include "tensor/quant/iq4_nl.hpp"

namespace minfer::tensor {

struct BlockIQ4_XS {
  uint16_t d;
  uint16_t scales_h;
  uint8_t scales_l[4];
  uint8_t qs[128];
};
static_assert(sizeof(BlockIQ4_XS) == 136);

// kIq4Values[q] of the 256 elements, in order.
inline std::array<int8_t, kSuperBlockElements> unpack_quants(const BlockIQ4_XS& block) {
  std::array<int8_t, kSuperBlockElements> quants;
  for (size_t i = 0; i < quants.size(); ++i) {
    quants[i] = kIq4Values[block.qs[i / 32 * 16 + i % 16] >> (i / 16 % 2 * 4) & 0x0F];
  }
  return quants;
}

// The 8 group scales, -32..31.
inline std::array<int8_t, 8> unpack_scales(const BlockIQ4_XS& block) {
  std::array<int8_t, 8> scales;
  for (size_t g = 0; g < scales.size(); ++g) {
    const int low = block.scales_l[g / 2] >> (g % 2 * 4) & 0x0F;
    const int high = block.scales_h >> (g * 2) & 3;
    scales[g] = static_cast<int8_t>((low | high << 4) - 32);
  }
  return scales;
}

// Decodes `blocks` blocks (any alignment) to blocks * 256 floats.
void dequantize_iq4_xs(const std::byte* source, int64_t blocks, float* destination);

}  // namespace minfer::tensor
