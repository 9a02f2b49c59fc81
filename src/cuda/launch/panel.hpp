// How the device holds matrices: panels of 8 rows, made once at load, which replace the file's rows. A matrix is
// [rows][cols]; panel p has rows 8p .. 8p + 7 (missing ones are zeros) and is contiguous, so that a block streams it
// with bulk copies and one warp instruction meets 8 rows of 4 consecutive blocks. Packing loses nothing: unpacking
// gives the file's bytes.
//
// Quantized types: a panel is a run of chunks of up to 8 blocks of 32 columns (256 columns; the last chunk of a row may
// have fewer blocks, b). A chunk is the planes below, in this order, each [b][8 rows] unless said; "nibbles" are 16
// bytes whose byte j holds element j of the block in its low half and element j + 16 in its high half.
//
//   Q4_0           nibbles (16 B), d f16 (2 B)                              q - 8 as a signed nibble: bit 3 flipped
//   Q4_1           nibbles, {d, m} f16 (4 B)
//   Q5_0           nibbles, high bits (4 B), d f16                          q - 16 signed: bit 4 flipped
//   Q5_1           nibbles, high bits (4 B), {d, m} f16
//   Q8_0           quants [b][2][8] (16 B: elements 0-15, then 16-31), d f16
//   Q4_K           nibbles, then per row (no b): {d, dmin} f16 and scales[12] as in the file (16 B)
//   Q5_K           nibbles, high bits (4 B), then per row as Q4_K
//   Q6_K           nibbles, high pairs (8 B), then per row scales int8[16], then per row d f16   q - 32: bit 5 flipped
//   IQ4_NL         nibbles (indices into the type's table), d f16
//   MXFP4          nibbles (indices), e8m0 scale (1 B)
//   others         see panel_types.hpp, which has all of this as numbers
//
// High bits: bit i of byte j of the 4 bytes is the 5th bit of element 4 i + j: word >> i & 0x01010101 belongs to
// elements 4 i .. 4 i + 3. High pairs: bits 2 i, 2 i + 1 of byte j of the two words: word w, word >> 2 i & 0x03030303,
// belongs to elements 16 w + 4 i + (0..3), i = 0..3. Plain types: pieces of 16 bytes, [cols in pieces][8 rows]: 8
// columns of F16 and BF16, 4 of F32; missing ones are zeros. A panel's bytes are rounded up to a multiple of 16.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/runtime/launch.hpp"
#include "tensor/dtype.hpp"

namespace minfer::cuda {

inline constexpr int64_t kPanelRows = 8;
inline constexpr int64_t kPanelBlock = 32;       // columns
inline constexpr int64_t kPanelChunkBlocks = 8;  // blocks a chunk
inline constexpr int64_t kPanelAlignment = 256;  // of a matrix

// A matrix on the device.
struct PanelMatrix {
  tensor::DType dtype = tensor::DType::f32;
  const std::byte* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
};

// Whether the device has a panel layout, and kernels, for a type.
bool has_panels(tensor::DType dtype);
// Bytes of one panel, and of the matrix: panels, rounded up to kPanelAlignment.
int64_t panel_bytes(tensor::DType dtype, int64_t cols);
int64_t panel_matrix_bytes(tensor::DType dtype, int64_t rows, int64_t cols);

// Packs `rows` rows in the file's layout at `source` (on the device, 16-byte aligned, rows contiguous) into the panels
// that hold them; first_row is a multiple of kPanelRows, and so is `rows` but at the matrix's end.
void launch_pack(const Queue& queue, const PanelMatrix& matrix, const std::byte* source, int64_t first_row,
                 int64_t rows);

}  // namespace minfer::cuda
