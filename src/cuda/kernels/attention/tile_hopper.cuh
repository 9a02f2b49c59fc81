// The tile kernel for Hopper (compute capability 9.0): what tile.cuh does, by specialised warpgroups. One copies: pages
// go through a ring of slots in shared memory, keys and values in turn, q8_0 converted to f16 on the way. The others
// multiply, 64 rows each, with wgmma, and drift apart by up to the ring's length, so that one's softmax runs beside
// another's products. Heads of whole panels: 64, 128, 192, 256 elements. Twice as fast as mma.sync at long prompts.
#pragma once

#include "cuda/kernels/attention/sizes.hpp"
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

// Its queries are rows of Q's panels, the page's tokens rows of K's.
template <class Shape>
__device__ __forceinline__ void multiply_group_keys(uint32_t queries, uint32_t keys, TileScores<Shape>& s) {
  const uint32_t rows = queries + threadIdx.x / Shape::kGroupThreads * Shape::kGroupRows * kPanelBytes;
  begin_products();
#pragma unroll
  for (int step = 0; step < Shape::kSteps; ++step) {
    multiply_shared<typename Shape::Math>(
        s[0], panel_descriptor(rows + step / 4 * Shape::kRows * kPanelBytes + step % 4 * 32),
        panel_descriptor(keys + step / 4 * Shape::kTokens * kPanelBytes + step % 4 * 32), step > 0);
  }
  end_products();
#pragma unroll
  for (int n = 0; n < Shape::kTokenTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) pin(s[0][n][i]);
  }
}

// Probabilities from registers, the page's tokens as rows of V's panels of 64 elements.
template <class Shape>
__device__ __forceinline__ void multiply_group_values(uint32_t values, const TileScores<Shape>& s,
                                                      TileOutput<Shape>& o) {
  using Math = typename Shape::Math;
  uint32_t a[Shape::kTokenTiles / 2][4];
#pragma unroll
  for (int k = 0; k < Shape::kTokenTiles / 2; ++k) {
    a[k][0] = Math::pack(s[0][2 * k][0], s[0][2 * k][1]);
    a[k][1] = Math::pack(s[0][2 * k][2], s[0][2 * k][3]);
    a[k][2] = Math::pack(s[0][2 * k + 1][0], s[0][2 * k + 1][1]);
    a[k][3] = Math::pack(s[0][2 * k + 1][2], s[0][2 * k + 1][3]);
  }
#pragma unroll
  for (int n = 0; n < Shape::kSteps * 2; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) pin(o[0][n][i]);
  }
  begin_products();
#pragma unroll
  for (int k = 0; k < Shape::kTokenTiles / 2; ++k) {
#pragma unroll
    for (int panel = 0; panel < Shape::kSteps / 4; ++panel) {
      multiply_registers<Math>(o[0] + panel * 8, a[k],
                               panel_descriptor(values + (panel * Shape::kTokens + k * 16) * kPanelBytes));
    }
  }
  end_products();
#pragma unroll
  for (int n = 0; n < Shape::kSteps * 2; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) pin(o[0][n][i]);
  }
}

// A multiplying warpgroup.
template <class Shape, int kHead>
__device__ __forceinline__ void attend_pages(const AttentionParams& p, const TileWork& w, int kv_head, int items,
                                             const GroupTileMemory<Shape>& memory) {
  const int group = static_cast<int>(threadIdx.x) / Shape::kGroupThreads;
  const int thread = static_cast<int>(threadIdx.x) % Shape::kGroupThreads;
  load_tile_queries<Shape, kHead, Shape::kGroupRows, Shape::kGroupThreads>(p, w, kv_head, group * Shape::kGroupRows,
                                                                           thread, memory.queries);
  publish_to_tensor_cores();
  asm volatile("bar.sync %0, 128;" ::"r"(group + 2) : "memory");
  const TileRows rows(p, w, group * Shape::kGroupRows, Shape::kGroupRows);
  // The warp is done with an item.
  const auto leave = [&](int item) {
    __syncwarp();
    if (thread % kWarp == 0) arrive_barrier(memory.empty + item % Shape::kSlots);
  };
  TileSoftmax<Shape> state;
  TileOutput<Shape> o;
  clear_tile<Shape>(state, o);
  for (int item = 0; item < items; item += 2) {
    const int position = (w.begin / Shape::kTokens + item / 2) * Shape::kTokens;
    const bool visible = rows.see(p, position);
    memory.wait_full(item);
    if (!visible) {
      leave(item);
      memory.wait_full(item + 1);
      leave(item + 1);
      continue;
    }
    TileScores<Shape> s;
    multiply_group_keys<Shape>(shared_address(memory.queries), shared_address(memory.slot(item)), s);
    leave(item);
    mask_tile<Shape>(p, w, position, s);
    update_tile_softmax<Shape>(s, state, o);
    memory.wait_full(item + 1);
    multiply_group_values<Shape>(shared_address(memory.slot(item + 1)), s, o);
    leave(item + 1);
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
  const int items = ((w.end - 1) / Shape::kTokens - w.begin / Shape::kTokens + 1) * 2;
  const int kv_head = static_cast<int>(blockIdx.x);
  if (threadIdx.x >= Shape::kConsumers * Shape::kGroupThreads) {
    lower_registers<Shape::kCopierRegisters>();
    copy_pages<Shape, kHead>(p, w, kv_head, items, memory);
  } else {
    raise_registers<Shape::kConsumerRegisters>();
    attend_pages<Shape, kHead>(p, w, kv_head, items, memory);
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
