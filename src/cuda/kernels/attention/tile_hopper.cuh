// The tile kernel for Hopper (compute capability 9.0): what tile.cuh does, by specialised warpgroups. One copies: pages
// go through a ring of slots in shared memory, keys and values in turn, q8_0 converted to f16 on the way. The others
// multiply, 64 rows each, with wgmma, and drift apart by up to the ring's length, so that one's softmax runs beside
// another's products. Heads of whole panels: 64, 128, 192, 256 elements. Twice as fast as mma.sync at long prompts.
#pragma once

#include "cuda/kernels/attention/sizes.cuh"
#include "cuda/kernels/attention/tile.cuh"
#include "cuda/kernels/attention/wgmma.cuh"

namespace minfer::cuda::attention {

template <KvFormat kFormat, int kHead>
struct GroupTileShape {
  static constexpr bool kQuantized = kFormat == KvFormat::q8_0;
  using Math = std::conditional_t<kFormat == KvFormat::bf16, Bfloat, Half>;
  static constexpr int kGroupThreads = 4 * kWarp;
  static constexpr int kConsumers = kHead <= kWideHeadSize ? 3 : 2;  // warpgroups that multiply; one more copies
  static constexpr int kThreads = (kConsumers + 1) * kGroupThreads;
  static constexpr int kGroupRows = 64;
  static constexpr int kRows = kConsumers * kGroupRows;
  static constexpr int kRowTiles = 1;  // of 16 rows, a warp
  static constexpr int kTokens = static_cast<int>(kKvPageTokens);
  static constexpr int kTokenTiles = kTokens / 8;
  static constexpr int kSteps = kHead / 16;
  static constexpr int kPieces = kHead / 8;
  static constexpr int kBlocks = kHead / 32;
  // Registers a thread, of 65536 in all.
  static constexpr int kCopierRegisters = 40;
  static constexpr int kConsumerRegisters = kConsumers == 3 ? 152 : 232;
  static constexpr int kQueryBytes = kRows * kHead * 2;
  static constexpr int kPageBytes = kTokens * kHead * 2;
  static constexpr int kQuantBytes = kQuantized ? kTokens * kHead : 0;
  static constexpr int kScaleBytes = kQuantized ? kTokens * kBlocks * 2 : 0;
  static constexpr int kSlots = kHead <= kWideHeadSize ? 6 : (kQuantized ? 3 : 4);
  static constexpr int kAhead = kHead <= kWideHeadSize ? 2 : 1;    // copies under way beside the one that is waited for
  static constexpr int kQuantSlots = kQuantized ? kAhead + 2 : 0;  // see copy_pages
  static constexpr int kAlignment = 1024;
  static constexpr int kSharedBytes =
      kQueryBytes + kSlots * kPageBytes + kQuantSlots * (kQuantBytes + kScaleBytes) + 2 * kSlots * 8 + kAlignment;

  __device__ static __forceinline__ int place(int rows, int row, int piece) { return panel_place(rows, row, piece); }
};
static_assert(GroupTileShape<KvFormat::f16, 128>::kRows >= kTileRows);
static_assert(GroupTileShape<KvFormat::f16, 256>::kRows >= kLargeHeadTileRows);

// A block's shared memory.
template <class Shape>
struct GroupTileMemory {
  uint8_t* queries;
  uint8_t* slots;
  uint8_t* quants;
  uint64_t* full;   // [kSlots]: the copier's threads have arrived
  uint64_t* empty;  // [kSlots]: the consumers' warps have

  __device__ __forceinline__ explicit GroupTileMemory(uint8_t* shared)
      : queries(shared + (-shared_address(shared) & (Shape::kAlignment - 1))),
        slots(queries + Shape::kQueryBytes),
        quants(slots + Shape::kSlots * Shape::kPageBytes),
        full(reinterpret_cast<uint64_t*>(quants + Shape::kQuantSlots * (Shape::kQuantBytes + Shape::kScaleBytes))),
        empty(full + Shape::kSlots) {}
  __device__ __forceinline__ uint8_t* slot(int item) const { return slots + item % Shape::kSlots * Shape::kPageBytes; }
  __device__ __forceinline__ uint8_t* quant_slot(int item) const {
    return quants + item % Shape::kQuantSlots * (Shape::kQuantBytes + Shape::kScaleBytes);
  }
  // The warp is done with an item.
  __device__ __forceinline__ void leave(int item) const {
    __syncwarp();
    if (threadIdx.x % kWarp == 0) arrive_barrier(empty + item % Shape::kSlots);
  }
  // Until item `item` has been copied, or its slot is free for it.
  __device__ __forceinline__ void wait_full(int item) const {
    wait_barrier(full + item % Shape::kSlots, item / Shape::kSlots & 1);
  }
  __device__ __forceinline__ void wait_empty(int item) const {
    wait_barrier(empty + item % Shape::kSlots, (item / Shape::kSlots & 1) ^ 1);
  }
};

// The copying warpgroup. Item 2 i is the keys of page i of the tile, item 2 i + 1 its values. kAhead copies are under
// way while one is published. A slot for quants is written again when all threads are past the barrier that follows
// its conversion: kAhead + 2 of them.
template <class Shape, int kHead>
__device__ __forceinline__ void copy_pages(const AttentionParams& p, const TileWork& w, int kv_head, int items,
                                           const GroupTileMemory<Shape>& memory) {
  const int thread = static_cast<int>(threadIdx.x) % Shape::kGroupThreads;
  const int first_page = w.begin / Shape::kTokens;
  for (int i = 0; i < items + Shape::kAhead; ++i) {
    if (i < items) {
      if constexpr (!Shape::kQuantized) memory.wait_empty(i);
      uint32_t quants = 0;
      if constexpr (Shape::kQuantized) quants = shared_address(memory.quant_slot(i));
      copy_tile_page<Shape, kHead, Shape::kGroupThreads>(p, i % 2 == 0 ? p.kv.k : p.kv.v, w, kv_head,
                                                         first_page + i / 2, thread, shared_address(memory.slot(i)),
                                                         quants);
    }
    commit_copies();
    const int item = i - Shape::kAhead;
    if (item < 0) continue;
    wait_copies<Shape::kAhead>();
    if constexpr (Shape::kQuantized) {
      asm volatile("bar.sync 1, 128;" ::: "memory");
      memory.wait_empty(item);
      convert_page<Shape, kHead, Shape::kGroupThreads>(memory.quant_slot(item), thread, memory.slot(item));
    }
    publish_to_tensor_cores();
    arrive_barrier(memory.full + item % Shape::kSlots);
  }
}

// Starts S = Q K^T: the queries are rows of Q's panels, the page's tokens rows of K's.
template <class Shape>
__device__ __forceinline__ void start_scores(uint32_t queries, uint32_t keys, TileScores<Shape>& s) {
  const uint32_t rows = queries + threadIdx.x / Shape::kGroupThreads * Shape::kGroupRows * kPanelBytes;
  begin_products();
#pragma unroll
  for (int step = 0; step < Shape::kSteps; ++step) {
    multiply_shared<typename Shape::Math>(
        s[0], panel_descriptor(rows + step / 4 * Shape::kRows * kPanelBytes + step % 4 * 32),
        panel_descriptor(keys + step / 4 * Shape::kTokens * kPanelBytes + step % 4 * 32), step > 0);
  }
  commit_products();
}

// Starts O += P V: probabilities from registers, the page's tokens as rows of V's panels of 64 elements.
template <class Shape>
__device__ __forceinline__ void start_output(uint32_t values, const uint32_t (&a)[Shape::kTokenTiles / 2][4],
                                             TileOutput<Shape>& o) {
  begin_products();
#pragma unroll
  for (int k = 0; k < Shape::kTokenTiles / 2; ++k) {
#pragma unroll
    for (int panel = 0; panel < Shape::kSteps / 4; ++panel) {
      multiply_registers<typename Shape::Math>(
          o[0] + panel * 8, a[k], panel_descriptor(values + (panel * Shape::kTokens + k * 16) * kPanelBytes));
    }
  }
  commit_products();
}

template <int kTiles>
__device__ __forceinline__ void pin_all(float (&x)[1][kTiles][4]) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) pin(x[0][n][i]);
  }
}

// One page: scores, softmax, output.
template <class Shape>
__device__ __forceinline__ void attend_group(const AttentionParams& p, const TileWork& w, int page,
                                             const GroupTileMemory<Shape>& memory, TileSoftmax<Shape>& state,
                                             TileOutput<Shape>& o) {
  TileScores<Shape> s;
  memory.wait_full(2 * page);
  start_scores<Shape>(shared_address(memory.queries), shared_address(memory.slot(2 * page)), s);
  wait_products<0>();
  pin_all(s);
  memory.leave(2 * page);
  mask_tile<Shape>(p, w, (w.begin / Shape::kTokens + page) * Shape::kTokens, s);
  TileCorrection<Shape> correction;
  update_tile_softmax<Shape>(s, state, correction);
  uint32_t a[Shape::kTokenTiles / 2][4];
#pragma unroll
  for (int k = 0; k < Shape::kTokenTiles / 2; ++k) pack_tile<typename Shape::Math>(s[0], k, a[k]);
  correct_tile<Shape>(correction, o);
  pin_all(o);
  memory.wait_full(2 * page + 1);
  start_output<Shape>(shared_address(memory.slot(2 * page + 1)), a, o);
  wait_products<0>();
  pin_all(o);
  memory.leave(2 * page + 1);
}

// A multiplying warpgroup.
template <class Shape, int kHead>
__device__ __forceinline__ void attend_pages(const AttentionParams& p, const TileWork& w, int kv_head, int pages,
                                             const GroupTileMemory<Shape>& memory) {
  const int group = static_cast<int>(threadIdx.x) / Shape::kGroupThreads;
  const int thread = static_cast<int>(threadIdx.x) % Shape::kGroupThreads;
  load_tile_queries<Shape, kHead, Shape::kGroupRows, Shape::kGroupThreads>(p, w, kv_head, group * Shape::kGroupRows,
                                                                           thread, memory.queries);
  publish_to_tensor_cores();
  asm volatile("bar.sync %0, 128;" ::"r"(group + 2) : "memory");
  const TileRows rows(p, w, group * Shape::kGroupRows, Shape::kGroupRows);
  TileSoftmax<Shape> state;
  TileOutput<Shape> o;
  clear_tile<Shape>(state, o);
  for (int page = 0; page < pages; ++page) {
    if (rows.see(p, (w.begin / Shape::kTokens + page) * Shape::kTokens)) {
      attend_group<Shape>(p, w, page, memory, state, o);
      continue;
    }
    for (int item = 2 * page; item < 2 * page + 2; ++item) {
      memory.wait_full(item);
      memory.leave(item);
    }
  }
  write_tile<Shape, kHead>(p, w, kv_head, state, o);
}

template <KvFormat kFormat, int kHead>
__global__ void __launch_bounds__(GroupTileShape<kFormat, kHead>::kThreads, 1)
    group_tile_kernel(const __grid_constant__ AttentionParams p) {
  using Shape = GroupTileShape<kFormat, kHead>;
  extern __shared__ __align__(16) uint8_t shared[];
  const GroupTileMemory<Shape> memory(shared);
  allow_dependents();
  if (threadIdx.x == 0) {
    for (int i = 0; i < Shape::kSlots; ++i) {
      init_barrier(memory.full + i, Shape::kGroupThreads);
      init_barrier(memory.empty + i, Shape::kConsumers * 4);
    }
    publish_barriers();
  }
  wait_for_dependencies();
  TileWork w;
  const bool has_work = find_tile(p, Shape::kRows / p.group, w);
  __syncthreads();
  if (!has_work) return;
  const int pages = (w.end - 1) / Shape::kTokens - w.begin / Shape::kTokens + 1;
  const int kv_head = static_cast<int>(blockIdx.x);
  if (threadIdx.x >= Shape::kConsumers * Shape::kGroupThreads) {
    lower_registers<Shape::kCopierRegisters>();
    copy_pages<Shape, kHead>(p, w, kv_head, 2 * pages, memory);
  } else {
    raise_registers<Shape::kConsumerRegisters>();
    attend_pages<Shape, kHead>(p, w, kv_head, pages, memory);
  }
}

// wgmma is Hopper's alone.
template <int kHead>
bool takes_groups(int major) {
  return kHead % 64 == 0 && major == 9;
}

template <KvFormat kFormat>
void launch_tile(const Queue& queue, const AttentionParams& params, const TileGrid& grid) {
  with_head_size<kFormat>(params.key_size, [&](auto size) {
    if constexpr (size() % 64 == 0) {
      if (takes_groups<size()>(queue.capabilities->major)) {
        using Shape = GroupTileShape<kFormat, size()>;
        launch_kernel(queue, "attention/tile",
                      {dim3(grid.kv_heads, grid.tiles), dim3(Shape::kThreads), Shape::kSharedBytes},
                      group_tile_kernel<kFormat, size()>, params);
        return;
      }
    }
    using Shape = TileShape<kFormat, size()>;
    launch_kernel(queue, "attention/tile",
                  {dim3(grid.kv_heads, grid.tiles), dim3(Shape::kThreads), Shape::kSharedBytes},
                  tile_kernel<kFormat, size()>, params);
  });
}

template <KvFormat kFormat>
int64_t tile_shared_bytes(int64_t head_size, int major) {
  int64_t bytes = 0;
  with_head_size<kFormat>(head_size, [&](auto size) {
    bytes = TileShape<kFormat, size()>::kSharedBytes;
    if constexpr (size() % 64 == 0) {
      if (takes_groups<size()>(major)) bytes = GroupTileShape<kFormat, size()>::kSharedBytes;
    }
  });
  return bytes;
}

}  // namespace minfer::cuda::attention
