// The activations of a product whose input is normalised as it is read: every block normalises the few rows anew, which
// costs less than a kernel of its own between two that stream weights. Called by all consumer threads after the wait
// for the kernel before; ends with a barrier. Sums run in a fixed order. Oracle: rms_norm, then the product.
#pragma once

#include "cuda/kernels/common/row_io.cuh"
#include "cuda/kernels/linear/decode_params.hpp"

namespace minfer::cuda {

// Quads of a row that a thread holds: rows of up to kNormColumns (launch/linear.hpp).
inline constexpr int kNormQuads = static_cast<int>(kNormColumns / kQuad) / (kDecodeWarps * 32);

__device__ __forceinline__ void norm_barrier() {
  asm volatile("bar.sync 1, %0;" ::"n"(kDecodeWarps * 32) : "memory");
}

// The sum over the consumers, in every thread. `sums`: shared, a float a warp.
__device__ __forceinline__ float consumer_sum(float value, float* sums) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(~0U, value, step);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
  norm_barrier();
  float sum = 0;
#pragma unroll
  for (int w = 0; w < kDecodeWarps; ++w) sum += sums[w];
  return sum;
}

template <bool kPlain>
__device__ __forceinline__ void load_normed_activations(const DecodeParams& p, int tokens, std::byte* act) {
  __shared__ float sums[2][kDecodeWarps];  // of this row and of the one before, which some threads may still read
  constexpr int kThreads = kDecodeWarps * 32;
  const int thread = static_cast<int>(threadIdx.x);
  const int quads = kPlain ? p.act_bytes / 16 : static_cast<int>(padded_quads(p.cols));
  for (int n = 0; n < tokens; ++n) {
    std::byte* row = act + n * p.act_bytes;
    if (n >= p.rows) {
      for (int at = thread * 16; at < p.act_bytes; at += kThreads * 16) {
        *reinterpret_cast<uint4*>(row + at) = make_uint4(0, 0, 0, 0);
      }
      continue;
    }
    const float* x = reinterpret_cast<const float*>(p.x + n * p.x_stride);
    float4 quad[kNormQuads];
    float sum = 0;
#pragma unroll
    for (int v = 0; v < kNormQuads; ++v) {
      quad[v] = load_quad(x, (thread + v * kThreads) * kQuad, p.cols);
      sum += (quad[v].x * quad[v].x + quad[v].y * quad[v].y) + (quad[v].z * quad[v].z + quad[v].w * quad[v].w);
    }
    const float factor = 1.0F / sqrtf(consumer_sum(sum, sums[n % 2]) / static_cast<float>(p.cols) + p.norm_eps);
#pragma unroll
    for (int v = 0; v < kNormQuads; ++v) {
      const int at = thread + v * kThreads;
      if (at >= quads) break;
      const float4 weight = load_quad(p.norm, at * kQuad, p.cols);
      const float4 y = make_float4(quad[v].x * factor * weight.x, quad[v].y * factor * weight.y,
                                   quad[v].z * factor * weight.z, quad[v].w * factor * weight.w);
      if constexpr (kPlain) {
        *reinterpret_cast<float4*>(row + at * 16) = y;
      } else {
        store_q8(row, at * kQuad, p.cols, y);
      }
    }
  }
  norm_barrier();
}

}  // namespace minfer::cuda
