// Attention of few query rows over a long cache: decode, and sequences with a few rows in a mixed step.
//
// A unit of work is one sequence, one KV head with its columns (rows and query heads; a chunk of them where they are
// many) and one split of the visible pages. In a decoding step the kernel prepares its own queries, and the newest key
// and value (fresh.cuh): it may start early, and fetches earlier tokens' pages before it waits. Blocks stream through
// units without a pause at their borders (split_units.cuh says which); as many as there are KV heads do so side by
// side: the pieces of a page are read together. A block's 4 warps are independent of one another inside a unit: each
// copies 16 of a page's 64 tokens into its own ring of shared memory and computes
//   S^T = K Q^T   (16 tokens x columns),  online softmax,  O^T += V^T P^T   (head size x columns)
// with 16-bit tensor cores and float accumulators. The warps' results are merged in shared memory, the splits' in
// scratch, by the block that finishes last, in ascending order.
//
// How a sequence is split depends on its own length (and the layer's window and KV heads) alone, never on the batch,
// and every sum has a fixed order: results are equal bit for bit whatever else runs.
//
// Precision: f16 and q8_0 multiply in f16: q8_0's integers are exact, its key scales are applied to the products of
// each 32 elements, its values rounded to f16 once scaled. bf16 queries and probabilities are split into two bf16
// parts.
#pragma once

#include "cuda/kernels/attention/fresh.cuh"
#include "cuda/kernels/attention/sizes.cuh"
#include "cuda/kernels/attention/split_parts.cuh"
#include "cuda/kernels/attention/split_units.cuh"
#include "cuda/kernels/common/chain.cuh"

namespace minfer::cuda::attention {

// Units that a block knows, as a ring: the one at work and those whose pages may be under way.
inline constexpr int kSplitUnits = 8;

// Where four elements of a column go in the output; all lanes of a warp call.
__device__ __forceinline__ void write_column(const AttentionParams& p, const SplitUnit& w, int column, int element,
                                             float4 x) {
  const int row = (w.first_column + column) / p.group;
  const int head = own_head(p) * p.group + w.first_column + column - row * p.group;
  write_output(p, column < w.columns, w.first_row + row, head * p.value_size + element, x);
}

__device__ __forceinline__ void add_weighted(float4& sum, float weight, const float4& x) {
  sum.x += weight * x.x;
  sum.y += weight * x.y;
  sum.z += weight * x.z;
  sum.w += weight * x.w;
}
__device__ __forceinline__ float4 scaled(const float4& x, float factor) {
  return make_float4(x.x * factor, x.y * factor, x.z * factor, x.w * factor);
}
// 2^(x - maximum), 0 for what saw nothing.
__device__ __forceinline__ float weight_of(float x, float maximum) {
  return x == -INFINITY ? 0.0F : power_of_two(x - maximum);
}
// What a column's sum of values is multiplied by in the end.
__device__ __forceinline__ float column_factor(const AttentionParams& p, const SplitUnit& w, int column, float maximum,
                                               float sum) {
  const int head = own_head(p) * p.group + (w.first_column + column) % p.group;
  return softmax_factor(p, head, maximum, sum);
}

// Merges the warps' results of a unit. `stages`: a piece of shared memory of each warp, kStages * kStageBytes apart.
// The only split of its sequence is written out, another one to scratch: `partial`.
template <class Shape, int kHead, int kColumnTiles>
__device__ __forceinline__ void merge_warps(const AttentionParams& p, const SplitUnit& u,
                                            const SplitSoftmax<kColumnTiles>& state,
                                            const float (&o)[Shape::kSteps][kColumnTiles][4], uint8_t* stages,
                                            float2* pairs, float* partial) {
  using Value = typename Shape::Value;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const auto values_of = [&](int of) {
    return reinterpret_cast<float*>(stages + of * Shape::kStages * Shape::kStageBytes);
  };
#pragma unroll
  for (int n = 0; n < kColumnTiles; ++n) {
    if (n * 8 >= u.columns) break;
    __syncwarp();
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      float sum = state.sum[n][j];
#pragma unroll
      for (int step = 4; step < kWarp; step *= 2) sum += __shfl_xor_sync(kAllLanes, sum, step);
      const int column = lane % 4 * 2 + j;
      if (lane < 4) pairs[(n * 8 + column) * Shape::kWarps + warp] = make_float2(state.maximum[n][j], sum);
#pragma unroll
      for (int tile = 0; tile < Shape::kSteps; ++tile) {
#pragma unroll
        for (int upper = 0; upper < 2; ++upper) {
          values_of(warp)[column * Shape::kMergeStride + element_of<Value>(tile, lane / 4, upper)] =
              o[tile][n][upper * 2 + j];
        }
      }
    }
    __syncthreads();
    const int fours = min(u.columns - n * 8, 8) * (kHead / 4);
    for (int base = 0; base < fours; base += Shape::kThreads) {
      const int i = base + static_cast<int>(threadIdx.x);
      if (base + warp * kWarp >= fours) break;
      const int in_tile = min(i, fours - 1) / (kHead / 4);
      const int column = n * 8 + i / (kHead / 4);
      const int element = i % (kHead / 4) * 4;
      float maximum = -INFINITY;
      float2 pair[Shape::kWarps];
#pragma unroll
      for (int k = 0; k < Shape::kWarps; ++k) {
        pair[k] = pairs[(n * 8 + in_tile) * Shape::kWarps + k];
        maximum = fmaxf(maximum, pair[k].x);
      }
      float sum = 0;
      float4 x = make_float4(0, 0, 0, 0);
#pragma unroll
      for (int k = 0; k < Shape::kWarps; ++k) {
        const float weight = weight_of(pair[k].x, maximum);
        sum += weight * pair[k].y;
        add_weighted(x, weight,
                     *reinterpret_cast<const float4*>(values_of(k) + in_tile * Shape::kMergeStride + element));
      }
      if (u.splits == 1) {
        write_column(p, u, column, element, scaled(x, column_factor(p, u, column, maximum, sum)));
      } else if (i < fours) {
        *reinterpret_cast<float4*>(partial + column * kHead + element) = x;
        if (element == 0) {
          reinterpret_cast<float2*>(partial + p.split_columns * kHead)[column] = make_float2(maximum, sum);
        }
      }
    }
    if ((n + 1) * 8 < u.columns) __syncthreads();
  }
}

// Reads the partial results of all splits, in ascending order, and writes the rows. By the last block to finish. The
// loads of a batch are under way together: this is a step that the whole launch waits for.
template <class Shape, int kHead>
__device__ __forceinline__ void merge_splits(const AttentionParams& p, const SplitUnit& u, const float* partials,
                                             int64_t stride) {
  constexpr int kBatch = 16;
  const int fours = u.columns * (kHead / 4);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  for (int base = 0; base + warp * kWarp < fours; base += Shape::kThreads) {
    const int i = base + static_cast<int>(threadIdx.x);
    const int at = min(i, fours - 1);
    const int column = at / (kHead / 4);
    float maximum = -INFINITY;
    float sum = 0;
    float4 x = make_float4(0, 0, 0, 0);
    for (int first = 0; first < u.splits; first += kBatch) {
      const float* from = partials + first * stride;
      float2 pair[kBatch];
      float4 value[kBatch];
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        const bool exists = first + k < u.splits;
        pair[k] = exists ? __ldcg(reinterpret_cast<const float2*>(from + k * stride + p.split_columns * kHead) + column)
                         : make_float2(-INFINITY, 0);
        value[k] = exists ? __ldcg(reinterpret_cast<const float4*>(from + k * stride) + at) : make_float4(0, 0, 0, 0);
      }
      float top = maximum;
#pragma unroll
      for (int k = 0; k < kBatch; ++k) top = fmaxf(top, pair[k].x);
      const float correction = weight_of(maximum, top);
      maximum = top;
      sum *= correction;
      x = scaled(x, correction);
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        const float weight = weight_of(pair[k].x, maximum);
        sum += weight * pair[k].y;
        add_weighted(x, weight, value[k]);
      }
    }
    write_column(p, u, i / (kHead / 4), i % (kHead / 4) * 4, scaled(x, column_factor(p, u, column, maximum, sum)));
  }
}

// Where the splits of a unit's sequence, head and chunk meet.
__device__ __forceinline__ int64_t split_cell(const AttentionParams& p, const SplitUnit& u) {
  return (static_cast<int64_t>(u.sequence) * p.kv.kv_heads + own_head(p)) * p.chunks + u.chunk;
}

// Tells that `done` splits of the unit's sequence and head are in scratch, where a barrier has passed since; true in
// the block that completes them, which then sees all. Resets the counter for the next launch.
__device__ __forceinline__ bool completes(const AttentionParams& p, const SplitUnit& u, int done) {
  __shared__ bool is_last;
  if (done == u.splits) return true;
  if (threadIdx.x == 0) {
    unsigned* counter = p.counters + split_cell(p, u);
    unsigned before;
    // Releases what the block wrote, which the barrier before has ordered, and acquires what the others did.
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(counter), "r"(static_cast<unsigned>(done))
                 : "memory");
    is_last = before + static_cast<unsigned>(done) == static_cast<unsigned>(u.splits);
    if (is_last) *counter = 0;
  }
  __syncthreads();
  return is_last;
}

// The copies of a warp, running ahead of its products by kStages - 1 pages. Units are read from the block's ring.
template <class Shape, int kHead, bool kRotates>
struct SplitCopier {
  const SplitUnit* units;
  int unit = 0;
  int page = 0;    // of the unit
  int copied = 0;  // pages so far
  int id = 0;      // of the page

  __device__ __forceinline__ const SplitUnit& current() const { return units[unit % kSplitUnits]; }
  __device__ __forceinline__ void find_page(const AttentionParams& p) {
    if (current().exists != 0) id = p.pages[current().table + page];
  }
  // Two groups of copies, keys and values; empty ones past the end.
  __device__ __forceinline__ void copy_page(const AttentionParams& p, int warp, uint32_t ring) {
    using Key = typename Shape::Key;
    using Value = typename Shape::Value;
    const SplitUnit& u = current();
    if (u.exists == 0) {
      commit_copies();
      commit_copies();
      return;
    }
    const int position = u.position + page * static_cast<int>(kKvPageTokens) + warp * Key::kTokens;
    const int low = u.begin - position;
    const int high = u.end - (kRotates ? 1 : 0) - position;  // the newest is not there yet
    const int64_t scales = kv_scales_offset(p.kv.kv_heads, kHead);
    const int64_t offset = id * p.kv.page_stride;
    const uint32_t to = ring + copied % Shape::kStages * Shape::kStageBytes;
    copy_part<Key>(p.kv.k + offset, scales, own_head(p), warp, low, high, to);
    commit_copies();
    copy_part<Value>(p.kv.v + offset, scales, own_head(p), warp, low, high, to + Key::kBytes);
    commit_copies();
    ++copied;
    if (++page == u.pages) {
      page = 0;
      ++unit;
    }
    find_page(p);
  }
};

// A warp's part of one page: scores, softmax, output. Its copies are the oldest two groups but kStages - 1 pages.
// `fresh`: where the newest token is, if the kernel makes it.
template <class Shape, int kColumnTiles, bool kRotates>
__device__ __forceinline__ void attend_page(const AttentionParams& p, const SplitUnit& u, int position,
                                            const uint8_t* queries, uint8_t* stage, const FreshMemory<Shape>& fresh,
                                            SplitSoftmax<kColumnTiles>& state,
                                            float (&o)[Shape::kSteps][kColumnTiles][4]) {
  using Key = typename Shape::Key;
  using Value = typename Shape::Value;
  const uint32_t address = shared_address(stage);
  float correction[kColumnTiles][2];
  uint32_t b[kColumnTiles][2];
  uint32_t rest[kColumnTiles][2];
  float s[kColumnTiles][4];
  const int newest = u.end - 1 - position;  // its row, where it is the warp's
  const bool inserts = kRotates && newest >= 0 && newest < Key::kTokens;
  wait_copies<2 * Shape::kStages - 1>();
  __syncwarp();
  if (inserts) insert_fresh<Key>(fresh.key, newest, stage);
  multiply_keys<Shape, kColumnTiles>(address, stage + Key::kTokens * Key::kRowStride, queries, s);
  mask_scores(p, u, position, s);
  const bool changed = update_softmax<Value, kColumnTiles>(s, state, correction, b, rest);
  wait_copies<2 * Shape::kStages - 2>();
  __syncwarp();
  if (inserts) insert_fresh<Value>(fresh.value, newest, stage + Key::kBytes);
  if (changed) {
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
      for (int i = 0; i < Shape::kSteps; ++i) {
#pragma unroll
        for (int k = 0; k < 4; ++k) o[i][n][k] *= correction[n][k % 2];
      }
    }
  }
  multiply_values<Shape, kColumnTiles>(address + Key::kBytes, stage + Key::kBytes + Value::kTokens * Value::kRowStride,
                                       b, rest, o);
  __syncwarp();
}

template <KvFormat kKey, KvFormat kValue, int kHead, int kColumnTiles, bool kRotates>
__global__ void __launch_bounds__(128) split_kernel(const __grid_constant__ AttentionParams p) {
  using Shape = SplitShape<kKey, kValue, kHead, kColumnTiles>;
  static_assert(Shape::kStages + 1 < kSplitUnits);  // a copier looks at one unit more than it copies
  extern __shared__ __align__(16) uint8_t shared[];
  __shared__ SplitUnit units[kSplitUnits];
  allow_dependents();
  const FreshMemory<Shape> fresh(shared + Shape::kFreshAt);
  // What a kernel before makes is read nowhere before the wait: the step's own description and earlier tokens' pages
  // are there since the step began.
  if constexpr (kRotates) {
    load_norms<Shape>(p.fresh, fresh);
  } else {
    wait_for_dependencies();
  }
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  SplitCursor cursor(p, Shape::kColumns);  // the first warp's
  if (warp == 0) {
    for (int i = 0; i <= Shape::kStages; ++i) cursor.take(p, units[i]);
  }
  __syncthreads();
  float2* pairs = reinterpret_cast<float2*>(shared + Shape::kQueryBytes);
  uint8_t* rings = shared + Shape::kQueryBytes + Shape::kPairBytes;
  uint8_t* ring = rings + warp * Shape::kStages * Shape::kStageBytes;
  SplitCopier<Shape, kHead, kRotates> copier{units};
  copier.find_page(p);
#pragma unroll
  for (int i = 0; i < Shape::kStages - 1; ++i) copier.copy_page(p, warp, shared_address(ring));
  if constexpr (kRotates) wait_for_dependencies();
  const int stride = partial_floats(p.split_columns, kHead);
  int consumed = 0;  // pages
  int done = 0;      // splits of the sequence and head
  for (int at = 0; units[at % kSplitUnits].exists != 0; ++at) {
    const SplitUnit unit = units[at % kSplitUnits];
    if constexpr (kRotates) {
      const bool ends = unit.split == unit.splits - 1;
      if (done == 0 || ends) {
        make_fresh<Shape>(p, unit, done == 0, ends, fresh, shared);
        __syncthreads();
      }
    } else if (done == 0) {
      load_queries<Shape>(p, unit, shared);
      __syncthreads();
    }
    SplitSoftmax<kColumnTiles> state;
    float o[Shape::kSteps][kColumnTiles][4];
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) {
      state.maximum[n][0] = state.maximum[n][1] = -INFINITY;
      state.sum[n][0] = state.sum[n][1] = 0;
#pragma unroll
      for (int i = 0; i < Shape::kSteps; ++i) o[i][n][0] = o[i][n][1] = o[i][n][2] = o[i][n][3] = 0;
    }
    for (int page = 0; page < unit.pages; ++page) {
      copier.copy_page(p, warp, shared_address(ring));
      attend_page<Shape, kColumnTiles, kRotates>(
          p, unit, unit.position + page * static_cast<int>(kKvPageTokens) + warp * 16, shared,
          ring + consumed % Shape::kStages * Shape::kStageBytes, fresh, state, o);
      ++consumed;
    }
    float* partials = p.partials + split_cell(p, unit) * p.split_stride * stride;
    merge_warps<Shape, kHead, kColumnTiles>(p, unit, state, o,
                                            rings + (consumed - 1) % Shape::kStages * Shape::kStageBytes, pairs,
                                            partials + unit.split * stride);
    ++done;
    const SplitUnit& next = units[(at + 1) % kSplitUnits];
    const bool leaves = next.exists == 0 || next.sequence != unit.sequence || next.chunk != unit.chunk;
    if (warp == 0) cursor.take(p, units[(at + Shape::kStages + 1) % kSplitUnits]);
    __syncthreads();
    if (!leaves) continue;
    if (unit.splits > 1 && completes(p, unit, done)) merge_splits<Shape, kHead>(p, unit, partials, stride);
    done = 0;
  }
}

// Shared memory that a block takes beside its dynamic one: the card's own, and the ring of units.
inline constexpr int64_t kSplitReserved = 1536;

// As many blocks as the card holds at once; for few sequences one a multiprocessor, whether there is work for it or
// not: the product behind finds room for one of its blocks on each, and only for one. Where blocks come unevenly, some
// multiprocessors get two of the next kernel's, and it takes twice as long.
inline dim3 split_blocks(const Queue& queue, const SplitGrid& grid, int64_t shared_bytes) {
  const int64_t resident = queue.capabilities->shared_bytes_per_multiprocessor / (shared_bytes + kSplitReserved);
  const int64_t blocks = std::clamp<int64_t>(resident, 1, grid.few ? 1 : 3) * queue.capabilities->multiprocessors;
  return dim3(static_cast<unsigned>(std::max(blocks, grid.kv_heads)));
}

template <KvFormat kFormat, int kHead, bool kIsWide, bool kRotates>
void launch_split_size(const Queue& queue, const AttentionParams& params, const SplitGrid& grid) {
  constexpr int kTiles = (kIsWide ? kWideColumns : kNarrowColumns) / 8;
  using Shape = SplitShape<kFormat, kFormat, kHead, kTiles>;
  constexpr int64_t kSharedBytes = kRotates ? Shape::kSharedBytes : Shape::kFreshAt;
  const LaunchShape shape{split_blocks(queue, grid, kSharedBytes), dim3(Shape::kThreads), kSharedBytes, grid.chained};
  launch_kernel(queue, "attention/split", shape, split_kernel<kFormat, kFormat, kHead, kTiles, kRotates>, params);
}

template <KvFormat kFormat, int kHead>
void launch_split_variant(const Queue& queue, const AttentionParams& params, const SplitGrid& grid) {
  if (grid.wide) {
    if (grid.rotates) {
      launch_split_size<kFormat, kHead, true, true>(queue, params, grid);
    } else {
      launch_split_size<kFormat, kHead, true, false>(queue, params, grid);
    }
  } else if (grid.rotates) {
    launch_split_size<kFormat, kHead, false, true>(queue, params, grid);
  } else {
    launch_split_size<kFormat, kHead, false, false>(queue, params, grid);
  }
}

template <KvFormat kFormat>
void launch_split(const Queue& queue, const AttentionParams& params, const SplitGrid& grid) {
  with_head_size<kFormat>(params.key_size,
                          [&](auto size) { launch_split_variant<kFormat, size()>(queue, params, grid); });
}

template <KvFormat kFormat>
int64_t split_shared_bytes(int64_t head_size) {
  int64_t bytes = 0;
  with_head_size<kFormat>(
      head_size, [&](auto size) { bytes = SplitShape<kFormat, kFormat, size(), kWideColumns / 8>::kSharedBytes; });
  return bytes;
}

}  // namespace minfer::cuda::attention
