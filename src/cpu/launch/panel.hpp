// Panels: the layout of a weight matrix that the vector kernels read. R rows (16 for AVX-512, 8 for AVX2: one 32-bit
// lane a row) are interleaved, so that one load gives the same 4 consecutive elements of R rows, in the order that
// the 8-bit dot instructions eat, and a panel is one contiguous stream along k. A panel holds exactly the bytes of its
// rows in the file, in another order; it replaces them.
//
// A row of a quantized type is cut in groups (its blocks in the file: 32 or 256 elements). A group of a panel holds, in
// this order, each field as R consecutive values, one a row:
//   halves   d, then m or dmin, then IQ4_XS's high scale bits   (2 bytes a row each)
//   bytes    the packed scales, byte by byte as in the file; MXFP4's exponent
//   words    the quants, 4 bytes a row each: word w of the R rows is one vector. By sub-block of 32 elements, quad i
//   being
//            its elements 4 i ... 4 i + 3:
//     8 bits     8 words: the quads
//     4 bits     4 words: quad i in the low halves of word i, quad i + 4 in the high ones
//     5 bits     the top bits first: 1 word, bit i of byte j for element 4 i + j; then as 4 bits
//     6 bits     as 4 bits; then the top 2 bits as for 2 bits
//     2 bits     2 words: quad i in bits 2 (i % 4), ... of word i / 4
//     3 bits     the top bits (1 word as of 5 bits), then as 2 bits
// Plain types (F32, F16, BF16) hold element k of the R rows at k * R.
// The last panel of a matrix is filled up with rows of zero bytes. Memory is the caller's, aligned to 64 bytes.
// Pure functions; safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "cpu/runtime/isa.hpp"
#include "tensor/dtype.hpp"

namespace minfer::cpu {

// How a matrix lies in memory: rows as in the file, or panels of 8 or 16 rows.
enum class Layout : uint8_t { raw, panel8, panel16 };

constexpr int64_t kPanelAlignment = 64;

// Rows a panel; 1 for raw.
int64_t layout_rows(Layout layout);
// The layout that the linear kernels of `isa` read for `dtype`; nullopt: no kernel.
std::optional<Layout> linear_layout(Isa isa, tensor::DType dtype);

int64_t panel_count(Layout layout, int64_t rows);
// Bytes of one panel of k elements a row (of one row for raw).
int64_t panel_bytes(tensor::DType dtype, Layout layout, int64_t k);
// Bytes of a matrix: that of panel_count panels.
int64_t panel_matrix_bytes(tensor::DType dtype, Layout layout, int64_t rows, int64_t k);

// Packs `rows` consecutive rows of the file (k elements each, any alignment) into panel_count(layout, rows) panels. A
// matrix may be packed in parts, in any order and in parallel, if each part but the last has a multiple of
// layout_rows rows. `panels` must not overlap `source`. For raw it copies.
void pack_panels(tensor::DType dtype, Layout layout, int64_t rows, int64_t k, const std::byte* source,
                 std::byte* panels);
// The exact inverse.
void unpack_panels(tensor::DType dtype, Layout layout, int64_t rows, int64_t k, const std::byte* panels,
                   std::byte* destination);
// Row `row` of a matrix as k floats, equal to those of the file's row: a gather of embeddings from a shared matrix.
void dequantize_panel_row(tensor::DType dtype, Layout layout, int64_t k, const std::byte* panels, int64_t row,
                          float* destination);

}  // namespace minfer::cpu
