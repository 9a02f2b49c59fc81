// From the sums of a tile's rows and tokens to outputs: biases, residuals, the gated product, formats. Either at once
// by the threads that have the sums, or through shared memory, where the blocks of a cluster add theirs, in their
// order. Which thread has which sums: batch.cuh.
#pragma once

#include <cuda_bf16.h>

#include "cuda/kernels/common/activation_math.cuh"
#include "cuda/kernels/common/chain.cuh"
#include "cuda/kernels/common/q8.cuh"
#include "cuda/kernels/common/tile_ring.cuh"
#include "cuda/kernels/linear/batch_params.hpp"

namespace minfer::cuda {

__device__ __forceinline__ int find_segment(const BatchParams& p, int tile) {
  int s = 0;
  while (s + 1 < p.segments && !p.glu && tile >= p.segment[s + 1].first_tile) ++s;
  return s;
}

__device__ __forceinline__ float gated_value(const BatchParams& p, float gate, float up, int row) {
  if (p.segment[0].bias != nullptr) gate += p.segment[0].bias[row];
  if (p.segment[1].bias != nullptr) up += p.segment[1].bias[row];
  return (p.activation == graph::Activation::silu ? silu(gate) : gelu_tanh(gate)) * up;
}

__device__ __forceinline__ void store_gated(const BatchParams& p, int token, int row, float value) {
  std::byte* out = p.out + token * p.out_stride;
  if (p.format == ActivationFormat::f32) {
    reinterpret_cast<float*>(out)[row] = value;
  } else {
    reinterpret_cast<__nv_bfloat16*>(out)[row] = __float2bfloat16_rn(value);
  }
}

__device__ __forceinline__ void store_plain(const BatchParams& p, const BatchSegment& segment, int token, int row,
                                            float value) {
  const int64_t at = token * segment.out_stride;
  if (segment.bias != nullptr) value += segment.bias[row];
  if (p.residual != nullptr) {
    value += reinterpret_cast<const float*>(reinterpret_cast<const std::byte*>(p.residual) + at)[row];
  }
  reinterpret_cast<float*>(segment.out + at)[row] = value;
}

// A thread's sums of a tile, where nothing is put together.
template <int kTokens>
__device__ __forceinline__ void store_sums(const BatchParams& p, int tile, const float (&sums)[kTokens / 2]) {
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32), g = lane / 4;
  const BatchSegment& segment = p.segment[find_segment(p, tile)];
  const int row = p.glu ? tile * (p.warpgroups * 32) + warp * 8 + g
                        : (tile - segment.first_tile) * (p.warpgroups * 64) + warp * 16 + g;
#pragma unroll
  for (int j = 0; j < kTokens / 8; ++j) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int token = 8 * j + lane % 4 * 2 + e;
      if (token >= p.rows) continue;
      const float one = sums[4 * j + e], other = sums[4 * j + 2 + e];
      if (p.glu) {
        if (row < segment.rows) store_gated(p, token, row, gated_value(p, one, other, row));
      } else {
        if (row < segment.rows) store_plain(p, segment, token, row, one);
        if (row + 8 < segment.rows) store_plain(p, segment, token, row + 8, other);
      }
    }
  }
}

// Floats from a token to the next: a multiple of 4, and 4 beyond one of 32, so that a warp's stores meet all banks.
__device__ __forceinline__ int staged_stride(const BatchParams& p) {
  return p.warpgroups * 64 + 4;
}

__device__ __forceinline__ void consumers_barrier(const BatchParams& p) {
  asm volatile("bar.sync 1, %0;" ::"r"(p.warpgroups * 128) : "memory");
}

// A thread's sums into the rings' place, when all consumers are done with these.
template <int kTokens>
__device__ __forceinline__ void stage_sums(const BatchParams& p, float* staged, const float (&sums)[kTokens / 2]) {
  consumers_barrier(p);
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const int row = warp * 16 + lane / 4, stride = staged_stride(p);
#pragma unroll
  for (int j = 0; j < kTokens / 8; ++j) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      float* at = staged + (8 * j + lane % 4 * 2 + e) * stride + row;
      at[0] = sums[4 * j + e];
      at[8] = sums[4 * j + 2 + e];
    }
  }
}

__device__ __forceinline__ void sync_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}
// The same by threads that have written nothing that others of the cluster read.
__device__ __forceinline__ void meet_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
#endif
}

// What each of the cluster's blocks has at a place; loads only, so that several places are under way.
__device__ __forceinline__ void load_parts(const float* at, int splits, float (&parts)[kBatchMaxSplits]) {
#if __CUDA_ARCH__ >= 900
  if (splits > 1) {
#pragma unroll
    for (int s = 0; s < kBatchMaxSplits; ++s) {
      if (s >= splits) break;
      uint32_t remote;
      asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(shared_address(at)), "r"(s));
      asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(parts[s]) : "r"(remote) : "memory");
    }
    return;
  }
#endif
  parts[0] = *at;
}
// Their sum, in the order of the blocks.
__device__ __forceinline__ float sum_parts(const float (&parts)[kBatchMaxSplits], int splits) {
  float sum = parts[0];
#pragma unroll
  for (int s = 1; s < kBatchMaxSplits; ++s) {
    if (s < splits) sum += parts[s];
  }
  return sum;
}

// 32 outputs of one token: a warp's item of what is staged.
struct StagedItem {
  int token, row;  // row: this lane's, of the tile
  bool some;       // of the 32 are in the matrix
  bool there;      // this lane's is

  __device__ __forceinline__ StagedItem(const BatchParams& p, int item, int groups, int rank, int first, int rows)
      : token(item / groups * p.splits + rank), row(item % groups * 32 + static_cast<int>(threadIdx.x % 32)) {
    some = token < p.rows && first + item % groups * 32 < rows;
    there = some && first + row < rows;
  }
};

__device__ __forceinline__ void store_staged_glu(const BatchParams& p, const float* staged, const StagedItem& item,
                                                 int first, int rows) {
  const float* at = staged + item.token * staged_stride(p) + item.row / 8 * 16 + item.row % 8;
  float gate[kBatchMaxSplits], up[kBatchMaxSplits];
  load_parts(at, p.splits, gate);
  load_parts(at + 8, p.splits, up);
  const int row = first + item.row;
  float value = 0;
  if (item.there) value = gated_value(p, sum_parts(gate, p.splits), sum_parts(up, p.splits), row);
  if (p.format == ActivationFormat::q8) {
    store_q8_block(p.out + item.token * p.out_stride, rows, row / 32, value);
  } else if (item.there) {
    store_gated(p, item.token, row, value);
  }
}

// By all consumers of the block: its share of the tile's tokens. The block's other threads take part in the two cluster
// barriers. Sums of plain products are loaded four items at a time.
template <int kTokens>
__device__ __forceinline__ void store_staged(const BatchParams& p, const float* staged) {
  if (p.splits > 1) {
    sync_cluster();
  } else {
    consumers_barrier(p);
  }
  const int rank = static_cast<int>(blockIdx.x) % p.splits, tile = static_cast<int>(blockIdx.x) / p.splits;
  const int warps = p.warpgroups * 4, stride = staged_stride(p);
  const BatchSegment& segment = p.segment[find_segment(p, tile)];
  const int groups = p.glu ? p.warpgroups : p.warpgroups * 2;
  const int first = (tile - segment.first_tile) * groups * 32;
  const int items = (min(kTokens, p.rows) + p.splits - 1) / p.splits * groups;
  constexpr int kItems = 4;
  for (int base = static_cast<int>(threadIdx.x / 32); base < items; base += kItems * warps) {
    float parts[kItems][kBatchMaxSplits];
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const StagedItem item(p, base + i * warps, groups, rank, first, segment.rows);
      if (!item.some) continue;
      if (p.glu) {
        store_staged_glu(p, staged, item, first, segment.rows);
      } else {
        load_parts(staged + item.token * stride + item.row, p.splits, parts[i]);
      }
    }
    if (p.glu) continue;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const StagedItem item(p, base + i * warps, groups, rank, first, segment.rows);
      if (item.there) store_plain(p, segment, item.token, first + item.row, sum_parts(parts[i], p.splits));
    }
  }
  if (p.splits > 1) {
    __syncwarp();
    meet_cluster();
  }
}

}  // namespace minfer::cuda
