// RMS norm. A block has a row (or a group of one), a warp has a group of up to 512 elements; the row stays in
// registers between its two passes, and the weights are loaded before the kernel before this one has ended. Sums run
// in an order fixed by the width and the number of rows. See launch/rows.hpp.
#include <algorithm>

#include "cuda/kernels/common/chain.cuh"
#include "cuda/kernels/common/require.hpp"
#include "cuda/kernels/rows/norm.cuh"
#include "cuda/launch/rows.hpp"

namespace minfer::cuda {
namespace {

constexpr int64_t kWarpsPerBlock = 4;    // of the kernel with a group a warp
constexpr int64_t kMaxVectors = 8;       // quads a thread holds
constexpr int64_t kBusyRowsPerUnit = 4;  // rows a multiprocessor from which blocks are made smaller

__device__ __forceinline__ float square_sum(float4 quad) {
  return (quad.x * quad.x + quad.y * quad.y) + (quad.z * quad.z + quad.w * quad.w);
}

__device__ __forceinline__ float4 scaled(float4 quad, float factor, float4 weight) {
  return make_float4(quad.x * factor * weight.x, quad.y * factor * weight.y, quad.z * factor * weight.z,
                     quad.w * factor * weight.w);
}

template <ActivationFormat kFormat, int kVectors, bool kGroupAWarp>
__global__ void __launch_bounds__(kMaxThreads) rms_norm_kernel(Norm norm) {
  allow_dependents();
  const uint32_t lanes = kGroupAWarp ? static_cast<uint32_t>(kWarp) : blockDim.x;
  const uint32_t first = kGroupAWarp ? threadIdx.x % kWarp : threadIdx.x;
  const uint32_t index =
      kGroupAWarp ? blockIdx.x * static_cast<uint32_t>(kWarpsPerBlock) + threadIdx.x / kWarp : blockIdx.x;
  const bool aligned = norm.group % kQuad == 0 || norm.groups == 1;
  // Wide rows need their registers for x.
  constexpr bool kEarlyWeights = kVectors <= 4;
  float4 weight[kEarlyWeights ? kVectors : 1];
  if constexpr (kEarlyWeights) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) weight[v] = load_quad(norm.weight, (first + v * lanes) * kQuad, norm.group);
  }
  wait_for_dependencies();
  if (kGroupAWarp && index >= norm.total) return;
  const float* x = group_x(norm, index);
  float4 quad[kVectors];
  float sum = 0.0F;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    quad[v] = load_quad(x, (first + v * lanes) * kQuad, norm.group, aligned);
    sum += square_sum(quad[v]);
  }
  sum = kGroupAWarp ? warp_sum(sum) : block_sum(sum);
  const float factor = 1.0F / sqrtf(sum / static_cast<float>(norm.group) + norm.eps);
  const int64_t quads = padded_quads(norm.group);
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int64_t at = first + v * lanes;
    if (at >= quads) break;
    float4 by;
    if constexpr (kEarlyWeights) {
      by = weight[v];
    } else {
      by = load_quad(norm.weight, at * kQuad, norm.group);
    }
    store_group<kFormat>(norm, index, at * kQuad, scaled(quad[v], factor, by), aligned);
  }
}

// Rows too wide for registers: read twice.
template <ActivationFormat kFormat>
__global__ void __launch_bounds__(kMaxThreads) rms_norm_wide_kernel(Norm norm) {
  allow_dependents();
  wait_for_dependencies();
  const bool aligned = norm.group % kQuad == 0 || norm.groups == 1;
  const float* x = group_x(norm, blockIdx.x);
  const int64_t quads = padded_quads(norm.group);
  float sum = 0.0F;
  for (int64_t at = threadIdx.x; at < quads; at += kMaxThreads) {
    sum += square_sum(load_quad(x, at * kQuad, norm.group, aligned));
  }
  const float factor = 1.0F / sqrtf(block_sum(sum) / static_cast<float>(norm.group) + norm.eps);
  for (int64_t at = threadIdx.x; at < quads; at += kMaxThreads) {
    const float4 quad = load_quad(x, at * kQuad, norm.group, aligned);
    const float4 weight = load_quad(norm.weight, at * kQuad, norm.group);
    store_group<kFormat>(norm, blockIdx.x, at * kQuad, scaled(quad, factor, weight), aligned);
  }
}

constexpr const char* kSite = "rows/rms_norm";

template <ActivationFormat kFormat>
void launch_blocks(const Queue& queue, const Norm& norm) {
  const int64_t quads = padded_quads(norm.group);
  const Capabilities& card = *queue.capabilities;
  const bool busy = !card.strict && norm.total >= kBusyRowsPerUnit * card.multiprocessors;
  const int64_t wanted = busy ? std::max<int64_t>(128, (quads + 3) / 4) : quads;
  const int64_t threads = std::min(kMaxThreads, (std::min(wanted, quads) + kWarp - 1) / kWarp * kWarp);
  const int64_t vectors = (quads + threads - 1) / threads;
  LaunchShape shape;
  shape.grid = dim3(norm.total);
  shape.block = dim3(static_cast<uint32_t>(threads));
  if (vectors <= 1) return launch_kernel(queue, kSite, shape, rms_norm_kernel<kFormat, 1, false>, norm);
  if (vectors <= 2) return launch_kernel(queue, kSite, shape, rms_norm_kernel<kFormat, 2, false>, norm);
  if (vectors <= 4) return launch_kernel(queue, kSite, shape, rms_norm_kernel<kFormat, 4, false>, norm);
  if (vectors <= kMaxVectors) return launch_kernel(queue, kSite, shape, rms_norm_kernel<kFormat, 8, false>, norm);
  launch_kernel(queue, kSite, shape, rms_norm_wide_kernel<kFormat>, norm);
}

void launch_warps(const Queue& queue, const Norm& norm) {
  constexpr ActivationFormat kFormat = ActivationFormat::f32;
  LaunchShape shape;
  shape.grid = dim3(static_cast<uint32_t>((norm.total + kWarpsPerBlock - 1) / kWarpsPerBlock));
  shape.block = dim3(static_cast<uint32_t>(kWarp * kWarpsPerBlock));
  const int64_t vectors = (norm.group + kWarp * kQuad - 1) / (kWarp * kQuad);
  if (vectors <= 1) return launch_kernel(queue, kSite, shape, rms_norm_kernel<kFormat, 1, true>, norm);
  if (vectors <= 2) return launch_kernel(queue, kSite, shape, rms_norm_kernel<kFormat, 2, true>, norm);
  launch_kernel(queue, kSite, shape, rms_norm_kernel<kFormat, 4, true>, norm);
}

}  // namespace

void launch_rms_norm(const Queue& queue, const RmsNormArgs& args) {
  require_groups(args.x, args.out, args.group);
  if (args.x.rows == 0) return;
  const Norm norm = norm_of(args.x, args.weight, args.group, args.eps, args.out);
  if (norm.groups > 1 && args.group <= kWarp * kQuad * 4) return launch_warps(queue, norm);
  switch (args.out.format) {
    case ActivationFormat::f32:
      return launch_blocks<ActivationFormat::f32>(queue, norm);
    case ActivationFormat::bf16:
      return launch_blocks<ActivationFormat::bf16>(queue, norm);
    case ActivationFormat::q8:
      return launch_blocks<ActivationFormat::q8>(queue, norm);
  }
}

}  // namespace minfer::cuda
