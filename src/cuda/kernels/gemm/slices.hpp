// How a weight is cut in slices of rows: large enough that each product fills the card, small enough that the scratch
// is bounded. Pure functions, tested without a card. Measured on an H200 (50 MB of cache) with Qwen3-8B's linears:
// slices of 24 to 192 MiB take the same at 2048 rows, for what decoding saves in the cache the smaller products lose;
// at 256 and 512 rows 96 MiB are 3 to 8% faster than 48. A stream beside the products for decoding hid nothing:
// products leave no room on a multiprocessor.
#pragma once

#include <cstdint>

#include "tensor/dtype.hpp"

namespace minfer::cuda {

// Rows of a slice are a multiple of this, but for the last one's.
inline constexpr int64_t kSliceStep = 256;
// The most that a decoded slice takes, unless kSliceStep rows are more.
inline constexpr int64_t kSliceBytes = int64_t{96} << 20;
// The most rows of a slice: its panels are the second size of a grid.
inline constexpr int64_t kSliceRows = 1 << 18;
// Rows of x that the gated form handles at once: bounds its intermediate rows.
inline constexpr int64_t kGluRows = 2048;

// Whether decoded weights, and x, are f32 (multiplied as tf32); else bf16.
bool gemm_is_tf32(tensor::DType dtype);
// Elements from one decoded row to the next, and their bytes.
int64_t decoded_stride(tensor::DType dtype, int64_t cols);
int64_t decoded_row_bytes(tensor::DType dtype, int64_t cols);

// The most rows of a slice, a multiple of kSliceStep.
int64_t max_slice_rows(tensor::DType dtype, int64_t cols);

// Rows of the slices of a weight of `weight_rows` (all but the last have them): at most `limit`, a multiple of
// kSliceStep, chosen so that the products' tiles leave the fewest multiprocessors idle.
int64_t slice_rows(int64_t rows, int64_t weight_rows, int64_t limit, int64_t multiprocessors);

}  // namespace minfer::cuda
