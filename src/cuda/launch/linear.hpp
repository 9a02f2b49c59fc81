// Matrix products with weights in panels: y = x W^T (+ bias) (+ residual), for all row counts. Three families:
//   kernels/linear/ decode       1 to kDecodeRows rows: weights streamed once, 8-bit dot products (quantized types) or
//                                f32 products (plain types), the norm of one or two rows as part of it
//   kernels/linear/ small batch  to kSmallBatchRows rows, common quantized types: tensor cores on the same panels
//   kernels/gemm/   prefill      beyond: panels decoded to bf16 (F16 and F32 weights: tf32) tile by tile into a bounded
//                                scratch, cuBLASLt
// What a row's result depends on: the row and the weights, and the family that was chosen by the row count.
#pragma once

#include <cstdint>

#include "cuda/launch/activation.hpp"
#include "cuda/launch/panel.hpp"
#include "graph/enums.hpp"

namespace minfer::cuda {

inline constexpr int64_t kDecodeRows = 8;
inline constexpr int64_t kSmallBatchRows = 128;
// Rows whose norm can be part of a product, of the decode family alone: every block normalises them anew.
inline constexpr int64_t kNormRows = 2;
inline constexpr int64_t kNormColumns = 8192;
inline constexpr int kMaxSegments = 4;

// What a product with weights of `dtype` reads, for a step of `rows`: pure. Quantized: q8 up to kDecodeRows, bf16
// beyond. BF16: f32 up to kDecodeRows, bf16 beyond. F16 and F32: f32.
ActivationFormat activation_format(tensor::DType dtype, int64_t rows);

// One product of a launch; all share the input.
struct LinearSegment {
  PanelMatrix weight;
  const float* bias = nullptr;  // [weight.rows]
  Rows out;                     // f32, [rows][weight.rows]
};

// An input that is normalised as it is read: x / sqrt(mean(x^2) + eps) * weight, over the whole row. x is then f32,
// whatever the product reads. Up to kNormRows rows of kNormColumns.
struct InputNorm {
  const float* weight = nullptr;  // [x.width]; nullptr: none
  float eps = 0;
};

struct LinearArgs {
  Rows x;            // format: activation_format
  int segments = 0;  // 1 .. kMaxSegments
  LinearSegment segment[kMaxSegments];
  InputNorm norm;
  const float* residual = nullptr;  // [rows][weight.rows] at out's stride, with one segment only; may be out
};

// out = activation(x gate^T + bias) * (x up^T + bias), in any format.
struct LinearGluArgs {
  Rows x;
  PanelMatrix gate, up;
  const float* gate_bias = nullptr;
  const float* up_bias = nullptr;
  graph::Activation activation = graph::Activation::silu;
  Rows out;
  InputNorm norm;
};

// Scratch for the largest of a graph's products: prefill tiles and intermediate rows. Pure.
int64_t linear_scratch_bytes(tensor::DType dtype, int64_t rows, int64_t weight_rows, int64_t cols);
int64_t linear_glu_scratch_bytes(tensor::DType dtype, int64_t rows, int64_t weight_rows, int64_t cols);

// cuBLASLt's handle, workspace and the algorithms found so far; one a device. Opaque here.
class GemmContext;

struct LinearScratch {
  std::byte* data = nullptr;
  int64_t bytes = 0;
  GemmContext* gemm = nullptr;  // needed beyond kDecodeRows only
};

void launch_linear(const Queue& queue, const LinearArgs& args, const LinearScratch& scratch);
void launch_linear_glu(const Queue& queue, const LinearGluArgs& args, const LinearScratch& scratch);

}  // namespace minfer::cuda
