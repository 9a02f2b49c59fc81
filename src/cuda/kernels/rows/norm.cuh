// What the norms share: a row is cut in groups that are normalised apart, a block or a warp has a group. See
// launch/rows.hpp.
#pragma once

#include "cuda/kernels/common/require.hpp"
#include "cuda/kernels/common/row_io.cuh"

namespace minfer::cuda {

inline constexpr int64_t kMaxThreads = 1024;
inline constexpr int64_t kWarp = 32;

struct Norm {
  const std::byte* x;
  int64_t x_stride;
  const float* weight;
  int64_t group;
  uint32_t groups;  // a row
  uint32_t total;   // groups of all rows
  float eps;
  std::byte* out;
  int64_t out_stride;
};

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xFFFFFFFFU, value, step);
  return value;
}

// The sum over the block, in every thread.
__device__ __forceinline__ float block_sum(float value) {
  __shared__ float partial[kMaxThreads / kWarp];
  value = warp_sum(value);
  if (threadIdx.x % kWarp == 0) partial[threadIdx.x / kWarp] = value;
  __syncthreads();
  const uint32_t lane = threadIdx.x % kWarp;
  return warp_sum(lane < blockDim.x / kWarp ? partial[lane] : 0.0F);
}

__device__ __forceinline__ const float* group_x(const Norm& norm, uint32_t index) {
  return reinterpret_cast<const float*>(norm.x + index / norm.groups * norm.x_stride) +
         index % norm.groups * norm.group;
}

template <ActivationFormat kFormat>
__device__ __forceinline__ void store_group(const Norm& norm, uint32_t index, int64_t column, float4 quad,
                                            bool aligned) {
  std::byte* row = norm.out + index / norm.groups * norm.out_stride;
  if constexpr (kFormat == ActivationFormat::f32) {
    store_f32(reinterpret_cast<float*>(row) + index % norm.groups * norm.group, column, norm.group, quad, aligned);
  } else {
    store_quad<kFormat>(row, column, norm.group, quad);
  }
}

inline void require_groups(const Rows& x, const Rows& out, int64_t group) {
  require(x.format == ActivationFormat::f32, "a norm reads f32");
  require(x.rows == out.rows && x.width == out.width, "a norm keeps the shape");
  require(group > 0 && x.width % group == 0, "a norm's groups fill a row");
  require(group == x.width || out.format == ActivationFormat::f32, "a norm of groups gives f32");
  require(x.width / group * x.rows <= INT32_MAX, "a norm's groups fill a grid");
}

inline Norm norm_of(const Rows& x, const float* weight, int64_t group, float eps, const Rows& out) {
  Norm norm{};
  norm.x = x.data;
  norm.x_stride = row_stride(x.format, x.width);
  norm.weight = weight;
  norm.group = group;
  norm.groups = static_cast<uint32_t>(x.width / group);
  norm.total = static_cast<uint32_t>(x.width / group * x.rows);
  norm.eps = eps;
  norm.out = out.data;
  norm.out_stride = row_stride(out.format, out.width);
  return norm;
}

}  // namespace minfer::cuda
