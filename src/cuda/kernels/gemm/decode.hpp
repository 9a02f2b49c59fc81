// Slices of weights from panels to plain rows, and what follows the gated form's product.
#pragma once

#include "cuda/launch/gemm.hpp"

namespace minfer::cuda {

// Rows first_row .. first_row + rows - 1 of a matrix (first_row a multiple of kPanelRows) to [rows, rounded up to
// kPanelRows][decoded_stride]: bf16, rounded once, or f32 for F16 and F32; rows and columns beyond the matrix are
// zeros.
struct DecodeTask {
  PanelMatrix matrix;
  int64_t first_row = 0;
  int64_t rows = 0;
  std::byte* out = nullptr;  // at a multiple of 16 bytes
};
void launch_decode(const Queue& queue, const DecodeTask& task);
// Two of one width: one launch where they are of one type.
void launch_decode_pair(const Queue& queue, const DecodeTask& first, const DecodeTask& second);

// out[r][base + c] = activation(gate + gate_bias) * (up + up_bias), c < columns; biases at column `base`, or nullptr.
// x: [out.rows][stride], bf16 or f32, gate's columns first, up's from `up_column` on (a multiple of kPanelRows).
struct GluColumns {
  const std::byte* x = nullptr;
  bool bf16 = false;
  int64_t stride = 0;
  int64_t up_column = 0;
  int64_t columns = 0;
  const float* gate_bias = nullptr;
  const float* up_bias = nullptr;
  graph::Activation activation = graph::Activation::silu;
  Rows out;
  int64_t base = 0;
};
void launch_glu_columns(const Queue& queue, const GluColumns& args);

}  // namespace minfer::cuda
