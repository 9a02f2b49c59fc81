// The small-batch kernel: y = x W^T for kTokens rows, weights streamed once. How work is cut: launch/linear_batch.hpp.
//
// Shared memory: ring of weights, [stage][panel] chunks | ring of activations | each warp's scales, [warp][1 KB]; where
// sums are staged they take the rings' place at the end: f32 [token][rows of the tile, and 4 of padding].
// Rings: warps 0 and 1 of the last warpgroup fill the one of weights, and begin before the kernel before has ended; its
// warps 2 and 3 fill the other. (Copies of 16 bytes a thread: a bulk copy a panel's chunk would be started lane by
// lane.) A stage of activations is 64 columns of bf16, as the products read them (wgmma.cuh), or a chunk of q8: [8
// tokens] quants, 272 bytes each, then scales, 72 bytes each (no bank conflicts). A thread's sums: sums[4 j + e], e =
// 0, 1: row g, token 8 j + 2 t + e; e = 2, 3: row g + 8. Oracle: launch/linear_batch_device_test's scalar reference.
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

inline constexpr int kFillers = 64;  // threads, of either ring
// Of a panel, of any type.
inline constexpr int kMaxChunkBytes = panel_type(DType::q8_0).chunk_bytes(8);
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

// The same where a type's blocks make it a constant.
template <DType type>
__device__ __forceinline__ int known_blocks(const BatchParams& p, int chunk) {
  return panel_type(type).source_elements == 256 ? 8 : chunk_blocks(p, chunk);
}

__device__ __forceinline__ void init_batch_ring(RingBarriers& barriers, int stages, int users) {
  for (int s = 0; s < stages; ++s) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(&barriers.full[s])), "r"(kFillers));
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(&barriers.empty[s])), "r"(users));
  }
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

// A stage's copies were started by all the filling threads: it is full when theirs have ended.
__device__ __forceinline__ void arrive_with_copies(uint64_t& full) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(&full)) : "memory");
}

// The warps that stream weights: a panel's chunk a warp. Panels beyond the matrix have no copy: their rows' sums are
// nobody's.
__device__ __forceinline__ void stream_weights(const BatchParams& p, std::byte* ring, RingBarriers& barriers,
                                               const int (&chunk_bytes)[2]) {
  const int lane = static_cast<int>(threadIdx.x % 32), slots = p.warpgroups * 8;
  const int half = static_cast<int>(threadIdx.x / 32) - p.warpgroups * 4;  // this warp's slots: half, half + 2, ..
  const ChunkRange range(p);
  RingPlace place;
  for (int tile = static_cast<int>(blockIdx.x) / p.splits; tile < p.tiles;
       tile += static_cast<int>(gridDim.x) / p.splits) {
    const BatchSegment& segment = p.segment[p.glu ? half : find_segment(p, tile)];
    const int panel = p.glu ? tile * (slots / 2) : (tile - segment.first_tile) * slots + half;
    const int panel_step = p.glu ? 1 : 2;
    const int count = min((segment.panels - panel + panel_step - 1) / panel_step, slots / 2);
    const int whole = chunk_bytes[segment.type], panel_bytes = p.panel_bytes[segment.type];
    const std::byte* first = segment.weights + static_cast<int64_t>(panel) * panel_bytes + lane * 16;
    const uint32_t to_first = shared_address(ring) + half * p.slot_bytes + lane * 16;
    for (int chunk = range.begin; chunk < range.end; ++chunk) {
      wait_barrier(barriers.empty[place.stage], place.parity ^ 1);
      const int bytes = (chunk + 1 < p.chunks ? whole : panel_bytes - chunk * whole) - lane * 16;
      const std::byte* from = first + static_cast<int64_t>(chunk) * whole;
      uint32_t to = to_first + place.stage * (slots * p.slot_bytes);
#pragma unroll 2
      for (int i = 0; i < count; ++i) {
#pragma unroll
        for (int at = 0; at < kMaxChunkBytes; at += 512) {
          if (at >= bytes) continue;
          asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + at), "l"(from + at) : "memory");
        }
        from += static_cast<int64_t>(panel_step) * panel_bytes;
        to += 2 * p.slot_bytes;
      }
      arrive_with_copies(barriers.full[place.stage]);
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

// Of a stage of activations: all of a chunk, or the less the more tokens there are.
template <int kTokens>
inline constexpr int kXBlocks = kTokens <= 32   ? 8
                                : kTokens <= 64 ? 4
                                                : 2;
// A stage has 8 columns of all tokens behind one another, 16 bytes a token, and 16 more so that the 8 threads that copy
// a line of a row meet all banks.
template <int kTokens>
inline constexpr int kPlaneBytes = kTokens * 16 + 16;
template <int kTokens>
inline constexpr int kXStageBytes =
    kTokens == 8 ? 8 * (kQuantStride + kScaleStride) : kPlaneBytes<kTokens> * 4 * kXBlocks<kTokens>;

// A stage: `blocks` blocks of 32 columns of all tokens, zeros behind them and for tokens that are not there. 8 threads
// copy a line of 128 bytes, 64 columns, of a row; `from`: the stage's first column in the first row.
template <int kTokens>
__device__ __forceinline__ void fill_bf16(const BatchParams& p, uint32_t stage, const std::byte* from, int blocks,
                                          int worker) {
  constexpr int kStep = kFillers / 8;  // tokens at a time
  const int first = worker / 8, piece = worker % 8;
  const uint32_t to = stage + piece * kPlaneBytes<kTokens> + first * 16;
  from += piece * 16;
#pragma unroll
  for (int token = 0; token < kTokens; token += kStep) {
    const int bytes = first + token < p.rows ? 16 : 0;
    const std::byte* row = from + min(first + token, p.rows - 1) * p.x_stride;
#pragma unroll
    for (int b = 0; b < kXBlocks<kTokens>; b += 2) {
      asm volatile(
          "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to + b * 4 * kPlaneBytes<kTokens> + token * 16),
          "l"(row + b * 64), "r"(b + piece / 4 < blocks ? bytes : 0)
          : "memory");
    }
  }
}

// A chunk of all tokens.
__device__ __forceinline__ void fill_q8(const BatchParams& p, std::byte* stage, int chunk, int worker) {
  for (int i = worker; i < 192; i += kFillers) {
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

// The warps that bring activations. They don't make bf16 visible to the products that read it: a thread's fence would
// wait for all of its copies that are under way. The consumers do.
template <int kTokens>
__device__ __forceinline__ void stream_activations(const BatchParams& p, std::byte* ring, RingBarriers& barriers) {
  const int worker = static_cast<int>(threadIdx.x) - p.warpgroups * 128 - kFillers;
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
          fill_q8(p, stage, chunk, worker);
        } else {
          fill_bf16<kTokens>(p, shared_address(stage), p.x + (chunk * 8 + block) * 64, chunk_blocks(p, chunk) - block,
                             worker);
        }
        arrive_with_copies(barriers.full[place.stage]);
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

// One block of 32 columns, whose activations' operand is `x`.
template <DType type, int kTokens>
__device__ __forceinline__ void multiply_block(const RawBlock<type>& raw, uint64_t x, float (&sums)[kTokens / 2],
                                               uint32_t (&a)[2][4]) {
  bf16_operands<type>(raw, static_cast<int>(threadIdx.x % 4), a);
  fence_products(a);
#pragma unroll
  for (int i = 0; i < 2; ++i) multiply_columns(sums, a[i], x + i * (kPlaneBytes<kTokens> * 2 / 16));
  commit_products();
}

// The block's chunks of a tile, weights as bf16. Two groups of products are under way, each with operands of its own.
// A stage of activations is done whole: blocks that are not there have scales of zero, and finite integers.
template <DType type, int kTokens>
__device__ __forceinline__ void consume_bf16(Consumer& c, const ChunkRange& range, float (&sums)[kTokens / 2]) {
  constexpr int kBlocks = kXBlocks<kTokens>;
  const int lane = static_cast<int>(threadIdx.x % 32);
  uint32_t a[2][2][4];
  RawBlock<type> raw;
  for (int chunk = range.begin; chunk < range.end; ++chunk) {
    wait_barrier(c.weight_barriers.full[c.weights.stage], c.weights.parity);
    const std::byte* panels = c.panels();
    const int blocks = known_blocks<type>(c.p, chunk);
    const auto load = [&](int block) { raw.load(panels, c.p.slot_bytes, blocks, block, lane / 4, lane % 4, c.scales); };
    __syncwarp();
    prepare_pairs<type>(panels, c.p.slot_bytes, blocks, c.scales);
    __syncwarp();
    load(0);
    for (int block = 0; block < blocks; block += kBlocks) {
      const uint64_t x =
          column_operand(shared_address(c.shared + c.p.x_at + c.x.stage * kXStageBytes<kTokens>), kPlaneBytes<kTokens>);
      wait_barrier(c.x_barriers.full[c.x.stage], c.x.parity);
      fence_shared_operand();
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) {
        wait_products<1>();
        if (i == 1) c.release_held();
        multiply_block<type, kTokens>(raw, x + i * (kPlaneBytes<kTokens> * 4 / 16), sums, a[i % 2]);
        load(min(block + i + 1, 7));
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
    const int blocks = known_blocks<type>(c.p, chunk);
    __syncwarp();
    prepare_floats<type>(panels, c.p.slot_bytes, blocks, c.scales);
    __syncwarp();
    const std::byte* x = c.shared + c.p.x_at + c.x.stage * kXStageBytes<8>;
    wait_barrier(c.x_barriers.full[c.x.stage], c.x.parity);
    if (blocks == 8) {
#pragma unroll
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
__global__ void __launch_bounds__(kBatchThreads, 1) batch_kernel(const __grid_constant__ BatchParams p) {
  if constexpr (kTokens > 8 && !kHasProducts) {
    return;  // never launched there: batch_serves
  } else {
    extern __shared__ __align__(128) std::byte shared[];
    __shared__ RingBarriers weight_barriers, x_barriers;
    const int consumers = p.warpgroups * 128, warp = static_cast<int>(threadIdx.x / 32);
    if (threadIdx.x == 0) {
      init_batch_ring(weight_barriers, p.stages, p.warpgroups * 4);
      init_batch_ring(x_barriers, kBatchXStages, p.warpgroups * 4);
    }
    __syncthreads();
    allow_dependents();
    if (static_cast<int>(threadIdx.x) >= consumers) {
      if (warp < p.warpgroups * 4 + kFillers / 32) {
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
