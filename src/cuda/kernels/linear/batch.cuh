// The small-batch kernel: y = x W^T for kTokens rows, weights streamed once. How work is cut: launch/linear_batch.hpp.
//
// Shared memory, at a multiple of 1024: ring of activations | ring of weights, [stage][panel] chunks | each warp's
// scales, [warp][1 KB] | staged sums, f32 [token][rows of the tile, and 4 of padding]: of a few tokens at a time, or,
// of a block's only tile, of all, and then in the rings' place. Rings: warps of the last warpgroup fill the one of
// weights, a warp a group of the tile and a bulk copy a panel's chunk, and begin before the kernel before has ended;
// its last warp fills the other. A stage of activations is 128 columns of bf16, two boxes of 64 columns of all tokens
// as the tensor copies of 128-byte rows lay them (wgmma.cuh), or a chunk of q8: [8 tokens] quants, then scales
// (int8_products.cuh). A thread's sums: sums[4 j + e], e = 0, 1: row g, token 8 j + 2 t + e; e =
// 2, 3: row g + 8. Oracle: launch/linear_batch_device_test's scalar reference.
#pragma once

#include "cuda/kernels/common/chain.cuh"
#include "cuda/kernels/common/int8_products.cuh"
#include "cuda/kernels/common/tile_ring.cuh"
#include "cuda/kernels/linear/batch_params.hpp"
#include "cuda/kernels/linear/batch_store.cuh"
#include "cuda/kernels/linear/batch_weights.cuh"
#include "cuda/kernels/linear/wgmma.cuh"

namespace minfer::cuda {

// The last warpgroup fills the rings; most of its registers go to the others.
inline constexpr int kBatchThreads = (kBatchMaxWarpgroups + 1) * 128;
inline constexpr int kConsumerRegisters = 152, kFillerRegisters = 56;

// Chunks [begin, end) of the tile are this block's.
struct ChunkRange {
  int begin, end;
  __device__ __forceinline__ explicit ChunkRange(const BatchParams& p) {
    const int rank = static_cast<int>(blockIdx.x) % p.splits;
    begin = p.chunks * rank / p.splits;
    end = p.chunks * (rank + 1) / p.splits;
  }
};
__device__ __forceinline__ int chunk_blocks(const BatchParams& p, int chunk) {
  return min(p.cols / 32 - chunk * 8, 8);
}

// The same where a type's blocks make it a constant.
template <DType type>
__device__ __forceinline__ int known_blocks(const BatchParams& p, int chunk) {
  return panel_type(type).source_elements == 256 ? 8 : chunk_blocks(p, chunk);
}

// A stage's copies were started by all threads of a warp: it is full when theirs have ended.
__device__ __forceinline__ void arrive_with_copies(uint64_t& full) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(&full)) : "memory");
}

// A group's 8 panels of a stage by a warp: `bytes` for each of the first lanes, of panels that are there.
__device__ __forceinline__ void fill_panels(std::byte* group, int slot_bytes, const std::byte* from, int bytes,
                                            uint64_t& full) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#if __CUDA_ARCH__ >= 900
  const int all = __reduce_add_sync(~0U, bytes);
  if (lane == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&full)), "r"(all)
                 : "memory");
  }
  __syncwarp();
  if (bytes > 0) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(group + lane * slot_bytes)),
                 "l"(from), "r"(bytes), "r"(shared_address(&full))
                 : "memory");
  }
  __syncwarp();
#else
  for (int panel = 0; panel < 8; ++panel) {
    const int some = __shfl_sync(~0U, bytes, panel);
    const auto base =
        reinterpret_cast<const std::byte*>(__shfl_sync(~0U, reinterpret_cast<unsigned long long>(from), panel));
    for (int at = lane * 16; at < some; at += 32 * 16) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(group + panel * slot_bytes + at)),
                   "l"(base + at)
                   : "memory");
    }
  }
  arrive_with_copies(full);
#endif
}

// The warps that stream weights, one for each of the tile's groups: a bulk copy takes its lane some hundred cycles.
// Panels beyond the matrix have no copy: their rows' sums are nobody's.
__device__ __forceinline__ void stream_weights(const BatchParams& p, std::byte* ring, RingBarriers& barriers,
                                               const int (&chunk_bytes)[2], int group_of_tile) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const ChunkRange range(p);
  RingPlace place;
  for (int tile = static_cast<int>(blockIdx.x) / p.splits; tile < p.tiles;
       tile += static_cast<int>(gridDim.x) / p.splits) {
    const int group = tile * p.warpgroups + group_of_tile;
    const BatchSegment& segment = p.segment[p.glu ? lane % 2 : find_segment(p, group)];
    const int panel = p.glu ? group * 4 + lane / 2 : (group - segment.first_group) * 8 + lane;
    const bool there = lane < 8 && panel < segment.panels;
    const int whole = segment.type == 0 ? chunk_bytes[0] : chunk_bytes[1];
    const int panel_bytes = segment.type == 0 ? p.panel_bytes[0] : p.panel_bytes[1];
    const std::byte* first = segment.weights + static_cast<int64_t>(panel) * panel_bytes;
    for (int chunk = range.begin; chunk < range.end; ++chunk) {
      wait_barrier(barriers.empty[place.stage], place.parity ^ 1);
      const int bytes = chunk + 1 < p.chunks ? whole : panel_bytes - chunk * whole;
      fill_panels(ring + (place.stage * p.warpgroups + group_of_tile) * 8 * p.slot_bytes, p.slot_bytes,
                  first + static_cast<int64_t>(chunk) * whole, there ? bytes : 0, barriers.full[place.stage]);
      place.advance(p.stages);
    }
  }
}

// Of a stage of activations.
template <int kTokens>
inline constexpr int kXBlocks = kTokens == 8 ? 8 : 4;
template <int kTokens>
inline constexpr int kXStageBytes = kTokens == 8 ? 8 * (kQuantStride + kScaleStride) : kTokens * kBoxRowBytes * 2;

// A stage: 128 columns of all tokens from `column` on, zeros beyond the matrix and for tokens that are not there. One
// thread.
template <int kTokens>
__device__ __forceinline__ void fill_bf16(const BatchParams& p, std::byte* stage, int column, uint64_t& full) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&full)),
               "r"(kXStageBytes<kTokens>)
               : "memory");
#pragma unroll
  for (int box = 0; box < 2; ++box) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
        "[%4];" ::"r"(shared_address(stage + box * kTokens * kBoxRowBytes)),
        "l"(&p.x_map), "r"(column + box * 64), "r"(0), "r"(shared_address(&full))
        : "memory");
  }
#endif
}

// A chunk of all tokens.
__device__ __forceinline__ void fill_q8(const BatchParams& p, std::byte* stage, int chunk, int worker) {
  for (int i = worker; i < 192; i += 32) {
    const bool scale = i >= 128;
    const int token = scale ? (i - 128) / 8 : i / 16, block = scale ? i % 8 : i % 16 / 2;
    const bool there = token < p.rows && chunk * 8 + block < p.cols / 32;
    const std::byte* row = p.x + token * p.x_stride;
    if (scale) {
      const std::byte* from = row + p.x_scales_at + (chunk * 8 + block) * 8;
      copy_behind<8>(stage + 8 * kQuantStride + token * kScaleStride + block * 8, there ? from : p.x, there);
    } else {
      const std::byte* from = row + chunk * 256 + i % 16 * 16;
      copy_behind<16>(stage + token * kQuantStride + i % 16 * 16, there ? from : p.x, there);
    }
  }
}

// The warp that brings activations.
template <int kTokens>
__device__ __forceinline__ void stream_activations(const BatchParams& p, std::byte* ring, RingBarriers& barriers) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const ChunkRange range(p);
  RingPlace place;
  wait_for_dependencies();
  for (int tile = static_cast<int>(blockIdx.x) / p.splits; tile < p.tiles;
       tile += static_cast<int>(gridDim.x) / p.splits) {
    for (int chunk = range.begin; chunk < range.end; ++chunk) {
      for (int block = 0; block < chunk_blocks(p, chunk); block += kXBlocks<kTokens>) {
        wait_barrier(barriers.empty[place.stage], place.parity ^ 1);
        std::byte* stage = ring + place.stage * kXStageBytes<kTokens>;
        if constexpr (kTokens == 8) {
          fill_q8(p, stage, chunk, lane);
          arrive_with_copies(barriers.full[place.stage]);
        } else {
          if (lane == 0) fill_bf16<kTokens>(p, stage, (chunk * 8 + block) * 32, barriers.full[place.stage]);
          __syncwarp();
        }
        place.advance(p.x_stages);
      }
    }
  }
}

// A consuming warp's side.
struct Consumer {
  const BatchParams& p;
  std::byte* shared;
  RingBarriers& weight_barriers;
  RingBarriers& x_barriers;
  std::byte* scales;
  RingPlace weights{};
  RingPlace x{};
  int held = -1;  // the stage of activations that products may still read

  __device__ __forceinline__ const std::byte* panels() const {
    const int slots = p.warpgroups * 8, warp = static_cast<int>(threadIdx.x / 32);
    return shared + p.weights_at + (weights.stage * slots + warp * 2) * p.slot_bytes;
  }
  __device__ __forceinline__ void release(uint64_t& empty) const {
    __syncwarp();
    if (threadIdx.x % 32 == 0) release_tile(empty);
  }
  // After the products that read it have ended for the warp. No branch: products are under way.
  __device__ __forceinline__ void release_held() {
    const bool arrives = threadIdx.x % 32 == 0 && held >= 0;
    asm volatile(
        "{\n.reg .pred arrives;\n.reg .b64 state;\nsetp.ne.b32 arrives, %1, 0;\n"
        "@arrives mbarrier.arrive.shared.b64 state, [%0];\n}" ::"r"(shared_address(&x_barriers.empty[max(held, 0)])),
        "r"(static_cast<int>(arrives))
        : "memory");
    held = -1;
  }
};

// One block of 32 columns, whose activations are at the place `x`.
template <DType type, int kTokens>
__device__ __forceinline__ void multiply_block(const RawBlock<type>& raw, uint32_t x, float (&sums)[kTokens / 2],
                                               uint32_t (&a)[2][4]) {
  bf16_operands<type>(raw, static_cast<int>(threadIdx.x % 4), a);
  fence_products(a);
#pragma unroll
  for (int i = 0; i < 2; ++i) multiply_columns(sums, a[i], column_operand(x + i * 2));
  commit_products();
}

// The block's chunks of a tile, weights as bf16. Two groups of products are under way, each with operands of its own. A
// stage of activations is done whole: blocks that are not there have scales of zero, and finite integers. Behind a
// chunk's last block its first is loaded again, and never used.
template <DType type, int kTokens>
__device__ __forceinline__ void consume_bf16(Consumer& c, const ChunkRange& range, float (&sums)[kTokens / 2]) {
  constexpr int kBlocks = kXBlocks<kTokens>, kChunkBlocks = static_cast<int>(kPanelChunkBlocks);
  const int lane = static_cast<int>(threadIdx.x % 32);
  uint32_t a[2][2][4];
  RawBlock<type> raw[2];
  const uint32_t ring = column_place(shared_address(c.shared));
  for (int chunk = range.begin; chunk < range.end; ++chunk) {
    wait_barrier(c.weight_barriers.full[c.weights.stage], c.weights.parity);
    const std::byte* panels = c.panels();
    const int blocks = known_blocks<type>(c.p, chunk);
    const auto load = [&](RawBlock<type>& to, int block) {
      to.load(panels, c.p.slot_bytes, blocks, block, lane / 4, lane % 4, c.scales);
    };
    __syncwarp();
    prepare_pairs<type>(panels, c.p.slot_bytes, blocks, c.scales);
    __syncwarp();
    load(raw[0], 0);
    for (int block = 0; block < blocks; block += kBlocks) {
      const uint32_t x = ring + c.x.stage * (kXStageBytes<kTokens> / 16);
      wait_barrier(c.x_barriers.full[c.x.stage], c.x.parity);
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) {
        load(raw[(i + 1) % 2], i + 1 < kBlocks ? block + i + 1 : (block + kBlocks) % kChunkBlocks);
        wait_products<1>();
        if (i == 1) c.release_held();
        multiply_block<type, kTokens>(raw[i % 2], x + i / 2 * (kTokens * kBoxRowBytes / 16) + i % 2 * 4, sums,
                                      a[i % 2]);
      }
      c.held = c.x.stage;
      c.x.advance(c.p.x_stages);
    }
    c.release(c.weight_barriers.empty[c.weights.stage]);
    c.weights.advance(c.p.stages);
  }
  wait_products<0>();
  c.release_held();
}

// One block of 32 columns of 16 rows and 8 tokens.
template <DType type>
__device__ __forceinline__ void multiply_q8_block(const Consumer& c, const std::byte* panels, int blocks, int block,
                                                  const std::byte* x, float (&sums)[4]) {
  const int lane = static_cast<int>(threadIdx.x % 32), g = lane / 4, t = lane % 4;
  uint32_t a[4];
  byte_operands<type>(panels, blocks, block, g, t, a[0], a[2]);
  byte_operands<type>(panels + c.p.slot_bytes, blocks, block, g, t, a[1], a[3]);
  const std::byte* quants = x + g * kQuantStride + block * 32 + t * 4;
  const uint32_t b[2] = {load_as<uint32_t>(quants), load_as<uint32_t>(quants + 16)};
  const std::byte* x_scales = x + 8 * kQuantStride + 2 * t * kScaleStride + block * 8;
  const float2 token[2] = {load_as<float2>(x_scales), load_as<float2>(x_scales + kScaleStride)};
  const float2 row[2] = {load_as<float2>(c.scales + (block * 16 + g) * 8),
                         load_as<float2>(c.scales + (block * 16 + 8 + g) * 8)};
  add_block<kHalves<type>, kHasOffset<type>>(a, b, row, token, sums);
}

template <DType type>
__device__ __forceinline__ void consume_q8(Consumer& c, const ChunkRange& range, float (&sums)[4]) {
  for (int chunk = range.begin; chunk < range.end; ++chunk) {
    wait_barrier(c.weight_barriers.full[c.weights.stage], c.weights.parity);
    const std::byte* panels = c.panels();
    const int blocks = known_blocks<type>(c.p, chunk);
    __syncwarp();
    prepare_floats<type>(panels, c.p.slot_bytes, blocks, c.scales);
    __syncwarp();
    const std::byte* x = c.shared + c.x.stage * kXStageBytes<8>;
    wait_barrier(c.x_barriers.full[c.x.stage], c.x.parity);
    if (blocks == 8) {
#pragma unroll
      for (int block = 0; block < 8; ++block) multiply_q8_block<type>(c, panels, 8, block, x, sums);
    } else {
      for (int block = 0; block < blocks; ++block) multiply_q8_block<type>(c, panels, blocks, block, x, sums);
    }
    c.release(c.x_barriers.empty[c.x.stage]);
    c.x.advance(c.p.x_stages);
    c.release(c.weight_barriers.empty[c.weights.stage]);
    c.weights.advance(c.p.stages);
  }
}

template <DType type, int kTokens>
__device__ __forceinline__ void consume(Consumer& c, const ChunkRange& range, float (&sums)[kTokens / 2]) {
  if constexpr (kTokens == 8) {
    consume_q8<type>(c, range, sums);
  } else {
    consume_bf16<type, kTokens>(c, range, sums);
  }
}

// By one thread, before a __syncthreads().
template <int kTokens>
__device__ __forceinline__ void init_barriers(const BatchParams& p, RingBarriers& weights, RingBarriers& x) {
#if __CUDA_ARCH__ >= 900
  constexpr int kArrivals = 1;
#else
  constexpr int kArrivals = 32;
#endif
  for (int s = 0; s < p.stages; ++s) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(&weights.full[s])),
                 "r"(kArrivals * p.warpgroups));
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(&weights.empty[s])), "r"(p.warpgroups * 4));
  }
  for (int s = 0; s < p.x_stages; ++s) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(&x.full[s])), "r"(kTokens == 8 ? 32 : 1));
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(&x.empty[s])), "r"(p.warpgroups * 4));
  }
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

template <DType type_a, DType type_b, int kTokens>
__global__ void __launch_bounds__(kBatchThreads, 1) batch_kernel(const __grid_constant__ BatchParams p) {
  if constexpr (kTokens > 8 && !kHasProducts) {
    return;  // never launched there: batch_serves
  } else {
    extern __shared__ __align__(128) std::byte dynamic[];
    __shared__ RingBarriers weight_barriers, x_barriers;
    std::byte* shared = dynamic + (-shared_address(dynamic) & 1023);
    const int consumers = p.warpgroups * 128, warp = static_cast<int>(threadIdx.x / 32);
    if (threadIdx.x == 0) init_barriers<kTokens>(p, weight_barriers, x_barriers);
    __syncthreads();
    allow_dependents();
    if (static_cast<int>(threadIdx.x) >= consumers) {
      lower_registers<kFillerRegisters>();
      const int filler = warp - p.warpgroups * 4;
      if (filler < p.warpgroups) {
        constexpr int kChunks[2] = {panel_type(type_a).chunk_bytes(8), panel_type(type_b).chunk_bytes(8)};
        stream_weights(p, shared + p.weights_at, weight_barriers, kChunks, filler);
      } else if (filler == 3) {
        stream_activations<kTokens>(p, shared, x_barriers);
      }
      wait_for_dependencies();
      __syncwarp();
      for (int i = 0; i < 2 && p.splits > 1; ++i) meet_cluster();
    } else {
      raise_registers<kConsumerRegisters>();
      wait_for_dependencies();
      Consumer c{p, shared, weight_barriers, x_barriers, shared + p.scales_at + warp * 1024};
      const ChunkRange range(p);
      for (int tile = static_cast<int>(blockIdx.x) / p.splits; tile < p.tiles;
           tile += static_cast<int>(gridDim.x) / p.splits) {
        float sums[kTokens / 2] = {};
        if (type_a == type_b || p.segment[find_segment(p, tile * p.warpgroups + warp / 4)].type == 0) {
          consume<type_a, kTokens>(c, range, sums);
        } else {
          consume<type_b, kTokens>(c, range, sums);
        }
        store_sums<kTokens>(p, reinterpret_cast<float*>(shared + p.staged_at), tile, sums);
      }
    }
  }
}

// For the units that instantiate: the kernel of a launch.
template <DType type_a, DType type_b, int kTokens>
void launch_batch_kernel(const Queue& queue, const BatchLaunch& launch) {
  LaunchShape shape;
  shape.grid = dim3(static_cast<unsigned>(launch.plan.blocks));
  shape.block = dim3(static_cast<unsigned>((launch.plan.cut.warpgroups + 1) * 128));
  shape.shared_bytes = launch.plan.shared_bytes;
  shape.chained = true;
  shape.cluster = launch.plan.cut.splits;
  const char* site = launch.params.glu ? "linear/batch_glu" : "linear/batch";
  launch_kernel(queue, site, shape, batch_kernel<type_a, type_b, kTokens>, launch.params);
}

template <DType type_a, DType type_b>
void launch_batch_pair(const Queue& queue, const BatchLaunch& launch) {
  switch (launch.tokens) {
    case 8:
      return launch_batch_kernel<type_a, type_b, 8>(queue, launch);
    case 16:
      return launch_batch_kernel<type_a, type_b, 16>(queue, launch);
    case 32:
      return launch_batch_kernel<type_a, type_b, 32>(queue, launch);
    case 64:
      return launch_batch_kernel<type_a, type_b, 64>(queue, launch);
    case 104:
      return launch_batch_kernel<type_a, type_b, 104>(queue, launch);
    default:
      return launch_batch_kernel<type_a, type_b, 128>(queue, launch);
  }
}

}  // namespace minfer::cuda
