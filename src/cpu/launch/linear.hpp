// The linear family: out = x w^T, for weights of every type in panels (vector instruction sets) or in rows of the file
// (scalar). Called by every thread of a section with equal arguments: all tasks of a call share x and one parallel
// loop, so that q, k and v (or gate and up) cost one barrier. An output's bits do not depend on threads, batch or
// tasks.
//
// Sums along k run in f32 in a fixed order: for vector sets over blocks of 32 whose inner sums are exact integers (q8
// activations), for plain types (f32 activations) one chain of fused multiply-adds; scalar keeps 16 partial sums.
// Breaking a condition is a programmer's error: Error{internal}.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/thread_pool.hpp"
#include "cpu/launch/panel.hpp"
#include "cpu/launch/rows_kernels.hpp"
#include "cpu/runtime/isa.hpp"
#include "tensor/dtype.hpp"

namespace minfer::cpu {

// A matrix of `rows` outputs by k inputs, packed by pack_panels.
struct LinearWeight {
  tensor::DType dtype;
  Layout layout;  // linear_layout(isa, dtype)
  int64_t rows;
  int64_t k;  // a multiple of the type's block
  const std::byte* data;
};

// Rows of inputs, in the form or forms that the weights need: see linear_reads_q8.
struct ActivationRows {
  int64_t rows;
  const float* f32 = nullptr;  // [rows][k], f32_stride floats apart
  int64_t f32_stride = 0;
  const std::byte* q8 = nullptr;  // [rows] of q8_row_bytes(k), aligned to 64 bytes
};

// Whether the kernel of a type reads q8 activations, else f32.
bool linear_reads_q8(Isa isa, tensor::DType dtype);

// out[row][i] = sum over k of x[row] w[i] + bias[i] + residual[row][i], the terms added in that order.
struct LinearTask {
  LinearWeight weight;
  const float* bias = nullptr;      // [weight.rows] or null
  const float* residual = nullptr;  // [rows][weight.rows] at out_stride, or null; may be out
  float* out = nullptr;             // [rows][weight.rows], out_stride floats apart
  int64_t out_stride = 0;
};
inline constexpr size_t kMaxLinearTasks = 8;
void launch_linear(Isa isa, Worker& worker, const ActivationRows& x, std::span<const LinearTask> tasks);

// `count` products in one parallel loop, each with an input of its own; part(i) gives the i-th, any number of times.
struct LinearPart {
  ActivationRows x;
  LinearTask task;
};
void launch_linear_parts(Isa isa, Worker& worker, int64_t count, FunctionRef<LinearPart(int64_t)> part);

// out = activation(x gate^T + gate_bias) * (x up^T + up_bias), to out and q8 (either may be null); gate and up have the
// same shape.
struct GatedLinear {
  Activation activation;
  LinearWeight gate;
  LinearWeight up;
  const float* gate_bias = nullptr;
  const float* up_bias = nullptr;
  float* out = nullptr;  // [rows][gate.rows], out_stride floats apart
  int64_t out_stride = 0;
  std::byte* q8 = nullptr;  // [rows] of q8_row_bytes(gate.rows), aligned to 64 bytes; gate.rows a multiple of 32
};
void launch_linear_gated(Isa isa, Worker& worker, const ActivationRows& x, const GatedLinear& args);

// As launch_linear_parts.
struct GatedPart {
  ActivationRows x;
  GatedLinear args;
};
void launch_gated_parts(Isa isa, Worker& worker, int64_t count, FunctionRef<GatedPart(int64_t)> part);

// How a product is cut into chunks for threads: a pure function, so that it is tested without a device.
struct LinearCut {
  int64_t panels;   // a chunk
  int64_t columns;  // a chunk
};
// layout_rows, and bytes of a row of x.
LinearCut linear_cut(Layout layout, int64_t columns, int64_t x_row_bytes);

// How the threads of a section claim chunks, which lie behind one another in memory: each claim takes two thirds of a
// thread's share of what is left, so that most are long, threads end together, and one that runs at half the speed of
// the others delays none. A processor that reads at a new place takes about 1 us (Zen 4) until its prefetchers follow:
// short claims cost a decoding step of small matrices a fifth of its rate. Pure; a thread asks in ascending order.
class LinearClaims {
 public:
  LinearClaims(int64_t chunks, int64_t threads);
  int64_t count() const { return count_; }
  struct Claim {
    int64_t begin;
    int64_t end;
  };
  Claim at(int64_t index);

 private:
  int64_t size_from(int64_t begin) const;

  int64_t chunks_;
  int64_t threads_;
  int64_t count_ = 0;
  int64_t next_ = 0;   // the claim that begins
  int64_t begin_ = 0;  // here
};

// pack_panels of a whole matrix, shared out among the threads of a section. Ends with a barrier.
void launch_pack(Worker& worker, const LinearWeight& weight, const std::byte* source, std::byte* panels);

}  // namespace minfer::cpu
