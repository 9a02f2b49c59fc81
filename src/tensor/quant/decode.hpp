// The four formulas that the scalar decoders share, over any block type: what differs between types is the layout, and
// that is in each type's header (unpack_quants and the functions for packed scales). One rounding a float operation, in
// the order written (no contraction): the oracle does the same, so that the results match bit for bit. Every function
// decodes `blocks` blocks at `source` (any alignment) to floats at `destination`, in element order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.hpp"
#include "tensor/quant/block.hpp"

namespace minfer::tensor {

// x = d * q, with d = scale_of(block).
template <class Block, class ScaleOf>
void decode_scaled(const std::byte* source, int64_t blocks, float* destination, const ScaleOf& scale_of) {
  for (int64_t b = 0; b < blocks; ++b) {
    const auto block = load_block<Block>(source, b);
    const float d = scale_of(block);
    for (const auto quant : unpack_quants(block)) *destination++ = d * static_cast<float>(quant);
  }
}

// x = d * q, with the block's half d.
template <class Block>
void decode_scaled(const std::byte* source, int64_t blocks, float* destination) {
  decode_scaled<Block>(source, blocks, destination, [](const Block& block) { return half_to_float(block.d); });
}

// x = d * q + m.
template <class Block>
void decode_scaled_plus_minimum(const std::byte* source, int64_t blocks, float* destination) {
  for (int64_t b = 0; b < blocks; ++b) {
    const auto block = load_block<Block>(source, b);
    const float d = half_to_float(block.d);
    const float m = half_to_float(block.m);
    for (const auto quant : unpack_quants(block)) *destination++ = d * static_cast<float>(quant) + m;
  }
}

// x = (d * s_g) * q, a scale for each group of kGroup elements: scales_of(block)[g].
template <class Block, size_t kGroup, class ScalesOf>
void decode_groups(const std::byte* source, int64_t blocks, float* destination, const ScalesOf& scales_of) {
  for (int64_t b = 0; b < blocks; ++b) {
    const auto block = load_block<Block>(source, b);
    const float d = half_to_float(block.d);
    const auto& scales = scales_of(block);
    const auto quants = unpack_quants(block);
    for (size_t i = 0; i < quants.size(); ++i) {
      const float scale = d * static_cast<float>(scales[i / kGroup]);
      *destination++ = scale * static_cast<float>(quants[i]);
    }
  }
}

// x = (d * s_g) * q - (dmin * m_g), with groups_of(block).scales[g] and .mins[g].
template <class Block, size_t kGroup, class GroupsOf>
void decode_groups_minus_minimum(const std::byte* source, int64_t blocks, float* destination,
                                 const GroupsOf& groups_of) {
  for (int64_t b = 0; b < blocks; ++b) {
    const auto block = load_block<Block>(source, b);
    const float d = half_to_float(block.d);
    const float dmin = half_to_float(block.dmin);
    const auto groups = groups_of(block);
    const auto quants = unpack_quants(block);
    for (size_t i = 0; i < quants.size(); ++i) {
      const float scale = d * static_cast<float>(groups.scales[i / kGroup]);
      const float min = dmin * static_cast<float>(groups.mins[i / kGroup]);
      *destination++ = scale * static_cast<float>(quants[i]) - min;
    }
  }
}

}  // namespace minfer::tensor
