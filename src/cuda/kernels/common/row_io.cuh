// Rows by quads (4 columns): what the kernels on rows share. A thread holds a quad, 8 neighbouring lanes a block of 32
// columns, so that a q8 block is reduced by shuffles within its octet. Columns beyond the width are loaded as zeros and
// not stored (q8: stored as the zeros that pad the last block). Formats: launch/activation.hpp.
#pragma once

#include <cuda_bf16.h>

#include "cuda/launch/activation.hpp"

namespace minfer::cuda {

inline constexpr int64_t kQuad = 4;
inline constexpr int64_t kBlockQuads = kQ8Block / kQuad;
inline constexpr float kSmallestScale = 1.17549435e-38F;  // the smallest normal float

// Quads of a row with the padding of its last block: every lane of an octet takes part in store_quad.
constexpr int64_t padded_quads(int64_t width) {
  return q8_blocks(width) * kBlockQuads;
}

// 4 floats at `column`; `aligned`: base + column is a multiple of 16 bytes.
__device__ __forceinline__ float4 load_quad(const float* base, int64_t column, int64_t width, bool aligned = true) {
  if (aligned && column + kQuad <= width) return *reinterpret_cast<const float4*>(base + column);
  float4 quad = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
  if (column < width) quad.x = base[column];
  if (column + 1 < width) quad.y = base[column + 1];
  if (column + 2 < width) quad.z = base[column + 2];
  if (column + 3 < width) quad.w = base[column + 3];
  return quad;
}

__device__ __forceinline__ void store_f32(float* base, int64_t column, int64_t width, float4 quad,
                                          bool aligned = true) {
  if (aligned && column + kQuad <= width) {
    *reinterpret_cast<float4*>(base + column) = quad;
    return;
  }
  if (column < width) base[column] = quad.x;
  if (column + 1 < width) base[column + 1] = quad.y;
  if (column + 2 < width) base[column + 2] = quad.z;
  if (column + 3 < width) base[column + 3] = quad.w;
}

__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

__device__ __forceinline__ void store_bf16(__nv_bfloat16* base, int64_t column, int64_t width, float4 quad) {
  if (column + kQuad <= width) {
    *reinterpret_cast<uint2*>(base + column) = make_uint2(pack_bf16(quad.x, quad.y), pack_bf16(quad.z, quad.w));
    return;
  }
  if (column < width) base[column] = __float2bfloat16_rn(quad.x);
  if (column + 1 < width) base[column + 1] = __float2bfloat16_rn(quad.y);
  if (column + 2 < width) base[column + 2] = __float2bfloat16_rn(quad.z);
}

// The largest magnitude, infinity where one is not finite.
__device__ __forceinline__ float quad_magnitude(float4 quad) {
  const float values[4] = {quad.x, quad.y, quad.z, quad.w};
  float largest = 0.0F;
#pragma unroll
  for (float value : values) {
    const float magnitude = fabsf(value);
    largest = magnitude <= largest ? largest : (magnitude < INFINITY ? magnitude : INFINITY);
  }
  return largest;
}

// Called by all lanes of an octet: lane i of it has columns column .. column + 3, column = 32 b + 4 i. A block with a
// value that is not finite gets NaN scales; one whose largest magnitude is under 127 times the smallest normal float
// gets zeros.
__device__ __forceinline__ void store_q8(std::byte* row, int64_t column, int64_t width, float4 quad) {
  const uint32_t lane = threadIdx.x & 31U;
  const uint32_t octet = 0xFFU << (lane & 24U);
  float largest = quad_magnitude(quad);
#pragma unroll
  for (int step = 1; step < 8; step *= 2) largest = fmaxf(largest, __shfl_xor_sync(octet, largest, step));
  const float scale = largest / 127.0F;
  const bool finite = largest < INFINITY;
  char4 quants = make_char4(0, 0, 0, 0);
  int sum = 0;
  if (finite && scale >= kSmallestScale) {
    const int a = __float2int_rn(quad.x / scale);
    const int b = __float2int_rn(quad.y / scale);
    const int c = __float2int_rn(quad.z / scale);
    const int d = __float2int_rn(quad.w / scale);
    quants = make_char4(static_cast<signed char>(a), static_cast<signed char>(b), static_cast<signed char>(c),
                        static_cast<signed char>(d));
    sum = a + b + c + d;
  }
#pragma unroll
  for (int step = 1; step < 8; step *= 2) sum += __shfl_xor_sync(octet, sum, step);
  *reinterpret_cast<char4*>(row + column) = quants;
  if ((lane & 7U) != 0) return;
  float2 scales = make_float2(0.0F, 0.0F);
  if (!finite) {
    scales = make_float2(NAN, NAN);
  } else if (scale >= kSmallestScale) {
    scales = make_float2(scale, scale * static_cast<float>(sum));
  }
  reinterpret_cast<float2*>(row + q8_quants_bytes(width))[column / kQ8Block] = scales;
}

// One quad in any format, in a row that starts at `row`. For q8 as store_q8 says.
template <ActivationFormat kFormat>
__device__ __forceinline__ void store_quad(std::byte* row, int64_t column, int64_t width, float4 quad) {
  if constexpr (kFormat == ActivationFormat::f32) {
    store_f32(reinterpret_cast<float*>(row), column, width, quad);
  } else if constexpr (kFormat == ActivationFormat::bf16) {
    store_bf16(reinterpret_cast<__nv_bfloat16*>(row), column, width, quad);
  } else {
    store_q8(row, column, width, quad);
  }
}

}  // namespace minfer::cuda
