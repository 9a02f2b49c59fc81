// Kernels that do nothing but read, or nothing but multiply. See launch/limits.hpp.
#include <cuda_bf16.h>

#include "cuda/kernels/common/chain.cuh"
#include "cuda/kernels/common/tile_ring.cuh"
#include "cuda/launch/limits.hpp"

namespace minfer::cuda {
namespace {

constexpr int kStages = 10;
constexpr int kReadThreads = 64;  // one warp fills, one gives back
constexpr int kDotThreads = 512;
constexpr int kDotRounds = 4096;
constexpr int kDotsARound = 8;

__global__ void __launch_bounds__(kReadThreads) read_kernel(const std::byte* data, int64_t tiles, uint32_t* sink) {
  extern __shared__ __align__(128) std::byte ring[];
  __shared__ RingBarriers barriers;
  if (threadIdx.x == 0) init_ring(barriers, kStages, 1);
  __syncthreads();
  wait_for_dependencies();
  const bool fills = threadIdx.x / 32 == 0;
  uint32_t sum = 0;
  int stage = 0;
  uint32_t parity = 0;
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    std::byte* at = ring + stage * kReadTileBytes;
    if (fills) {
      wait_barrier(barriers.empty[stage], parity ^ 1);
      fill_tile(at, data + tile * kReadTileBytes, static_cast<int>(kReadTileBytes), barriers.full[stage]);
    } else {
      wait_barrier(barriers.full[stage], parity);
      sum += *reinterpret_cast<const uint32_t*>(at);
      __syncwarp();
      if (threadIdx.x % 32 == 0) release_tile(barriers.empty[stage]);
    }
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
  if (!fills && threadIdx.x % 32 == 0) sink[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kDotThreads) dot8_kernel(uint32_t* sink) {
  wait_for_dependencies();
  int sums[kDotsARound][4] = {};
  const uint32_t a = threadIdx.x * 0x01030507U, b = threadIdx.x * 0x0B0D1113U;
  for (int round = 0; round < kDotRounds; ++round) {
#pragma unroll
    for (auto& s : sums) {
      asm volatile(
          "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%4,%4,%4}, {%5,%5}, {%0,%1,%2,%3};"
          : "+r"(s[0]), "+r"(s[1]), "+r"(s[2]), "+r"(s[3])
          : "r"(a), "r"(b));
    }
  }
  int sum = 0;
#pragma unroll
  for (const auto& s : sums) sum += s[0] + s[1] + s[2] + s[3];
  sink[blockIdx.x * kDotThreads + threadIdx.x] = static_cast<uint32_t>(sum);
}

__global__ void fill_kernel(__nv_bfloat16* data, int64_t count) {
  wait_for_dependencies();
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < count; i += stride) {
    uint32_t hash = static_cast<uint32_t>(i) * 0x9E3779B9U;
    hash = (hash ^ hash >> 15) * 0x85EBCA6BU;
    data[i] = __float2bfloat16_rn(static_cast<float>(hash >> 8) * 0x1p-23F - 1.0F);
  }
}

}  // namespace

void launch_fill_bf16(const Queue& queue, std::byte* data, int64_t bytes) {
  launch_kernel(queue, "limits/fill", {dim3(1024), dim3(256), 0}, fill_kernel, reinterpret_cast<__nv_bfloat16*>(data),
                bytes / 2);
}

void launch_read(const Queue& queue, const std::byte* data, int64_t bytes, uint32_t* sink) {
  const LaunchShape shape{dim3(static_cast<unsigned>(queue.capabilities->multiprocessors)), dim3(kReadThreads),
                          kStages * kReadTileBytes};
  launch_kernel(queue, "limits/read", shape, read_kernel, data, bytes / kReadTileBytes, sink);
}

double launch_dot8(const Queue& queue, uint32_t* sink) {
  const int blocks = queue.capabilities->multiprocessors * 2;
  launch_kernel(queue, "limits/dot8", {dim3(static_cast<unsigned>(blocks)), dim3(kDotThreads), 0}, dot8_kernel, sink);
  constexpr double kOpsAWarp = 2.0 * 16 * 8 * 32;
  return static_cast<double>(blocks) * (kDotThreads / 32) * kDotRounds * kDotsARound * kOpsAWarp;
}

}  // namespace minfer::cuda
