// IQ4_NL: 32 elements in 18 bytes (4.5 bits each), x = d * kIq4Values[q]: 4-bit indices into 16 unevenly spaced values.
// Layout:
//   byte 0   d      half, the scale
//   byte 2   qs[16] element i in the low half of qs[i], element i + 16 in the high half (as Q4_0)
// The values lie denser near zero, where weights are; there is no zero among them.
// Source of the layout and the values: the ggml format (block_iq4_nl); oracle: the gguf Python package.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tensor/quant/block.hpp"

namespace minfer::tensor {

struct BlockIQ4_NL {
  uint16_t d;
  uint8_t qs[16];
};
static_assert(sizeof(BlockIQ4_NL) == 18);

// What a 4-bit index of IQ4_NL and IQ4_XS stands for.
inline constexpr std::array<int8_t, 16> kIq4Values = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                      1,    13,   25,  38,  53,  69,  89,  113};

// kIq4Values[q] of the 32 elements, in order.
inline std::array<int8_t, kBlockElements> unpack_quants(const BlockIQ4_NL& block) {
  std::array<int8_t, kBlockElements> quants;
  for (size_t i = 0; i < 16; ++i) {
    quants[i] = kIq4Values[block.qs[i] & 0x0F];
    quants[i + 16] = kIq4Values[block.qs[i] >> 4];
  }
  return quants;
}

// Decodes `blocks` blocks (any alignment) to blocks * 32 floats.
void dequantize_iq4_nl(const std::byte* source, int64_t blocks, float* destination);

}  // namespace minfer::tensor
