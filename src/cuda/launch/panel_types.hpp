// The planes of each type's panels as numbers: what panel.hpp describes in words. Packing, decoding and the kernels
// take offsets from here alone. Constant expressions, so that kernels use them as template constants.
//
// Types that panel.hpp does not spell out:
//   IQ4_XS  nibbles (indices), then per row {d f16, scales_h, scales_l[4]} as in the file (8 B)
//   Q2_K    low pairs (8 B), then per row scales[16] as in the file, then per row {d, dmin} f16
//   Q3_K    low pairs (8 B), third bits (4 B), then per row scales[12] as in the file, then per row d f16
//                                                                        q - 4 signed: bit 2 flipped
// Low pairs are laid as high pairs, third bits as high bits: they have the element's bits 0-1, and bit 2.
#pragma once

#include <cstdint>

#include "tensor/dtype.hpp"

namespace minfer::cuda {

struct PanelType {
  int bits = 0;         // of an element in the planes; 16 and 32: plain; 0: no panels
  int flip = 0;         // what packing flips in an element, so that it reads as a signed number
  int scale_bytes = 0;  // a block and row
  int row_bytes = 0;    // a row of a chunk
  int tail_bytes = 0;   // a row of a chunk, in the plane behind that one
  // The file's block: elements and bytes, and where its scale, row and tail parts lie.
  int source_elements = 0;
  int source_bytes = 0;
  int scale_at = 0, row_at = 0, tail_at = 0;

  constexpr bool plain() const { return bits >= 16; }
  // Of the planes of quants and of high bits, a block of 32 columns and row.
  constexpr int quant_bytes() const {
    if (plain()) return bits * 4;
    return bits == 8 ? 32 : bits >= 4 ? 16 : 8;
  }
  constexpr int high_bytes() const { return bits == 5 || bits == 3 ? 4 : bits == 6 ? 8 : 0; }

  // Where the planes of a chunk of `blocks` blocks begin; the first begins at 0.
  constexpr int high_offset(int blocks) const { return blocks * 8 * quant_bytes(); }
  constexpr int scale_offset(int blocks) const { return blocks * 8 * (quant_bytes() + high_bytes()); }
  constexpr int row_offset(int blocks) const { return blocks * 8 * (quant_bytes() + high_bytes() + scale_bytes); }
  constexpr int tail_offset(int blocks) const { return row_offset(blocks) + 8 * row_bytes; }
  constexpr int chunk_bytes(int blocks) const { return tail_offset(blocks) + 8 * tail_bytes; }
};

constexpr PanelType panel_type(tensor::DType dtype) {
  using tensor::DType;
  switch (dtype) {
    case DType::f32:
      return {.bits = 32, .source_elements = 1, .source_bytes = 4};
    case DType::f16:
    case DType::bf16:
      return {.bits = 16, .source_elements = 1, .source_bytes = 2};
    case DType::q4_0:
      return {.bits = 4, .flip = 8, .scale_bytes = 2, .source_elements = 32, .source_bytes = 18};
    case DType::q4_1:
      return {.bits = 4, .scale_bytes = 4, .source_elements = 32, .source_bytes = 20};
    case DType::q5_0:
      return {.bits = 5, .flip = 16, .scale_bytes = 2, .source_elements = 32, .source_bytes = 22};
    case DType::q5_1:
      return {.bits = 5, .scale_bytes = 4, .source_elements = 32, .source_bytes = 24};
    case DType::q8_0:
      return {.bits = 8, .scale_bytes = 2, .source_elements = 32, .source_bytes = 34};
    case DType::iq4_nl:
      return {.bits = 4, .scale_bytes = 2, .source_elements = 32, .source_bytes = 18};
    case DType::mxfp4:
      return {.bits = 4, .scale_bytes = 1, .source_elements = 32, .source_bytes = 17};
    case DType::q4_k:
      return {.bits = 4, .row_bytes = 16, .source_elements = 256, .source_bytes = 144};
    case DType::q5_k:
      return {.bits = 5, .row_bytes = 16, .source_elements = 256, .source_bytes = 176};
    case DType::q6_k:
      return {.bits = 6,
              .flip = 32,
              .row_bytes = 16,
              .tail_bytes = 2,
              .source_elements = 256,
              .source_bytes = 210,
              .row_at = 192,
              .tail_at = 208};
    case DType::iq4_xs:
      return {.bits = 4, .row_bytes = 8, .source_elements = 256, .source_bytes = 136};
    case DType::q2_k:
      return {.bits = 2, .row_bytes = 16, .tail_bytes = 4, .source_elements = 256, .source_bytes = 84, .tail_at = 80};
    case DType::q3_k:
      return {.bits = 3,
              .flip = 4,
              .row_bytes = 12,
              .tail_bytes = 2,
              .source_elements = 256,
              .source_bytes = 110,
              .row_at = 96,
              .tail_at = 108};
    default:
      return {};
  }
}

// Bytes of one panel of `cols` columns.
constexpr int64_t panel_type_bytes(PanelType type, int64_t cols) {
  if (type.plain()) {
    const int64_t piece_columns = 128 / type.bits;
    return (cols + piece_columns - 1) / piece_columns * 8 * 16;
  }
  const int64_t blocks = (cols + 31) / 32;
  const int64_t bytes =
      blocks / 8 * type.chunk_bytes(8) + (blocks % 8 == 0 ? 0 : type.chunk_bytes(static_cast<int>(blocks % 8)));
  return (bytes + 15) / 16 * 16;
}

}  // namespace minfer::cuda
