// Q6_K: 256 elements in 210 bytes (6.5625 bits each), 16 groups of 16: x = (d * s_g) * q, q in -32..31.
// Layout:
//   byte 0   ql[128]    low 4 bits: element 128 h + 64 j + l at bit 4 j of ql[64 h + l] (h 0..1, j 0..1, l 0..63)
//   byte 128 qh[64]     high 2 bits: element 128 h + 32 j + l at bit 2 j of qh[32 h + l] (h 0..1, j 0..3, l 0..31)
//   byte 192 scales[16] signed bytes, s_g
//   byte 208 d          half, scale of the scales
// The 6-bit value is stored plus 32. The scale product, then the element's product is rounded to float: as the oracle.
// Source of the layout: the ggml format (block_q6_K); oracle: the gguf Python package.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tensor/quant/block.hpp"

namespace minfer::tensor {

struct BlockQ6_K {
  uint8_t ql[128];
  uint8_t qh[64];
  int8_t scales[16];
  uint16_t d;
};
static_assert(sizeof(BlockQ6_K) == 210);

// q of the 256 elements, in order: -32..31.
inline std::array<int8_t, kSuperBlockElements> unpack_quants(const BlockQ6_K& block) {
  std::array<int8_t, kSuperBlockElements> quants;
  for (size_t i = 0; i < quants.size(); ++i) {
    const int low = block.ql[i / 128 * 64 + i % 64] >> (i / 64 % 2 * 4) & 0x0F;
    const int high = block.qh[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
    quants[i] = static_cast<int8_t>((low | high << 4) - 32);
  }
  return quants;
}

// Decodes `blocks` blocks (any alignment) to blocks * 256 floats.
void dequantize_q6_k(const std::byte* source, int64_t blocks, float* destination);

}  // namespace minfer::tensor
