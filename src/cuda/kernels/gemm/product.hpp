// One product for cuBLASLt: out[r][n] = sum over k of x[r][k] weight[n][k] (+ bias[n]) (+ residual[r][n]). Matrices are
// row-major; strides count elements from one row to the next; rows begin at multiples of 16 bytes.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace minfer::cuda {

// What decides the algorithm: the key under which it is kept.
struct GemmShape {
  bool tf32 = false;      // weight and x are f32, multiplied as tf32; else bf16
  bool bf16_out = false;  // else f32
  bool has_bias = false;
  bool has_residual = false;
  int64_t rows = 0;      // r
  int64_t out_cols = 0;  // n
  int64_t cols = 0;      // k
  int64_t weight_stride = 0;
  int64_t x_stride = 0;
  int64_t out_stride = 0;
  // More than one: products of the same x with `batch` weights.
  int64_t batch = 1;
  int64_t weight_batch_stride = 0;  // elements
  int64_t out_batch_stride = 0;
  int64_t bias_batch_stride = 0;

  auto operator<=>(const GemmShape&) const = default;
};

struct GemmProduct {
  GemmShape shape;
  const std::byte* weight = nullptr;
  const std::byte* x = nullptr;
  const float* bias = nullptr;      // f32 out only
  const float* residual = nullptr;  // at out's stride; may be out
  std::byte* out = nullptr;
};

}  // namespace minfer::cuda
