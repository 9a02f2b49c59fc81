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

// Some quads of the thread's as blocks of q8, in the form of store_q8 (row_io.cuh) but for the quants' rounding: values
// are multiplied by the scale's reciprocal. Steps of all quads together: each step waits for the one before. `row`: the
// token's; `quads`: of it, padded.
template <int kCount>
__device__ __forceinline__ void store_normed_q8(const DecodeParams& p, std::byte* row, int first, int quads,
                                                const float4 (&y)[kCount]) {
  constexpr int kThreads = kDecodeWarps * 32;
  float largest[kCount];
  uint32_t words[kCount];
  int sums[kCount];
#pragma unroll
  for (int v = 0; v < kCount; ++v) largest[v] = quad_magnitude(y[v]);
#pragma unroll
  for (int step = 1; step < 8; step *= 2) {
#pragma unroll
    for (int v = 0; v < kCount; ++v) largest[v] = fmaxf(largest[v], __shfl_xor_sync(~0U, largest[v], step));
  }
#pragma unroll
  for (int v = 0; v < kCount; ++v) {
    const bool some = largest[v] < INFINITY && largest[v] >= 127.0F * kSmallestScale;
    const float inverse = some ? __fdividef(127.0F, largest[v]) : 0.0F;
    const int a = __float2int_rn(y[v].x * inverse), b = __float2int_rn(y[v].y * inverse);
    const int c = __float2int_rn(y[v].z * inverse), d = __float2int_rn(y[v].w * inverse);
    const uint32_t low = __byte_perm(static_cast<uint32_t>(a), static_cast<uint32_t>(b), 0x0040);
    const uint32_t high = __byte_perm(static_cast<uint32_t>(c), static_cast<uint32_t>(d), 0x0040);
    words[v] = some ? __byte_perm(low, high, 0x5410) : 0;
    sums[v] = __dp4a(static_cast<int>(words[v]), 0x01010101, 0);
  }
#pragma unroll
  for (int step = 1; step < 8; step *= 2) {
#pragma unroll
    for (int v = 0; v < kCount; ++v) sums[v] += __shfl_xor_sync(~0U, sums[v], step);
  }
#pragma unroll
  for (int v = 0; v < kCount; ++v) {
    const int at = first + v * kThreads;
    if (at >= quads) continue;
    *reinterpret_cast<uint32_t*>(row + at * kQuad) = words[v];
    if (at % kBlockQuads != 0) continue;
    const bool finite = largest[v] < INFINITY;
    const float scale = !finite ? NAN : largest[v] >= 127.0F * kSmallestScale ? largest[v] * (1.0F / 127.0F) : 0.0F;
    reinterpret_cast<float2*>(row + p.scales_at)[at / kBlockQuads] = {
        scale, finite ? scale * static_cast<float>(sums[v]) : NAN};
  }
}

// To shared memory: x * w of each token to `act`, sums of squares by warp to `squares` [token][warp]. No barrier.
template <bool kPlain>
__device__ __forceinline__ void load_normed_activations(const DecodeParams& p, int tokens,
                                                        const float4 (&weight)[kNormQuads], std::byte* act,
                                                        float* squares) {
  constexpr int kThreads = kDecodeWarps * 32, kBatch = 4;
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
    float sum = 0;
#pragma unroll
    for (int batch = 0; batch < kNormQuads; batch += kBatch) {
      if (batch * kThreads >= quads) break;
      const int first = thread + batch * kThreads;
      float4 y[kBatch];
#pragma unroll
      for (int v = 0; v < kBatch; ++v) y[v] = load_quad(x, (first + v * kThreads) * kQuad, p.cols);
#pragma unroll
      for (int v = 0; v < kBatch; ++v) {
        const float4 q = y[v], w = weight[batch + v];
        sum += (q.x * q.x + q.y * q.y) + (q.z * q.z + q.w * q.w);
        y[v] = make_float4(q.x * w.x, q.y * w.y, q.z * w.z, q.w * w.w);
        if constexpr (kPlain) {
          if (first + v * kThreads < quads) *reinterpret_cast<float4*>(row + (first + v * kThreads) * 16) = y[v];
        }
      }
      if constexpr (!kPlain) store_normed_q8(p, row, first, quads, y);
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
