// Q4_K: 256 elements in 144 bytes (4.5 bits each), 8 groups of 32: x = (d * s_g) * q - (dmin * m_g), q in 0..15.
// Layout:
//   byte 0   d          half, scale of the scales
//   byte 2   dmin       half, scale of the minima
//   byte 4   scales[12] 8 six-bit scales and 8 six-bit minima: see unpack_scale_mins
//   byte 16  qs[128]    4 bits: group 2 p in the low halves of qs[32 p ... 32 p + 31], group 2 p + 1 in the high
// Each of the two scale products, then the element's product, then the difference is rounded to float: as the oracle.
// Source of the layout: the ggml format (block_q4_K); oracle: the gguf Python package.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tensor/quant/block.hpp"

namespace minfer::tensor {

struct BlockQ4_K {
  uint16_t d;
  uint16_t dmin;
  uint8_t scales[12];
  uint8_t qs[128];
};
static_assert(sizeof(BlockQ4_K) == 144);

// Scales and minima of the 8 groups, each 0..63.
struct ScaleMins {
  std::array<uint8_t, 8> scales;
  std::array<uint8_t, 8> mins;
};

// Unpacks the 12 bytes that Q4_K and Q5_K share. For g < 4 the scale is the low 6 bits of byte g, the minimum those of
// byte g + 4. For g >= 4 byte g + 4 has the low 4 bits of the scale (low half) and of the minimum (high half), and the
// top 2 bits of bytes g - 4 and g complete the scale and the minimum.
inline ScaleMins unpack_scale_mins(const uint8_t (&packed)[12]) {
  ScaleMins result;
  for (size_t g = 0; g < 4; ++g) {
    result.scales[g] = packed[g] & 0x3F;
    result.mins[g] = packed[g + 4] & 0x3F;
    result.scales[g + 4] = static_cast<uint8_t>((packed[g + 8] & 0x0F) | (packed[g] >> 6 << 4));
    result.mins[g + 4] = static_cast<uint8_t>((packed[g + 8] >> 4) | (packed[g + 4] >> 6 << 4));
  }
  return result;
}

// The 4-bit fields of 256 elements, in order: 0..15; Q5_K packs its low bits the same way.
inline std::array<int8_t, kSuperBlockElements> unpack_4bit(const uint8_t (&qs)[128]) {
  std::array<int8_t, kSuperBlockElements> quants;
  for (size_t i = 0; i < quants.size(); ++i) {
    quants[i] = static_cast<int8_t>(qs[i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 0x0F);
  }
  return quants;
}

// q of the 256 elements, in order: 0..15.
inline std::array<int8_t, kSuperBlockElements> unpack_quants(const BlockQ4_K& block) {
  return unpack_4bit(block.qs);
}

// Decodes `blocks` blocks (any alignment) to blocks * 256 floats.
void dequantize_q4_k(const std::byte* source, int64_t blocks, float* destination);

}  // namespace minfer::tensor
