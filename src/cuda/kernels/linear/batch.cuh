// The small-batch kernel: y = x W^T for kTokens rows, weights streamed once. How work is cut: launch/linear_batch.hpp.
//
// Shared memory: ring of weights, [stage][panel] chunks | ring of activations | each warp's scales, [warp][1 KB]; where
// sums are staged they take the rings' place at the end: f32 [token][rows of the tile, and 4 of padding].
// Rings: warp 0 of the last warpgroup fills the one of weights, and begins before the kernel before has ended; its
// warps 1 to 3 fill the other. A stage of activations is 64 columns of bf16, as the products read them (wgmma.cuh), or
// a chunk of q8: [8 tokens] quants, 272 bytes each, then scales, 72 bytes each (no bank conflicts). A thread's sums:
// sums[4 j + e], e = 0, 1: row g, token 8 j + 2 t + e; e = 2, 3: row g + 8. Oracle: launch/linear_batch_device_test's
// scalar reference.
#pragma once

#include "cuda/kernels/common/activation_math.cuh"
#include "cuda/kernels/common/chain.cuh"
#include "cuda/kernels/common/q8.cuh"
#include "cuda/kernels/common/tile_ring.cuh"
#include "cuda/kernels/linear/batch_params.hpp"
#include "cuda/kernels/linear/batch_store.cuh"
#include "cuda/kernels/linear/batch_weights.cuh"
#include "cuda/kernels/linear/wgmma.cuh"

namespace minfer::cuda {

inline constexpr int kXFillers = 96;
inline constexpr int kBatchThreads = (kBatchMaxWarpgroups + 1) * 128;

// The place in a ring, for either side.
struct RingPlace {
  int stage = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void advance(int stages) {
    if (++stage == stages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

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

__device__ __forceinline__ void init_x_ring(RingBarriers& barriers, int users) {
  for (int s = 0; s < kBatchXStages; ++s) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(&barriers.full[s])), "r"(kXFillers));
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(&barriers.empty[s])), "r"(users));
  }
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

// Chunk `at` (`chunk_bytes` of each panel, `bytes` to copy) of the tile's panels into a stage, a lane a panel. Panels
// beyond the matrix have no copy: their rows' sums are nobody's.
__device__ __forceinline__ void fill_stage(std::byte* stage, const std::byte* source, int count, int slot_bytes,
                                           int bytes, int lane, uint64_t& full) {
#if __CUDA_ARCH__ >= 900
  if (lane == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&full)),
                 "r"(bytes * count)
                 : "memory");
  }
  __syncwarp();
  if (source != nullptr) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(stage + lane * slot_bytes)),
                 "l"(source), "r"(bytes), "r"(shared_address(&full))
                 : "memory");
  }
#else
  if (source != nullptr) {
    for (int at = 0; at < bytes; at += 16) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(stage + lane * slot_bytes + at)),
                   "l"(source + at)
                   : "memory");
    }
  }
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(&full)) : "memory");
#endif
}

// The warp that streams weights.
__device__ __forceinline__ void stream_weights(const BatchParams& p, std::byte* ring, RingBarriers& barriers,
                                               const int (&chunk_bytes)[2]) {
  const int lane = static_cast<int>(threadIdx.x % 32), slots = p.warpgroups * 8;
  const ChunkRange range(p);
  RingPlace place;
  for (int tile = static_cast<int>(blockIdx.x) / p.splits; tile < p.tiles;
       tile += static_cast<int>(gridDim.x) / p.splits) {
    const BatchSegment& segment = p.segment[p.glu ? lane % 2 : find_segment(p, tile)];
    const int panel = p.glu ? tile * (slots / 2) + lane / 2 : (tile - segment.first_tile) * slots + lane;
    const bool used = lane < slots && panel < segment.panels;
    const int count = __popc(__ballot_sync(~0U, used));
    const int whole = chunk_bytes[segment.type], panel_bytes = p.panel_bytes[segment.type];
    const std::byte* source = segment.weights + static_cast<int64_t>(panel) * panel_bytes;
    for (int chunk = range.begin; chunk < range.end; ++chunk) {
      wait_barrier(barriers.empty[place.stage], place.parity ^ 1);
      const int bytes = chunk + 1 < p.chunks ? whole : panel_bytes - chunk * whole;
      fill_stage(ring + place.stage * (slots * p.slot_bytes),
                 used ? source + static_cast<int64_t>(chunk) * whole : nullptr, count, p.slot_bytes, bytes, lane,
                 barriers.full[place.stage]);
      place.advance(p.stages);
    }
  }
}

template <int kBytes>
__device__ __forceinline__ void copy_piece(std::byte* to, const std::byte* from, bool there) {
  const int bytes = there ? kBytes : 0;
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(to)), "l"(from), "n"(kBytes),
                 "r"(bytes)
                 : "memory");
  }
}

inline constexpr int kQuantStride = 272, kScaleStride = 72;  // of a q8 token in a stage

// 64 columns from `column` on of all tokens. Tokens and columns that are not there: zeros.
template <int kTokens>
__device__ __forceinline__ void fill_bf16(const BatchParams& p, std::byte* stage, int column, int worker) {
  const int lane = worker % 32;
  for (int part = worker / 32; part < kTokens / 4; part += kXFillers / 32) {
    const int token = part / 2 * 8 + lane % 8, piece = part % 2 * 4 + lane / 8;
    const int at = column + piece * 8;
    const bool there = token < p.rows && at < p.cols;
    const std::byte* from = there ? p.x + token * p.x_stride + at * 2 : p.x;
    copy_piece<16>(stage + (piece * (kTokens / 8) + part / 2) * 128 + lane % 8 * 16, from, there);
  }
}

// A chunk of all tokens.
__device__ __forceinline__ void fill_q8(const BatchParams& p, std::byte* stage, int chunk, int worker) {
  for (int i = worker; i < 192; i += kXFillers) {
    const bool scale = i >= 128;
    const int token = scale ? (i - 128) / 8 : i / 16, block = scale ? i % 8 : i % 16 / 2;
    const bool there = token < p.rows && chunk * 8 + block < p.cols / 32;
    const std::byte* row = p.x + token * p.x_stride;
    if (scale) {
      const std::byte* from = row + p.x_scales_at + (chunk * 8 + block) * 8;
      copy_piece<8>(stage + 8 * kQuantStride + token * kScaleStride + block * 8, there ? from : p.x, there);
    } else {
      const std::byte* from = row + chunk * 256 + i % 16 * 16;
      copy_piece<16>(stage + token * kQuantStride + i % 16 * 16, there ? from : p.x, there);
    }
  }
}

template <int kTokens>
inline constexpr int kXStageBytes = kTokens == 8 ? 8 * (kQuantStride + kScaleStride) : kTokens * 128;

// The warps that bring activations.
template <int kTokens>
__device__ __forceinline__ void stream_activations(const BatchParams& p, std::byte* ring, RingBarriers& barriers) {
  constexpr int kStep = kTokens == 8 ? 8 : 2;  // blocks a stage
  const int worker = static_cast<int>(threadIdx.x) - p.warpgroups * 128 - 32;
  const ChunkRange range(p);
  RingPlace place;
  wait_for_dependencies();
  for (int tile = static_cast<int>(blockIdx.x) / p.splits; tile < p.tiles;
       tile += static_cast<int>(gridDim.x) / p.splits) {
    for (int chunk = range.begin; chunk < range.end; ++chunk) {
      for (int block = 0; block < chunk_blocks(p, chunk); block += kStep) {
        wait_barrier(barriers.empty[place.stage], place.parity ^ 1);
        std::byte* stage = ring + place.stage * kXStageBytes<kTokens>;
        if constexpr (kTokens == 8) {
          fill_q8(p, stage, chunk, worker);
        } else {
          fill_bf16<kTokens>(p, stage, chunk * 256 + block * 32, worker);
        }
        asm volatile(
            "cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(&barriers.full[place.stage]))
            : "memory");
        place.advance(kBatchXStages);
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
    return shared + (weights.stage * slots + warp * 2) * p.slot_bytes;
  }
  __device__ __forceinline__ void release(uint64_t& empty) const {
    __syncwarp();
    if (threadIdx.x % 32 == 0) release_tile(empty);
  }
  __device__ __forceinline__ void release_held() {
    if (held >= 0) release(x_barriers.empty[held]);
    held = -1;
  }
};

// One block of 32 columns: `half` of the stage of activations at `x`.
template <DType type, int kTokens>
__device__ __forceinline__ void multiply_block(const Consumer& c, const std::byte* panels, int blocks, int block,
                                               uint32_t x, float (&sums)[kTokens / 2], uint32_t (&a)[2][4]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  bf16_operands<type>(panels, c.p.slot_bytes, blocks, block, lane / 4, lane % 4, c.scales, a);
  fence_products(a);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    multiply_columns(sums, a[i], column_operand(x + i * (kTokens * 32), kTokens * 16));
  }
  commit_products();
}

// The block's chunks of a tile, weights as bf16. Two groups of products are under way, each with operands of its own.
template <DType type, int kTokens>
__device__ __forceinline__ void consume_bf16(Consumer& c, const ChunkRange& range, float (&sums)[kTokens / 2]) {
  uint32_t first[2][4], second[2][4];
  for (int chunk = range.begin; chunk < range.end; ++chunk) {
    wait_barrier(c.weight_barriers.full[c.weights.stage], c.weights.parity);
    const std::byte* panels = c.panels();
    const int blocks = chunk_blocks(c.p, chunk);
    __syncwarp();
    prepare_pairs<type>(panels, c.p.slot_bytes, blocks, c.scales);
    __syncwarp();
    for (int block = 0; block < blocks; block += 2) {
      const uint32_t x = shared_address(c.shared + c.p.x_at + c.x.stage * kXStageBytes<kTokens>);
      wait_barrier(c.x_barriers.full[c.x.stage], c.x.parity);
      fence_shared_operand();
      wait_products<1>();
      multiply_block<type, kTokens>(c, panels, blocks, block, x, sums, first);
      wait_products<1>();
      c.release_held();
      if (block + 1 < blocks) {
        multiply_block<type, kTokens>(c, panels, blocks, block + 1, x + kTokens * 64, sums, second);
      }
      c.held = c.x.stage;
      c.x.advance(kBatchXStages);
    }
    c.release(c.weight_barriers.empty[c.weights.stage]);
    c.weights.advance(c.p.stages);
  }
  wait_products<0>();
  c.release_held();
}

__device__ __forceinline__ void multiply_bytes(int (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void multiply_half_bytes(int (&d)[4], uint32_t a0, uint32_t a1, uint32_t b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
               : "r"(a0), "r"(a1), "r"(b));
}

// Integer sums begin at this, the bits of 1.5 * 2^23: as a float, less that, they are the sum (under 2^22), exactly.
inline constexpr int kSumBits = 0x4B400000;
__device__ __forceinline__ float sum_value(int bits) {
  return __int_as_float(bits) - 12582912.0F;
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
  const auto b0 = load_as<uint32_t>(quants), b1 = load_as<uint32_t>(quants + 16);
  const std::byte* x_scales = x + 8 * kQuantStride + 2 * t * kScaleStride + block * 8;
  const float2 token[2] = {load_as<float2>(x_scales), load_as<float2>(x_scales + kScaleStride)};
  const float2 row[2] = {load_as<float2>(c.scales + (block * 16 + g) * 8),
                         load_as<float2>(c.scales + (block * 16 + 8 + g) * 8)};
  int d[4] = {kSumBits, kSumBits, kSumBits, kSumBits};
  if constexpr (kHalves<type>) {
    int last[4] = {kSumBits, kSumBits, kSumBits, kSumBits};
    multiply_half_bytes(d, a[0], a[1], b0);
    multiply_half_bytes(last, a[2], a[3], b1);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float both = __fmaf_rn(row[i / 2].y, sum_value(last[i]), __fmul_rn(row[i / 2].x, sum_value(d[i])));
      sums[i] = __fmaf_rn(token[i % 2].x, both, sums[i]);
    }
  } else {
    multiply_bytes(d, a, b0, b1);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sums[i] = __fmaf_rn(__fmul_rn(row[i / 2].x, token[i % 2].x), sum_value(d[i]), sums[i]);
      if constexpr (kHasOffset<type>) sums[i] = __fmaf_rn(row[i / 2].y, token[i % 2].y, sums[i]);
    }
  }
}

template <DType type>
__device__ __forceinline__ void consume_q8(Consumer& c, const ChunkRange& range, float (&sums)[4]) {
  for (int chunk = range.begin; chunk < range.end; ++chunk) {
    wait_barrier(c.weight_barriers.full[c.weights.stage], c.weights.parity);
    const std::byte* panels = c.panels();
    const int blocks = chunk_blocks(c.p, chunk);
    __syncwarp();
    prepare_floats<type>(panels, c.p.slot_bytes, blocks, c.scales);
    __syncwarp();
    const std::byte* x = c.shared + c.p.x_at + c.x.stage * kXStageBytes<8>;
    wait_barrier(c.x_barriers.full[c.x.stage], c.x.parity);
    if (blocks == 8) {
#pragma unroll 4
      for (int block = 0; block < 8; ++block) multiply_q8_block<type>(c, panels, 8, block, x, sums);
    } else {
      for (int block = 0; block < blocks; ++block) multiply_q8_block<type>(c, panels, blocks, block, x, sums);
    }
    c.release(c.x_barriers.empty[c.x.stage]);
    c.x.advance(kBatchXStages);
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

template <DType type_a, DType type_b, int kTokens>
__global__ void __launch_bounds__(kBatchThreads, kTokens <= 16 ? 2 : 1)
    batch_kernel(const __grid_constant__ BatchParams p) {
  if constexpr (kTokens > 8 && !kHasProducts) {
    return;  // never launched there: batch_serves
  } else {
    extern __shared__ __align__(128) std::byte shared[];
    __shared__ RingBarriers weight_barriers, x_barriers;
    const int consumers = p.warpgroups * 128, warp = static_cast<int>(threadIdx.x / 32);
    if (threadIdx.x == 0) {
      init_ring(weight_barriers, p.stages, p.warpgroups * 4);
      init_x_ring(x_barriers, p.warpgroups * 4);
    }
    __syncthreads();
    allow_dependents();
    if (static_cast<int>(threadIdx.x) >= consumers) {
      if (warp == p.warpgroups * 4) {
        constexpr int kChunks[2] = {panel_type(type_a).chunk_bytes(8), panel_type(type_b).chunk_bytes(8)};
        stream_weights(p, shared, weight_barriers, kChunks);
        wait_for_dependencies();
      } else {
        stream_activations<kTokens>(p, shared + p.x_at, x_barriers);
      }
    } else {
      wait_for_dependencies();
      Consumer c{p, shared, weight_barriers, x_barriers, shared + p.scales_at + warp * 1024};
      const ChunkRange range(p);
      for (int tile = static_cast<int>(blockIdx.x) / p.splits; tile < p.tiles;
           tile += static_cast<int>(gridDim.x) / p.splits) {
        float sums[kTokens / 2] = {};
        if (type_a == type_b || p.segment[find_segment(p, tile)].type == 0) {
          consume<type_a, kTokens>(c, range, sums);
        } else {
          consume<type_b, kTokens>(c, range, sums);
        }
        if (p.staged) {
          stage_sums<kTokens>(p, reinterpret_cast<float*>(shared), sums);
        } else {
          store_sums<kTokens>(p, tile, sums);
        }
      }
    }
    if (p.staged) store_staged<kTokens>(p, reinterpret_cast<const float*>(shared));
  }
}

// For the units that instantiate: the kernel of a launch.
template <DType type_a, DType type_b, int kTokens>
void launch_batch_kernel(const Queue& queue, const BatchLaunch& launch) {
  LaunchShape shape;
  shape.grid = dim3(static_cast<unsigned>(launch.plan.blocks));
  shape.block = dim3(static_cast<unsigned>((launch.plan.cut.warpgroups + 1) * 128));
  shape.shared_bytes = launch.plan.shared_bytes;
  shape.cluster = launch.plan.cut.splits;
  launch_kernel(queue, launch.params.glu ? "linear/batch_glu" : "linear/batch", shape,
                batch_kernel<type_a, type_b, kTokens>, launch.params);
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
    case 96:
      return launch_batch_kernel<type_a, type_b, 96>(queue, launch);
    default:
      return launch_batch_kernel<type_a, type_b, 128>(queue, launch);
  }
}

}  // namespace minfer::cuda
