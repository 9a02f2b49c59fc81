// The activations of a product whose input is normalised as it is read: y = (x / rms(x) * w) W^T = (x * w) W^T /
// rms(x). Every block multiplies the few rows by w anew, which costs less than a kernel between two that stream
// weights; the factor 1 / rms(x) is applied to the sums, so that nothing waits for it. Blocks of q8 have the quants
// that they would have with the factor: it only scales them. The norm's weights are loaded before the wait for the
// kernel before. Called by all consumer threads. Sums run in a fixed order. Oracle: rms_norm, then the product.
#pragma once

#include "cuda/kernels/common/row_io.cuh"
#include "cuda/kernels/linear/decode_params.hpp"

namespace minfer::cuda {

// Quads of a row that a thread holds: rows of up to kNormColumns (launch/linear.hpp).
inline constexpr int kNormQuads = static_cast<int>(kNormColumns / kQuad) / (kDecodeWarps * 32);

__device__ __forceinline__ void load_norm_weights(const DecodeParams& p, float4 (&weight)[kNormQuads]) {
  if (p.norm == nullptr) return;
#pragma unroll
  for (int v = 0; v < kNormQuads; ++v) {
    weight[v] = load_quad(p.norm, (static_cast<int>(threadIdx.x) + v * kDecodeWarps * 32) * kQuad, p.cols);
  }
}

// To shared memory: x * w of each token to `act`, sums of squares by warp to `squares` [token][warp]. No barrier.
template <bool kPlain>
__device__ __forceinline__ void load_normed_activations(const DecodeParams& p, int tokens,
                                                        const float4 (&weight)[kNormQuads], std::byte* act,
                                                        float* squares) {
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
#pragma unroll
    for (int v = 0; v < kNormQuads; ++v) quad[v] = load_quad(x, (thread + v * kThreads) * kQuad, p.cols);
    float sum = 0;
#pragma unroll
    for (int v = 0; v < kNormQuads; ++v) {
      const float4 q = quad[v], w = weight[v];
      sum += (q.x * q.x + q.y * q.y) + (q.z * q.z + q.w * q.w);
      const int at = thread + v * kThreads;
      if (at >= quads) continue;
      const float4 y = make_float4(q.x * w.x, q.y * w.y, q.z * w.z, q.w * w.w);
      if constexpr (kPlain) {
        *reinterpret_cast<float4*>(row + at * 16) = y;
      } else {
        store_q8(row, at * kQuad, p.cols, y);
      }
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0U, sum, step);
    if (thread % 32 == 0) squares[n * kDecodeWarps + thread / 32] = sum;
  }
}

// What a token's sums are multiplied by; 1 where the input has no norm.
__device__ __forceinline__ float norm_factor(const DecodeParams& p, const float* squares, int token) {
  if (p.norm == nullptr) return 1.0F;
  float sum = 0;
#pragma unroll
  for (int w = 0; w < kDecodeWarps; ++w) sum += squares[token * kDecodeWarps + w];
  return 1.0F / sqrtf(sum / static_cast<float>(p.cols) + p.norm_eps);
}

}  // namespace minfer::cuda
