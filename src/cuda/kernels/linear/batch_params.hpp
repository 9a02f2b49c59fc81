// What the small-batch kernels are given: by value, in constant memory. See launch/linear_batch.hpp.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "cuda/launch/linear_batch.hpp"

namespace minfer::cuda {

struct BatchSegment {
  const std::byte* weights;
  const float* bias;
  std::byte* out;      // f32; of a glu: unused
  int64_t out_stride;  // bytes
  int rows;
  int panels;
  int first_group;  // of 64 rows, among all segments' groups
  int type;         // 0 or 1: which of the kernel's two
};

struct BatchParams {
  CUtensorMap x_map;                   // of bf16 x: the pass's rows, in boxes of 64 columns of the kernel's tokens
  BatchSegment segment[kMaxSegments];  // of a glu: gate, up
  int segments;
  int tiles;
  int warpgroups;
  int splits;          // blocks of a cluster, which share a tile's columns
  const std::byte* x;  // of the pass's first row
  int64_t x_stride;
  int rows;            // of the pass, at most its tokens
  int cols;            // a multiple of 32
  int chunks;          // of 256 columns
  int panel_bytes[2];  // of each type
  int slot_bytes;      // of a panel's chunk in a stage
  int stages;          // of the ring of weights
  int x_stages;        // of the ring of activations
  int weights_at;      // in shared memory: the ring of weights
  int scales_at;       // in shared memory: each warp's scales
  int x_scales_at;     // in a q8 row
  int staged_at;       // in shared memory: staged sums
  int staged_tokens;   // at a time: a multiple of 8
  bool glu;
  const float* residual;  // at the segment's out_stride
  // Of a glu:
  std::byte* out;
  int64_t out_stride;
  ActivationFormat format;
  graph::Activation activation;
};

// One pass, in the unit that has the kernels of the plan's types.
struct BatchLaunch {
  BatchPlan plan;
  int tokens = 0;  // the kernel's: 8, 16, 32, 64, 104 or 128
  BatchParams params;
};

void launch_batch_q4_k(const Queue& queue, const BatchLaunch& launch);
void launch_batch_q5_k(const Queue& queue, const BatchLaunch& launch);
void launch_batch_q8_0(const Queue& queue, const BatchLaunch& launch);
void launch_batch_q5_1(const Queue& queue, const BatchLaunch& launch);
void launch_batch_q4_0(const Queue& queue, const BatchLaunch& launch);

}  // namespace minfer::cuda
