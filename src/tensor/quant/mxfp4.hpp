// MXFP4: 32 elements in 17 bytes (4.25 bits each), x = 2^(e - 127) * f, f a 4-bit float (sign, exponent 2, fraction 1).
// Layout:
//   byte 0   e      the shared exponent (E8M0: a power of two, no sign)
//   byte 1   qs[16] element i in the low half of qs[i], element i + 16 in the high half
// The values of f are 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives. The table has them doubled, so that they are
// integers, and the scale function is therefore half of 2^(e - 127); a product of both is exact. e = 255, which the OCP
// specification calls NaN, decodes as 2^127 (halved), as the field's decoders do. Code 8 (negative zero) decodes to +0.
// Source: OCP Microscaling Formats 1.0 and the ggml format (block_mxfp4); oracle: the gguf Python package.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "tensor/quant/block.hpp"

namespace minfer::tensor {

struct BlockMXFP4 {
  uint8_t e;
  uint8_t qs[16];
};
static_assert(sizeof(BlockMXFP4) == 17);

// Twice the value of a 4-bit E2M1 code.
inline constexpr std::array<int8_t, 16> kE2m1DoubledValues = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// 2^(e - 128): the scale that belongs to the doubled values. Exact; denormal for e < 2.
inline float e8m0_half_scale(uint8_t e) {
  const uint32_t bits = e < 2 ? 0x00200000u << e : static_cast<uint32_t>(e - 1) << 23;
  return std::bit_cast<float>(bits);
}

// The doubled values of the 32 elements, in order.
inline std::array<int8_t, kBlockElements> unpack_quants(const BlockMXFP4& block) {
  std::array<int8_t, kBlockElements> quants;
  for (size_t i = 0; i < 16; ++i) {
    quants[i] = kE2m1DoubledValues[block.qs[i] & 0x0F];
    quants[i + 16] = kE2m1DoubledValues[block.qs[i] >> 4];
  }
  return quants;
}

// Decodes `blocks` blocks (any alignment) to blocks * 32 floats.
void dequantize_mxfp4(const std::byte* source, int64_t blocks, float* destination);

}  // namespace minfer::tensor
