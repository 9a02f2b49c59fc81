// Single heads of the paged cache: where they are, how floats become a format's bytes, and back. Used where a warp
// handles one head of one token; the fast attention kernels copy whole pieces of pages instead (split.cuh, tile.cuh).
// The rounding is the CPU's: to nearest even, q8_0 in blocks of 32 with d = max|x| / 127.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "cuda/launch/kv_layout.hpp"

namespace minfer::cuda::attention {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffU;

// K or V of one layer.
struct CachePart {
  std::byte* base;
  int64_t page_stride;
  graph::KvFormat format;
  int heads;
  int size;        // elements of a head
  int64_t scales;  // where q8_0 scales begin
};

__host__ __device__ inline CachePart key_part(const KvLayerView& kv) {
  return {kv.k,
          kv.page_stride,
          kv.key_format,
          static_cast<int>(kv.kv_heads),
          static_cast<int>(kv.key_size),
          kv_scales_offset(kv.kv_heads, kv.key_size)};
}
__host__ __device__ inline CachePart value_part(const KvLayerView& kv) {
  return {kv.v,
          kv.page_stride,
          kv.value_format,
          static_cast<int>(kv.kv_heads),
          static_cast<int>(kv.value_size),
          kv_scales_offset(kv.kv_heads, kv.value_size)};
}

__device__ __forceinline__ int element_bytes(graph::KvFormat format) {
  return format == graph::KvFormat::f32 ? 4 : format == graph::KvFormat::q8_0 ? 1 : 2;
}

// One head of one token.
struct HeadPlace {
  std::byte* elements;
  __half* scales;  // q8_0: size / 32
};

__device__ __forceinline__ HeadPlace head_place(const CachePart& part, int64_t page, int token, int head) {
  std::byte* at = part.base + page * part.page_stride;
  const int64_t row = static_cast<int64_t>(head) * kKvPageTokens + token;
  return {at + row * part.size * element_bytes(part.format),
          reinterpret_cast<__half*>(at + part.scales + row * (part.size / 32) * 2)};
}

__device__ __forceinline__ float read_element(graph::KvFormat format, const HeadPlace& place, int i) {
  switch (format) {
    case graph::KvFormat::f32:
      return reinterpret_cast<const float*>(place.elements)[i];
    case graph::KvFormat::f16:
      return __half2float(reinterpret_cast<const __half*>(place.elements)[i]);
    case graph::KvFormat::bf16:
      return __bfloat162float(reinterpret_cast<const __nv_bfloat16*>(place.elements)[i]);
    case graph::KvFormat::q8_0:
      return static_cast<float>(reinterpret_cast<const int8_t*>(place.elements)[i]) *
             __half2float(place.scales[i / 32]);
  }
  return 0;
}

// The largest of the warp's values taken as integers: for |x|, NaN > infinity > finite.
__device__ __forceinline__ uint32_t warp_max(uint32_t value) {
  return __reduce_max_sync(kAllLanes, value);
}
__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int step = kWarp / 2; step > 0; step /= 2) value += __shfl_xor_sync(kAllLanes, value, step);
  return value;
}

// Elements [0, n) of a head from `values`, by one warp; q8_0: whole blocks.
__device__ __forceinline__ void write_head(graph::KvFormat format, const HeadPlace& place, const float* values, int n) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (format == graph::KvFormat::q8_0) {
    for (int block = 0; block < n / 32; ++block) {
      const float x = values[block * 32 + lane];
      const float d = __uint_as_float(warp_max(__float_as_uint(fabsf(x)))) / 127.0F;
      const __half scale = __float2half_rn(d);
      const bool none = __half2float(scale) == 0.0F || !isfinite(d);
      reinterpret_cast<int8_t*>(place.elements)[block * 32 + lane] =
          none ? int8_t{0} : static_cast<int8_t>(__float2int_rn(x / d));
      if (lane == 0) place.scales[block] = scale;
    }
    return;
  }
  for (int i = lane; i < n; i += kWarp) {
    if (format == graph::KvFormat::f32) {
      reinterpret_cast<float*>(place.elements)[i] = values[i];
    } else if (format == graph::KvFormat::f16) {
      reinterpret_cast<__half*>(place.elements)[i] = __float2half_rn(values[i]);
    } else {
      reinterpret_cast<__nv_bfloat16*>(place.elements)[i] = __float2bfloat16_rn(values[i]);
    }
  }
}

// Turns pair i of `rotated` elements in place: (a, b) -> (a cos - b sin, a sin + b cos).
__device__ __forceinline__ void rotate_pair(float* x, int i, int rotated, bool halves, float cosine, float sine) {
  float& a = x[halves ? i : 2 * i];
  float& b = x[halves ? i + rotated / 2 : 2 * i + 1];
  const float first = a * cosine - b * sine;
  b = a * sine + b * cosine;
  a = first;
}

}  // namespace minfer::cuda::attention
