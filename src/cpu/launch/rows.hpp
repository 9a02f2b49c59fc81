// Launchers of the row operations: called by every thread of a section with equal arguments; they share the work out by
// rows (elementwise ones also by columns) and end with a barrier. Results do not depend on the number of threads nor on
// the other rows, bit for bit. Matrices are [rows][n] f32 with a stride in floats between rows; any alignment. An
// output may be one of its inputs (same pointer and stride), else they may not overlap. 8-bit outputs are [rows] of
// q8_row_bytes(n) (launch/activation.hpp), 64-byte aligned, and need n a multiple of 32. Non-finite values: Q8Out in
// launch/rows_kernels.hpp. Breaking a condition is a programmer's error: Error{internal}.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/thread_pool.hpp"
#include "cpu/launch/rows_kernels.hpp"
#include "cpu/runtime/isa.hpp"

namespace minfer::cpu {

// out = x / sqrt(mean(x^2) + eps) * weight, row by row.
struct RmsNormArgs {
  const float* x;  // [rows][n]
  int64_t x_stride;
  int64_t rows;
  int64_t n;
  const float* weight;  // [n]
  float eps;
  float* out = nullptr;  // [rows][n] or null
  int64_t out_stride = 0;
  std::byte* q8 = nullptr;  // [rows] or null
};
void launch_rms_norm(Isa isa, Worker& worker, const RmsNormArgs& args);

// out = (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias over each group of a row.
struct LayerNormArgs {
  const float* x;  // [rows][n]
  int64_t x_stride;
  int64_t rows;
  int64_t n;
  int64_t group;        // a divisor of n; n where q8 is given
  const float* weight;  // [group], or [n] where groups have their own
  const float* bias;    // alike, or null
  bool own_weights;
  float eps;
  float* out = nullptr;  // [rows][n] or null
  int64_t out_stride = 0;
  std::byte* q8 = nullptr;  // [rows] or null
};
void launch_layer_norm(Isa isa, Worker& worker, const LayerNormArgs& args);

// x in 8 bits.
struct QuantizeArgs {
  const float* x;  // [rows][n]
  int64_t x_stride;
  int64_t rows;
  int64_t n;
  std::byte* q8;  // [rows]
};
void launch_quantize(Isa isa, Worker& worker, const QuantizeArgs& args);

// out = a + b; b_stride 0 adds one row (a bias) to all.
struct AddArgs {
  const float* a;  // [rows][n]
  int64_t a_stride;
  const float* b;  // [rows][n], or [n] at stride 0
  int64_t b_stride;
  int64_t rows;
  int64_t n;
  float* out;  // [rows][n]
  int64_t out_stride;
};
void launch_add(Isa isa, Worker& worker, const AddArgs& args);

// out = factor * x, or cap * tanh(factor * x / cap) where the cap is not 0.
struct ScaleArgs {
  const float* x;  // [rows][n]
  int64_t x_stride;
  int64_t rows;
  int64_t n;
  float factor;
  float cap;
  float* out;  // [rows][n]
  int64_t out_stride;
};
void launch_scale(Isa isa, Worker& worker, const ScaleArgs& args);

// out = activation(gate) * up.
struct GatedArgs {
  Activation activation;
  const float* gate;  // [rows][n]
  int64_t gate_stride;
  const float* up;  // [rows][n]
  int64_t up_stride;
  int64_t rows;
  int64_t n;
  float* out = nullptr;  // [rows][n] or null
  int64_t out_stride = 0;
  std::byte* q8 = nullptr;  // [rows] or null
};
void launch_gated(Isa isa, Worker& worker, const GatedArgs& args);

// out = activation(x).
struct ActivateArgs {
  Activation activation;
  const float* x;  // [rows][n]
  int64_t x_stride;
  int64_t rows;
  int64_t n;
  float* out = nullptr;  // [rows][n] or null
  int64_t out_stride = 0;
  std::byte* q8 = nullptr;  // [rows] or null
};
void launch_activate(Isa isa, Worker& worker, const ActivateArgs& args);

// For each row, the index of the first of its largest values; a NaN is never it; -1 where all are NaN. n under 2^31.
struct ArgmaxArgs {
  const float* x;  // [rows][n]
  int64_t x_stride;
  int64_t rows;
  int64_t n;
  int32_t* indices;  // [rows]
};
void launch_argmax(Isa isa, Worker& worker, const ArgmaxArgs& args);

}  // namespace minfer::cpu
