// From the sums of a tile's rows and tokens to outputs, through shared memory, where the blocks of a cluster add
// theirs, in their order: biases, residuals, the gated product, formats. Four outputs a thread. Loops are kept short:
// code that runs once is fetched as slowly as it is long, and took longer than a small product when it was unrolled.
// Which thread has which sums: batch.cuh.
#pragma once

#include "cuda/kernels/common/activation_math.cuh"
#include "cuda/kernels/common/chain.cuh"
#include "cuda/kernels/common/row_io.cuh"
#include "cuda/kernels/common/tile_ring.cuh"
#include "cuda/kernels/linear/batch_params.hpp"

namespace minfer::cuda {

// Of a group of 64 rows among those of all segments.
__device__ __forceinline__ int find_segment(const BatchParams& p, int group) {
  int s = 0;
  while (s + 1 < p.segments && !p.glu && group >= p.segment[s + 1].first_group) ++s;
  return s;
}

// Floats from a token to the next: a multiple of 4, and 4 beyond one of 32, so that a warp's stores meet all banks.
__device__ __forceinline__ int staged_stride(const BatchParams& p) {
  return p.warpgroups * 64 + 4;
}

__device__ __forceinline__ void consumers_barrier(const BatchParams& p) {
  asm volatile("bar.sync 1, %0;" ::"r"(p.warpgroups * 128) : "memory");
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

// A thread's sums of tokens [first, first + count), in eights.
template <int kTokens>
__device__ __forceinline__ void stage_sums(const BatchParams& p, float* staged, const float (&sums)[kTokens / 2],
                                           int first, int count) {
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  const int stride = staged_stride(p);
  float* at = staged + (lane % 4 * 2 - first) * stride + warp * 16 + lane / 4;
#pragma unroll
  for (int j = 0; j < kTokens / 8; ++j) {
    if (8 * j >= first && 8 * j < first + count) {
      at[0] = sums[4 * j];
      at[8] = sums[4 * j + 2];
      at[stride] = sums[4 * j + 1];
      at[stride + 8] = sums[4 * j + 3];
    }
    at += 8 * stride;
  }
}

// Four staged sums, of all blocks of the cluster, added in their order.
__device__ __forceinline__ float4 load_sums(const float* at, int splits) {
#if __CUDA_ARCH__ >= 900
  if (splits > 1) {
    float4 parts[kBatchMaxSplits];
#pragma unroll
    for (int s = 0; s < kBatchMaxSplits; ++s) {
      if (s >= splits) break;
      uint32_t remote;
      asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(shared_address(at)), "r"(s));
      asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                   : "=f"(parts[s].x), "=f"(parts[s].y), "=f"(parts[s].z), "=f"(parts[s].w)
                   : "r"(remote)
                   : "memory");
    }
    float4 sum = parts[0];
#pragma unroll
    for (int s = 1; s < kBatchMaxSplits; ++s) {
      if (s >= splits) break;
      sum = make_float4(sum.x + parts[s].x, sum.y + parts[s].y, sum.z + parts[s].z, sum.w + parts[s].w);
    }
    return sum;
  }
#endif
  return *reinterpret_cast<const float4*>(at);
}

__device__ __forceinline__ float4 add_quads(float4 a, float4 b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

// `column`: of the segment. `at`: the first split's sums.
__device__ __forceinline__ void store_plain(const BatchParams& p, const BatchSegment& segment, int token, int column,
                                            const float* at) {
  const int64_t row = token * segment.out_stride;
  float4 value = make_float4(0, 0, 0, 0), residual = value;
  if (segment.bias != nullptr) value = load_quad(segment.bias, column, segment.rows, false);
  if (p.residual != nullptr) {
    const auto* from = reinterpret_cast<const float*>(reinterpret_cast<const std::byte*>(p.residual) + row);
    residual = load_quad(from, column, segment.rows);
  }
  value = add_quads(add_quads(load_sums(at, p.splits), value), residual);
  store_f32(reinterpret_cast<float*>(segment.out + row), column, segment.rows, value);
}

// By all lanes of an octet: a block of 32 outputs.
__device__ __forceinline__ void store_gated(const BatchParams& p, int token, int column, const float* at) {
  const int rows = p.segment[0].rows;
  float4 gate = load_sums(at, p.splits), up = load_sums(at + 8, p.splits);
  if (p.segment[0].bias != nullptr) gate = add_quads(gate, load_quad(p.segment[0].bias, column, rows, false));
  if (p.segment[1].bias != nullptr) up = add_quads(up, load_quad(p.segment[1].bias, column, rows, false));
  float4 value;
  value.x = column < rows ? gated_value(p.activation, gate.x, up.x) : 0;
  value.y = column + 1 < rows ? gated_value(p.activation, gate.y, up.y) : 0;
  value.z = column + 2 < rows ? gated_value(p.activation, gate.z, up.z) : 0;
  value.w = column + 3 < rows ? gated_value(p.activation, gate.w, up.w) : 0;
  std::byte* out = p.out + token * p.out_stride;
  if (p.format == ActivationFormat::q8) {
    store_quad<ActivationFormat::q8>(out, column, rows, value);
  } else if (p.format == ActivationFormat::bf16) {
    store_quad<ActivationFormat::bf16>(out, column, rows, value);
  } else {
    store_quad<ActivationFormat::f32>(out, column, rows, value);
  }
}

// By all consumers of the block: its share of tokens [first, first + count), which are staged.
__device__ __forceinline__ void store_staged(const BatchParams& p, const float* staged, int tile, int first,
                                             int count) {
  const int rank = static_cast<int>(blockIdx.x) % p.splits, stride = staged_stride(p);
  const int quads = p.warpgroups * (p.glu ? 8 : 16);
  const int tokens = min(count, p.rows - first);
  const int items = (tokens - rank + p.splits - 1) / p.splits * quads;
#pragma unroll 1
  for (int item = static_cast<int>(threadIdx.x); item < items; item += p.warpgroups * 128) {
    const int token = item / quads * p.splits + rank, quad = item % quads;
    const float* at = staged + token * stride;
    if (p.glu) {
      const int column = (tile * quads + quad) * 4;
      if (column / 32 * 32 < p.segment[0].rows) {
        store_gated(p, first + token, column, at + quad / 2 * 16 + quad % 2 * 4);
      }
    } else {
      const int group = tile * p.warpgroups + quad / 16;
      const BatchSegment& segment = p.segment[find_segment(p, group)];
      const int column = (group - segment.first_group) * 64 + quad % 16 * 4;
      if (column < segment.rows) store_plain(p, segment, first + token, column, at + quad * 4);
    }
  }
}

// By all consumers of the block, whose sums these are. The block's other threads meet the cluster twice.
template <int kTokens>
__device__ __forceinline__ void store_sums(const BatchParams& p, float* staged, int tile,
                                           const float (&sums)[kTokens / 2]) {
#pragma unroll 1
  for (int first = 0; first < p.rows; first += p.staged_tokens) {
    consumers_barrier(p);
    stage_sums<kTokens>(p, staged, sums, first, p.staged_tokens);
    if (p.splits > 1) {
      sync_cluster();
    } else {
      consumers_barrier(p);
    }
    store_staged(p, staged, tile, first, p.staged_tokens);
  }
  if (p.splits > 1) {
    __syncwarp();
    meet_cluster();
  }
}

}  // namespace minfer::cuda
