// The tile kernel of experts: 128 rows of an expert's matrix (of a glu: 64 of gate and of up, alternating by panels, so
// that a thread has both of an output) times a slice of its entries, by 8-bit products of tensor cores. Integer sums
// are exact; floats are added in the order of the blocks, so that a result does not depend on the entries beside it.
//
// Shared memory: kStages x (16 panels' chunks of 256 columns | [tokens] quants | [tokens] scales, int8_products.cuh) |
// [warp] scales of a chunk. At the end a glu's outputs take the first's place, f32
// [token][64, and 4 of padding]. Oracle: launch/experts_device_test's reference in double precision.
#pragma once

#include "cuda/kernels/common/activation_math.cuh"
#include "cuda/kernels/common/chain.cuh"
#include "cuda/kernels/common/int8_products.cuh"
#include "cuda/kernels/common/q8.cuh"
#include "cuda/kernels/common/require.hpp"
#include "cuda/kernels/common/tile_ring.cuh"
#include "cuda/kernels/experts/tile_params.hpp"
#include "cuda/kernels/linear/batch_weights.cuh"

namespace minfer::cuda {

inline constexpr int kTileWarps = 8;
inline constexpr int kTileThreads = kTileWarps * 32;
inline constexpr int kTilePanels = kTileWarps * 2;
inline constexpr int kTileOutputs = kTileWarps * 8;  // of a glu
inline constexpr int kTileScaleBytes = 1024;         // a warp
inline constexpr int kTileStagedStride = kTileOutputs + 4;

template <int kTokens>
inline constexpr int kTileStages = kTokens > kNarrowTileTokens ? 2 : 3;
template <DType type>
inline constexpr int kTileSlotBytes = panel_type(type).chunk_bytes(8);
template <DType type, int kTokens>
inline constexpr int kTileStageBytes = kTilePanels * kTileSlotBytes<type> + kTokens * (kQuantStride + kScaleStride);
template <DType type, int kTokens>
inline constexpr int kTileSharedBytes =
    kTileStages<kTokens> * kTileStageBytes<type, kTokens> + kTileWarps * kTileScaleBytes;

// What a block works on.
template <DType type, int kTokens, bool kGlu>
struct Tile {
  const TileParams& p;
  std::byte* shared;
  const int* row_of;  // [tokens]: of x; -1: none
  ExpertSlice slice;
  int tile;

  __device__ __forceinline__ std::byte* stage(int chunk) const {
    return shared + chunk % kTileStages<kTokens> * kTileStageBytes<type, kTokens>;
  }

  // A chunk's weights and activations begin to come. Panels beyond the matrix have no copy: their sums are nobody's.
  __device__ __forceinline__ void fetch(int chunk) const {
    constexpr int kPieces = kTileSlotBytes<type> / 16;
    std::byte* to = stage(chunk);
    const int thread = static_cast<int>(threadIdx.x);
    const int pieces = min(kPieces, (p.panel_bytes - chunk * kTileSlotBytes<type>) / 16);
    for (int i = thread; i < kTilePanels * kPieces; i += kTileThreads) {
      const int slot = i / kPieces, piece = i % kPieces;
      const int panel = kGlu ? tile * (kTilePanels / 2) + slot / 2 : tile * kTilePanels + slot;
      if (piece >= pieces || panel >= p.panels) continue;
      const std::byte* from = p.weights[kGlu ? slot % 2 : 0] + slice.expert * p.stride +
                              static_cast<int64_t>(panel) * p.panel_bytes + chunk * kTileSlotBytes<type> + piece * 16;
      copy_behind<16>(to + slot * kTileSlotBytes<type> + piece * 16, from, true);
    }
    std::byte* quants = to + kTilePanels * kTileSlotBytes<type>;
    for (int i = thread; i < kTokens * 16; i += kTileThreads) {
      const int token = i / 16, piece = i % 16, row = row_of[token];
      const bool there = row >= 0 && chunk * 8 + piece / 2 < p.blocks;
      const std::byte* from = there ? p.x + row * p.x_stride + chunk * 256 + piece * 16 : p.x;
      copy_behind<16>(quants + token * kQuantStride + piece * 16, from, there);
    }
    std::byte* scales = quants + kTokens * kQuantStride;
    for (int i = thread; i < kTokens * 8; i += kTileThreads) {
      const int token = i / 8, block = i % 8, row = row_of[token];
      const bool there = row >= 0 && chunk * 8 + block < p.blocks;
      const std::byte* from = there ? p.x + row * p.x_stride + p.x_scales_at + (chunk * 8 + block) * 8 : p.x;
      copy_behind<8>(scales + token * kScaleStride + block * 8, from, there);
    }
  }
};

// One block of 32 columns of a warp's 16 rows and the first kColumns tokens. sums[j]: row g, tokens 8 j + 2 t, + 1; row
// g + 8 likewise.
template <DType type, int kTokens, int kColumns>
__device__ __forceinline__ void multiply_block(const std::byte* panels, int blocks, int block, const std::byte* quants,
                                               const std::byte* scales, float (&sums)[kTokens / 8][4]) {
  const int lane = static_cast<int>(threadIdx.x % 32), g = lane / 4, t = lane % 4;
  uint32_t a[4];
  byte_operands<type>(panels, blocks, block, g, t, a[0], a[2]);
  byte_operands<type>(panels + kTileSlotBytes<type>, blocks, block, g, t, a[1], a[3]);
  const float2 row[2] = {load_as<float2>(scales + (block * 16 + g) * 8),
                         load_as<float2>(scales + (block * 16 + 8 + g) * 8)};
#pragma unroll
  for (int j = 0; j < kColumns / 8; ++j) {
    const std::byte* x = quants + (8 * j + g) * kQuantStride + block * 32 + t * 4;
    const uint32_t b[2] = {load_as<uint32_t>(x), load_as<uint32_t>(x + 16)};
    const std::byte* x_scales = quants + kTokens * kQuantStride + (8 * j + 2 * t) * kScaleStride + block * 8;
    const float2 token[2] = {load_as<float2>(x_scales), load_as<float2>(x_scales + kScaleStride)};
    add_block<kHalves<type>, kHasOffset<type>>(a, b, row, token, sums[j]);
  }
}

template <DType type, int kTokens, int kColumns, bool kGlu>
__device__ __forceinline__ void multiply_chunk(const Tile<type, kTokens, kGlu>& tile, int chunk,
                                               float (&sums)[kTokens / 8][4]) {
  const int warp = static_cast<int>(threadIdx.x / 32);
  const std::byte* stage = tile.stage(chunk);
  const std::byte* panels = stage + warp * 2 * kTileSlotBytes<type>;
  const std::byte* quants = stage + kTilePanels * kTileSlotBytes<type>;
  std::byte* scales = tile.shared + kTileStages<kTokens> * kTileStageBytes<type, kTokens> + warp * kTileScaleBytes;
  const int blocks = min(tile.p.blocks - chunk * 8, 8);
  prepare_floats<type>(panels, kTileSlotBytes<type>, blocks, scales);
  __syncwarp();
  if (blocks == 8) {
#pragma unroll 2
    for (int block = 0; block < 8; ++block)
      multiply_block<type, kTokens, kColumns>(panels, 8, block, quants, scales, sums);
  } else if constexpr (panel_type(type).source_elements < 256) {
    for (int block = 0; block < blocks; ++block) {
      multiply_block<type, kTokens, kColumns>(panels, blocks, block, quants, scales, sums);
    }
  }
}

template <DType type, int kTokens>
__device__ __forceinline__ void store_products(const Tile<type, kTokens, false>& tile,
                                               const float (&sums)[kTokens / 8][4]) {
  const TileParams& p = tile.p;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int first = tile.tile * (kTilePanels * 8) + static_cast<int>(threadIdx.x / 32) * 16 + lane / 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first + half * 8;
    if (row >= p.rows) continue;
    const float bias = p.bias[0] == nullptr ? 0.0F : p.bias[0][tile.slice.expert * p.rows + row];
#pragma unroll
    for (int j = 0; j < kTokens / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int token = 8 * j + lane % 4 * 2 + e;
        if (token >= tile.slice.count) continue;
        std::byte* out = p.out + (tile.slice.first + token) * p.out_stride;
        reinterpret_cast<float*>(out)[row] = sums[j][half * 2 + e] + bias;
      }
    }
  }
}

// Through shared memory: 32 outputs of a token, a block of q8, are four warps' ones.
template <DType type, int kTokens>
__device__ __forceinline__ void store_gated(const Tile<type, kTokens, true>& tile,
                                            const float (&sums)[kTokens / 8][4]) {
  const TileParams& p = tile.p;
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  auto* staged = reinterpret_cast<float*>(tile.shared);
  const int column = warp * 8 + lane / 4, row = tile.tile * kTileOutputs + column;
  const int64_t biases = tile.slice.expert * p.rows + min(row, p.rows - 1);
  const float gate_bias = p.bias[0] == nullptr ? 0.0F : p.bias[0][biases];
  const float up_bias = p.bias[1] == nullptr ? 0.0F : p.bias[1][biases];
  __syncthreads();
#pragma unroll
  for (int j = 0; j < kTokens / 8; ++j) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const float gate = sums[j][e] + gate_bias, up = sums[j][2 + e] + up_bias;
      const float value = gated_value(p.activation, gate, up);
      staged[(8 * j + lane % 4 * 2 + e) * kTileStagedStride + column] = row < p.rows ? value : 0.0F;
    }
  }
  __syncthreads();
  constexpr int kGroups = kTileOutputs / 32;
  for (int item = warp; item < tile.slice.count * kGroups; item += kTileWarps) {
    const int token = item / kGroups, group = item % kGroups;
    const int out_row = tile.tile * kTileOutputs + group * 32 + lane;
    if (tile.tile * kTileOutputs + group * 32 >= p.rows) continue;
    const float value = staged[token * kTileStagedStride + group * 32 + lane];
    std::byte* out = p.out + (tile.slice.first + token) * p.out_stride;
    if (p.format == ActivationFormat::q8) {
      store_q8_block(out, p.rows, out_row / 32, value);
    } else if (out_row < p.rows) {
      if (p.format == ActivationFormat::f32) reinterpret_cast<float*>(out)[out_row] = value;
      if (p.format == ActivationFormat::bf16)
        reinterpret_cast<__nv_bfloat16*>(out)[out_row] = __float2bfloat16_rn(value);
    }
  }
}

template <int kPending>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// All chunks, of which the first kAhead are on their way.
template <DType type, int kTokens, int kColumns, bool kGlu>
__device__ __forceinline__ void multiply_chunks(const Tile<type, kTokens, kGlu>& tile, int chunks,
                                                float (&sums)[kTokens / 8][4]) {
  constexpr int kAhead = kTileStages<kTokens> - 1;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    wait_copies<kAhead - 1>();
    __syncthreads();
    if (chunk + kAhead < chunks) tile.fetch(chunk + kAhead);
    asm volatile("cp.async.commit_group;" ::: "memory");
    multiply_chunk<type, kTokens, kColumns>(tile, chunk, sums);
  }
}

template <DType type, int kTokens, bool kGlu>
__global__ void __launch_bounds__(kTileThreads, 2) tile_kernel(const __grid_constant__ TileParams p) {
  extern __shared__ __align__(128) std::byte shared[];
  __shared__ int row_of[kTokens];
  constexpr int kAhead = kTileStages<kTokens> - 1;
  allow_dependents();
  wait_for_dependencies();
  if (static_cast<int>(blockIdx.y) >= *p.slices) return;
  const ExpertSlice slice = p.slice[blockIdx.y];
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < kTokens) {
    const int entry = slice.first + thread;
    row_of[thread] = thread >= slice.count ? -1 : p.source == nullptr ? entry : p.source[entry];
  }
  __syncthreads();
  const Tile<type, kTokens, kGlu> tile{p, shared, row_of, slice, static_cast<int>(blockIdx.x)};
  const int chunks = (p.blocks + 7) / 8;
  for (int chunk = 0; chunk < kAhead; ++chunk) {
    if (chunk < chunks) tile.fetch(chunk);
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  float sums[kTokens / 8][4] = {};
  // A slice that is mostly empty, the last of an expert, costs as much less.
  constexpr int kFew = kTokens > kNarrowTileTokens ? kTokens / 4 : kTokens / 2;
  if (slice.count <= kFew) {
    multiply_chunks<type, kTokens, kFew>(tile, chunks, sums);
  } else if (slice.count <= kTokens / 2) {
    multiply_chunks<type, kTokens, kTokens / 2>(tile, chunks, sums);
  } else {
    multiply_chunks<type, kTokens, kTokens>(tile, chunks, sums);
  }
  if constexpr (kGlu) {
    store_gated(tile, sums);
  } else {
    store_products(tile, sums);
  }
}

template <DType type, int kTokens, bool kGlu>
void launch_tile_kernel(const Queue& queue, const TileLaunch& launch) {
  constexpr int kOutputs = kGlu ? kTileOutputs : kTilePanels * 8;
  require(launch.slices <= 65535, "slices of experts fit a grid");
  LaunchShape shape;
  shape.grid =
      dim3(static_cast<unsigned>((launch.params.rows + kOutputs - 1) / kOutputs), static_cast<unsigned>(launch.slices));
  shape.block = dim3(kTileThreads);
  shape.shared_bytes = kTileSharedBytes<type, kTokens>;
  const char* site = kGlu ? "experts/tile_glu" : "experts/tile";
  launch_kernel(queue, site, shape, tile_kernel<type, kTokens, kGlu>, launch.params);
}

// For the units that instantiate.
template <DType type>
void launch_tile_of(const Queue& queue, const TileLaunch& launch) {
  const bool narrow = launch.tokens == kNarrowTileTokens;
  if (launch.glu) {
    if (narrow) return launch_tile_kernel<type, kNarrowTileTokens, true>(queue, launch);
    return launch_tile_kernel<type, kTileTokens, true>(queue, launch);
  }
  if (narrow) return launch_tile_kernel<type, kNarrowTileTokens, false>(queue, launch);
  launch_tile_kernel<type, kTileTokens, false>(queue, launch);
}

}  // namespace minfer::cuda
