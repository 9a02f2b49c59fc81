// Attention of few query rows over a long cache: decode, and sequences with a few rows in a mixed step. A block takes
// one sequence, one KV head (with all its query heads: the columns) and one split of the visible pages. Its 4 warps
// are independent of one another: each copies 16 of a page's 64 tokens into its own ring of shared memory and computes
//   S^T = K Q^T   (16 tokens x columns),  online softmax,  O^T += V^T P^T   (head size x columns)
// with 16-bit tensor cores and float accumulators. The warps' results are merged in shared memory; the splits' in
// scratch, by the block that finishes last, in ascending order.
//
// How a sequence is split depends on its own length (and the layer's window and KV heads) alone, never on the batch,
// and every sum has a fixed order: results are equal bit for bit whatever else runs.
//
// Precision: f16 and q8_0 multiply in f16: q8_0's integers are exact, its key scales are applied to the products of
// each 32 elements, its values rounded to f16 once scaled. bf16 queries and probabilities are split into two bf16 parts.
#pragma once

#include <algorithm>

#include "cuda/kernels/attention/limits.hpp"
#include "cuda/kernels/attention/mma.cuh"
#include "cuda/kernels/attention/output.cuh"
#include "cuda/kernels/attention/params.hpp"
#include "cuda/kernels/common/chain.cuh"

namespace minfer::cuda::attention {

using graph::KvFormat;

template <KvFormat kFormat, int kHead>
struct SplitPart {
  static constexpr bool kQuantized = kFormat == KvFormat::q8_0;
  static constexpr bool kTwoParts = kFormat == KvFormat::bf16;  // the other operand is a sum of two
  static constexpr int kTokens = 16;                            // of a warp
  static constexpr int kRowBytes = kHead * (kQuantized ? 1 : 2);
  static constexpr int kRowStride = kRowBytes + 16;  // an odd number of 16-byte pieces: no bank conflicts
  static constexpr int kPieces = kRowBytes / 16;
  static constexpr int kBlocks = kQuantized ? kHead / 32 : 0;
  static constexpr int kScaleBytes = kTokens * kBlocks * 2;
  static constexpr int kBytes = kTokens * kRowStride + kScaleBytes;
  using Math = std::conditional_t<kFormat == KvFormat::bf16, Bfloat, Half>;
};

template <KvFormat kKey, KvFormat kValue, int kHead, int kColumnTiles>
struct SplitShape {
  using Key = SplitPart<kKey, kHead>;
  using Value = SplitPart<kValue, kHead>;
  static constexpr int kWarps = 4;
  static constexpr int kThreads = kWarps * kWarp;
  static constexpr int kStages = 2;
  static constexpr int kColumns = kColumnTiles * 8;
  static constexpr int kSteps = kHead / 16;
  static constexpr int kStageBytes = Key::kBytes + Value::kBytes;
  static constexpr int kQueryPart = kColumnTiles * kSteps * kWarp * 8;
  static constexpr int kQueryBytes = kQueryPart * (Key::kTwoParts ? 2 : 1);
  static constexpr int kMergeStride = kHead + 4;
  // [warp][column][kMergeStride], then {maximum, sum}[warp][column], weights [warp][column], {1 / sum...}[column]
  static constexpr int kMergeBytes = (kWarps * kColumns * (kMergeStride + 3) + kColumns * 2) * 4;
  static constexpr int kFinalBytes = static_cast<int>(kMaxSplits) * kColumns * 12;
  static constexpr int kRingBytes = kWarps * kStages * kStageBytes;
  static constexpr int kSharedBytes = kQueryBytes + std::max(std::max(kRingBytes, kMergeBytes), kFinalBytes);
};

// What a block has to do.
struct SplitWork {
  int kv_head, first_head, heads, columns;
  int first_row, rows, first_position, begin, end;  // positions [begin, end) are visible to some row
  int splits;
  int first_page, pages;  // of this split, in the sequence's table
  const int32_t* table;
};

__device__ __forceinline__ bool find_split(const AttentionParams& p, int column_limit, SplitWork& w) {
  const SequenceInfo info = p.sequences[blockIdx.z];
  if (info.rows == 0 || info.rows > p.split_rows) return false;
  const int chunks = (p.group + column_limit - 1) / column_limit;
  w.kv_head = static_cast<int>(blockIdx.x) / chunks;
  w.first_head = static_cast<int>(blockIdx.x) % chunks * column_limit;
  w.heads = min(column_limit, p.group - w.first_head);
  w.columns = info.rows * w.heads;
  w.first_row = info.first_row;
  w.rows = info.rows;
  w.first_position = info.first_position;
  w.end = info.first_position + info.rows;
  w.begin = p.window > 0 ? max(0, info.first_position + 1 - p.window) : 0;
  constexpr int kPage = static_cast<int>(kKvPageTokens);
  const int first = w.begin / kPage;
  const int pages = (w.end + kPage - 1) / kPage - first;
  const int each = (pages + p.split_limit - 1) / p.split_limit;
  w.splits = (pages + each - 1) / each;
  const int split = static_cast<int>(blockIdx.y);
  if (split >= w.splits) return false;
  w.first_page = first + split * each;
  w.pages = min(each, first + pages - w.first_page);
  w.table = p.pages + info.first_page;
  return true;
}

// The queries as B fragments [column tile][step][lane], scaled; two parts: the rest behind.
template <class Shape>
__device__ __forceinline__ void load_queries(const AttentionParams& p, const SplitWork& w, uint8_t* shared) {
  using Key = typename Shape::Key;
  using Math = typename Key::Math;
  for (int i = static_cast<int>(threadIdx.x); i < Shape::kColumns * 4 * Shape::kSteps; i += Shape::kThreads) {
    const int t = i % 4;
    const int column = i / (kWarp * Shape::kSteps) * 8 + i % kWarp / 4;
    const int step = i / kWarp % Shape::kSteps;
    float x[4] = {0, 0, 0, 0};
    if (column < w.columns) {
      const int head = w.kv_head * p.group + w.first_head + column % w.heads;
      const float* q = p.q + (w.first_row + column / w.heads) * p.q_stride + head * p.key_size + step * 16;
      // 8-bit keys come as 4 neighbours a lane: the same order of products for q.
      const float2 low = *reinterpret_cast<const float2*>(q + (Key::kQuantized ? 4 * t : 2 * t));
      const float2 high = *reinterpret_cast<const float2*>(q + (Key::kQuantized ? 4 * t + 2 : 2 * t + 8));
      x[0] = low.x * p.query_factor;
      x[1] = low.y * p.query_factor;
      x[2] = high.x * p.query_factor;
      x[3] = high.y * p.query_factor;
    }
    const uint2 pair = make_uint2(Math::pack(x[0], x[1]), Math::pack(x[2], x[3]));
    reinterpret_cast<uint2*>(shared)[i] = pair;
    if constexpr (Key::kTwoParts) {
      reinterpret_cast<uint2*>(shared + Shape::kQueryPart)[i] =
          make_uint2(Math::pack(x[0] - Math::low(pair.x), x[1] - Math::high(pair.x)),
                     Math::pack(x[2] - Math::low(pair.y), x[3] - Math::high(pair.y)));
    }
  }
}

// A warp's 16 tokens of a page's part; tokens outside [low, high) become zeros.
template <class Part>
__device__ __forceinline__ void copy_part(const std::byte* part, int64_t scales_offset, int kv_head, int slice,
                                          int low, int high, uint32_t to) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int first = kv_head * static_cast<int>(kKvPageTokens) + slice * Part::kTokens;
  const std::byte* from = part + static_cast<int64_t>(first) * Part::kRowBytes;
#pragma unroll
  for (int k = 0; k < Part::kTokens * Part::kPieces / kWarp; ++k) {
    const int i = lane + k * kWarp;
    const int token = i / Part::kPieces;
    copy_async(to + token * Part::kRowStride + i % Part::kPieces * 16, from + i * 16,
               token >= low && token < high ? 16 : 0);
  }
  if constexpr (Part::kQuantized) {
    if (lane * 16 < Part::kScaleBytes) {
      const std::byte* scales = part + scales_offset + static_cast<int64_t>(first) * Part::kBlocks * 2;
      const int bytes = min(max(high * Part::kBlocks * 2 - lane * 16, 0), 16);
      copy_async(to + Part::kTokens * Part::kRowStride + lane * 16, scales + lane * 16, bytes);
    }
  }
}

// s[column tile] = K Q^T of the warp's 16 tokens.
template <class Shape, int kColumnTiles>
__device__ __forceinline__ void multiply_keys(uint32_t keys, const uint8_t* key_scales, const uint8_t* queries,
                                              int tiles, float (&s)[kColumnTiles][4]) {
  using Key = typename Shape::Key;
  using Math = typename Key::Math;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const uint32_t at = keys + lane % 16 * Key::kRowStride + lane / 16 * 16;
  const uint2* q = reinterpret_cast<const uint2*>(queries) + lane;
#pragma unroll
  for (int n = 0; n < kColumnTiles; ++n) s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0;
  if constexpr (Key::kQuantized) {
#pragma unroll
    for (int block = 0; block < Key::kBlocks; ++block) {
      uint32_t bytes[4];
      load_matrices(bytes, at + block * 32);
#pragma unroll
      for (int i = 0; i < 4; ++i) bytes[i] ^= 0x80808080U;
      const uint32_t a[2][4] = {{bytes_to_half<0x4140>(bytes[0]), bytes_to_half<0x4140>(bytes[1]),
                                 bytes_to_half<0x4342>(bytes[0]), bytes_to_half<0x4342>(bytes[1])},
                                {bytes_to_half<0x4140>(bytes[2]), bytes_to_half<0x4140>(bytes[3]),
                                 bytes_to_half<0x4342>(bytes[2]), bytes_to_half<0x4342>(bytes[3])}};
      const __half* scales = reinterpret_cast<const __half*>(key_scales) + lane / 4 * Key::kBlocks + block;
      const float low = __half2float(scales[0]);
      const float high = __half2float(scales[8 * Key::kBlocks]);
#pragma unroll
      for (int n = 0; n < kColumnTiles; ++n) {
        if (n >= tiles) break;
        float c[4] = {0, 0, 0, 0};
        const uint2 first = q[(n * Shape::kSteps + 2 * block) * kWarp];
        const uint2 second = q[(n * Shape::kSteps + 2 * block + 1) * kWarp];
        Math::multiply(c, a[0], first.x, first.y);
        Math::multiply(c, a[1], second.x, second.y);
        s[n][0] += c[0] * low;
        s[n][1] += c[1] * low;
        s[n][2] += c[2] * high;
        s[n][3] += c[3] * high;
      }
    }
  } else {
#pragma unroll
    for (int step = 0; step < Shape::kSteps; ++step) {
      uint32_t a[4];
      load_matrices(a, at + step * 32);
#pragma unroll
      for (int n = 0; n < kColumnTiles; ++n) {
        if (n >= tiles) break;
        const uint2 b = q[(n * Shape::kSteps + step) * kWarp];
        Math::multiply(s[n], a, b.x, b.y);
        if constexpr (Key::kTwoParts) {
          const uint2 rest = q[Shape::kQueryPart / 8 + (n * Shape::kSteps + step) * kWarp];
          Math::multiply(s[n], a, rest.x, rest.y);
        }
      }
    }
  }
}

// o[16 elements][column tile] += V^T P^T. Where values are 8-bit, row g of a tile is element 2 g and row g + 8 is
// 2 g + 1 (a transposing load moves pairs of bytes); element_of says so.
template <class Part>
__device__ __forceinline__ int element_of(int tile, int g, int upper) {
  return tile * 16 + (Part::kQuantized ? 2 * g + upper : g + 8 * upper);
}

template <class Shape, int kColumnTiles>
__device__ __forceinline__ void multiply_values(uint32_t values, const uint8_t* value_scales,
                                                const uint32_t (&b)[kColumnTiles][2],
                                                const uint32_t (&rest)[kColumnTiles][2], int tiles,
                                                float (&o)[Shape::kSteps][kColumnTiles][4]) {
  using Value = typename Shape::Value;
  using Math = typename Value::Math;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if constexpr (Value::kQuantized) {
    const uint32_t at = values + lane % 16 * Value::kRowStride + lane / 16 * 16;
    const uint16_t* scales = reinterpret_cast<const uint16_t*>(value_scales) + lane % 4 * 2 * Value::kBlocks;
#pragma unroll
    for (int block = 0; block < Value::kBlocks; ++block) {
      uint32_t bytes[4];
      load_transposed(bytes, at + block * 32);
#pragma unroll
      for (int i = 0; i < 4; ++i) bytes[i] ^= 0x80808080U;
      const uint16_t* s = scales + block;
      const uint32_t low = s[0] | static_cast<uint32_t>(s[Value::kBlocks]) << 16;
      const uint32_t high = s[8 * Value::kBlocks] | static_cast<uint32_t>(s[9 * Value::kBlocks]) << 16;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint32_t a[4] = {multiply_halves(bytes_to_half<0x4240>(bytes[2 * half]), low),
                               multiply_halves(bytes_to_half<0x4341>(bytes[2 * half]), low),
                               multiply_halves(bytes_to_half<0x4240>(bytes[2 * half + 1]), high),
                               multiply_halves(bytes_to_half<0x4341>(bytes[2 * half + 1]), high)};
#pragma unroll
        for (int n = 0; n < kColumnTiles; ++n) {
          if (n >= tiles) break;
          Math::multiply(o[2 * block + half][n], a, b[n][0], b[n][1]);
        }
      }
    }
  } else {
    const uint32_t at = values + (lane / 16 * 8 + lane % 8) * Value::kRowStride + lane / 8 % 2 * 16;
#pragma unroll
    for (int step = 0; step < Shape::kSteps; ++step) {
      uint32_t a[4];
      load_transposed(a, at + step * 32);
#pragma unroll
      for (int n = 0; n < kColumnTiles; ++n) {
        if (n >= tiles) break;
        Math::multiply(o[step][n], a, b[n][0], b[n][1]);
        if constexpr (Value::kTwoParts) Math::multiply(o[step][n], a, rest[n][0], rest[n][1]);
      }
    }
  }
}

// The running softmax of a warp: columns 2 t and 2 t + 1 of each tile. The sums are the lane's own part.
template <int kColumnTiles>
struct SplitSoftmax {
  float maximum[kColumnTiles][2];
  float sum[kColumnTiles][2];
};

// Caps and masks the scores of the tokens at first_token + (g, g + 8).
template <int kColumnTiles>
__device__ __forceinline__ void mask_scores(const AttentionParams& p, const SplitWork& w, int first_token,
                                            float (&s)[kColumnTiles][4]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (p.cap_factor != 0) {
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) s[n][i] = capped(s[n][i], p.cap_factor);
    }
  }
  const bool all = first_token + 15 <= w.first_position && (p.window == 0 || first_token >= w.end - p.window);
  if (all) return;
#pragma unroll
  for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int last = w.first_position + (n * 8 + lane % 4 * 2 + i % 2) / w.heads;
      const int token = first_token + lane / 4 + i / 2 * 8;
      // Columns that are none (beyond the last) see what the last row sees.
      const bool seen = token <= min(last, w.end - 1) && (p.window == 0 || token > min(last, w.end - 1) - p.window);
      if (!seen) s[n][i] = -INFINITY;
    }
  }
}

// Scores to probabilities as B fragments; returns whether the sums so far must be scaled by `correction`.
template <class Value, int kColumnTiles>
__device__ __forceinline__ bool update_softmax(float (&s)[kColumnTiles][4], SplitSoftmax<kColumnTiles>& state,
                                               int tiles, float (&correction)[kColumnTiles][2],
                                               uint32_t (&b)[kColumnTiles][2], uint32_t (&rest)[kColumnTiles][2]) {
  using Math = typename Value::Math;
  bool changed = false;
#pragma unroll
  for (int n = 0; n < kColumnTiles; ++n) {
    if (n >= tiles) break;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      float top = fmaxf(s[n][j], s[n][j + 2]);
#pragma unroll
      for (int step = 4; step < kWarp; step *= 2) top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, step));
      const float before = state.maximum[n][j];
      const float maximum = fmaxf(before, top);
      const float base = maximum == -INFINITY ? 0.0F : maximum;
      correction[n][j] = exp2f(before - base);
      changed = changed || maximum != before;
      s[n][j] = exp2f(s[n][j] - base);
      s[n][j + 2] = exp2f(s[n][j + 2] - base);
      state.maximum[n][j] = maximum;
      state.sum[n][j] = state.sum[n][j] * correction[n][j] + (s[n][j] + s[n][j + 2]);
    }
    const uint32_t low = Math::pack(s[n][0], s[n][1]);
    const uint32_t high = Math::pack(s[n][2], s[n][3]);
    b[n][0] = transpose(low);
    b[n][1] = transpose(high);
    if constexpr (Value::kTwoParts) {
      rest[n][0] = transpose(Math::pack(s[n][0] - Math::low(low), s[n][1] - Math::high(low)));
      rest[n][1] = transpose(Math::pack(s[n][2] - Math::low(high), s[n][3] - Math::high(high)));
    }
  }
  return __any_sync(kAllLanes, changed);
}

// The warps' results merged into the split's: what it needs lies in `merge`. See SplitShape::kMergeBytes.
template <class Shape>
struct Merge {
  float* values;
  float2* pairs;   // {maximum, sum} [warp][column]
  float* weights;  // [warp][column]
  float2* merged;  // {maximum, sum} [column]

  __device__ explicit Merge(uint8_t* shared)
      : values(reinterpret_cast<float*>(shared)),
        pairs(reinterpret_cast<float2*>(values + Shape::kWarps * Shape::kColumns * Shape::kMergeStride)),
        weights(reinterpret_cast<float*>(pairs + Shape::kWarps * Shape::kColumns)),
        merged(reinterpret_cast<float2*>(weights + Shape::kWarps * Shape::kColumns)) {}

  __device__ float value(int column, int element) const {
    float sum = 0;
#pragma unroll
    for (int warp = 0; warp < Shape::kWarps; ++warp) {
      const int at = warp * Shape::kColumns + column;
      sum += weights[at] * values[at * Shape::kMergeStride + element];
    }
    return sum;
  }
};

template <class Shape, int kColumnTiles>
__device__ __forceinline__ void merge_warps(const SplitSoftmax<kColumnTiles>& state,
                                            const float (&o)[Shape::kSteps][kColumnTiles][4], int columns,
                                            const Merge<Shape>& merge) {
  using Value = typename Shape::Value;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int g = lane / 4;
#pragma unroll
  for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      float sum = state.sum[n][j];
#pragma unroll
      for (int step = 4; step < kWarp; step *= 2) sum += __shfl_xor_sync(kAllLanes, sum, step);
      const int at = warp * Shape::kColumns + n * 8 + lane % 4 * 2 + j;
      if (g == 0) merge.pairs[at] = make_float2(state.maximum[n][j], sum);
#pragma unroll
      for (int tile = 0; tile < Shape::kSteps; ++tile) {
#pragma unroll
        for (int upper = 0; upper < 2; ++upper) {
          merge.values[at * Shape::kMergeStride + element_of<Value>(tile, g, upper)] = o[tile][n][upper * 2 + j];
        }
      }
    }
  }
  __syncthreads();
  if (static_cast<int>(threadIdx.x) < columns) {
    const int column = static_cast<int>(threadIdx.x);
    float maximum = -INFINITY;
    float sum = 0;
    for (int i = 0; i < Shape::kWarps; ++i) {
      maximum = fmaxf(maximum, merge.pairs[i * Shape::kColumns + column].x);
    }
    for (int i = 0; i < Shape::kWarps; ++i) {
      const float2 pair = merge.pairs[i * Shape::kColumns + column];
      const float weight = pair.x == -INFINITY ? 0.0F : exp2f(pair.x - maximum);
      merge.weights[i * Shape::kColumns + column] = weight;
      sum += weight * pair.y;
    }
    merge.merged[column] = make_float2(maximum, sum);
  }
  __syncthreads();
}

__device__ __forceinline__ void write_column(const AttentionParams& p, const SplitWork& w, int column, int element,
                                             float value) {
  const int head = w.kv_head * p.group + w.first_head + column % w.heads;
  write_output(p, w.first_row + column / w.heads, head * p.value_size + element, value);
}

// Reads the partial results of all splits, in ascending order, and writes the rows. By the last block to finish.
template <class Shape, int kHead>
__device__ __forceinline__ void merge_splits(const AttentionParams& p, const SplitWork& w, const float* partials,
                                             int64_t stride, uint8_t* shared) {
  float2* pairs = reinterpret_cast<float2*>(shared);                                // [split][column]
  float* weights = reinterpret_cast<float*>(pairs + kMaxSplits * Shape::kColumns);  // the same
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < w.splits * w.columns; i += Shape::kThreads) {
    const float* from = partials + i / w.columns * stride + p.split_columns * kHead;
    pairs[i] = __ldcg(reinterpret_cast<const float2*>(from) + i % w.columns);
  }
  __syncthreads();
  if (thread < w.columns) {
    float maximum = -INFINITY;
    float sum = 0;
    for (int i = 0; i < w.splits; ++i) maximum = fmaxf(maximum, pairs[i * w.columns + thread].x);
    for (int i = 0; i < w.splits; ++i) {
      const float2 pair = pairs[i * w.columns + thread];
      const float weight = pair.x == -INFINITY ? 0.0F : exp2f(pair.x - maximum);
      weights[i * w.columns + thread] = weight;
      sum += weight * pair.y;
    }
    pairs[thread].y = 1.0F / sum;  // of split 0: read above by this thread only
  }
  __syncthreads();
  for (int i = thread; i < w.columns * kHead; i += Shape::kThreads) {
    const int column = i / kHead;
    float sum = 0;
#pragma unroll 8
    for (int split = 0; split < w.splits; ++split) {
      sum += weights[split * w.columns + column] * __ldcg(partials + split * stride + i);
    }
    write_column(p, w, column, i % kHead, sum * pairs[column].y);
  }
}

template <KvFormat kKey, KvFormat kValue, int kHead, int kColumnTiles>
__global__ void __launch_bounds__(128) split_kernel(const __grid_constant__ AttentionParams p) {
  using Shape = SplitShape<kKey, kValue, kHead, kColumnTiles>;
  using Key = typename Shape::Key;
  using Value = typename Shape::Value;
  extern __shared__ __align__(16) uint8_t shared[];
  allow_dependents();
  wait_for_dependencies();
  SplitWork w;
  if (!find_split(p, Shape::kColumns, w)) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  uint8_t* work = shared + Shape::kQueryBytes;
  uint8_t* ring = work + warp * Shape::kStages * Shape::kStageBytes;
  const uint32_t ring_address = shared_address(ring);

  int ids = 0;
  const auto position_of = [&](int page) { return (w.first_page + page) * static_cast<int>(kKvPageTokens) + warp * 16; };
  // Two groups of copies, keys and values; empty ones past the end.
  const auto copy_page = [&](int page) {
    const bool exists = page < w.pages;
    if (exists && page % kWarp == 0) ids = page + lane < w.pages ? w.table[w.first_page + page + lane] : 0;
    const int64_t id = __shfl_sync(kAllLanes, ids, page % kWarp);
    const int low = w.begin - position_of(page);
    const int high = w.end - position_of(page);
    const bool visible = exists && low < 16 && high > 0;
    const uint32_t to = ring_address + page % Shape::kStages * Shape::kStageBytes;
    if (visible) {
      copy_part<Key>(p.kv.k + id * p.kv.page_stride, kv_scales_offset(p.kv.kv_heads, kHead), w.kv_head, warp, low, high,
                     to);
    }
    commit_copies();
    if (visible) {
      copy_part<Value>(p.kv.v + id * p.kv.page_stride, kv_scales_offset(p.kv.kv_heads, kHead), w.kv_head, warp, low,
                       high, to + Key::kBytes);
    }
    commit_copies();
  };
#pragma unroll
  for (int page = 0; page < Shape::kStages - 1; ++page) copy_page(page);
  load_queries<Shape>(p, w, shared);
  __syncthreads();

  const int tiles = (w.columns + 7) / 8;
  SplitSoftmax<kColumnTiles> state;
  float o[Shape::kSteps][kColumnTiles][4];
#pragma unroll
  for (int n = 0; n < kColumnTiles; ++n) {
    state.maximum[n][0] = state.maximum[n][1] = -INFINITY;
    state.sum[n][0] = state.sum[n][1] = 0;
#pragma unroll
    for (int i = 0; i < Shape::kSteps; ++i) o[i][n][0] = o[i][n][1] = o[i][n][2] = o[i][n][3] = 0;
  }
  for (int page = 0; page < w.pages; ++page) {
    copy_page(page + Shape::kStages - 1);
    const int position = position_of(page);
    const int stage = page % Shape::kStages * Shape::kStageBytes;
    const bool visible = position < w.end && position + 16 > w.begin;
    wait_copies<2 * Shape::kStages - 1>();
    __syncwarp();
    float correction[kColumnTiles][2];
    uint32_t b[kColumnTiles][2];
    uint32_t rest[kColumnTiles][2];
    bool changed = false;
    if (visible) {
      float s[kColumnTiles][4];
      multiply_keys<Shape, kColumnTiles>(ring_address + stage, ring + stage + Key::kTokens * Key::kRowStride, shared,
                                         tiles, s);
      mask_scores(p, w, position, s);
      changed = update_softmax<Value, kColumnTiles>(s, state, tiles, correction, b, rest);
    }
    wait_copies<2 * Shape::kStages - 2>();
    __syncwarp();
    if (!visible) continue;
    if (changed) {
#pragma unroll
      for (int n = 0; n < kColumnTiles; ++n) {
        if (n >= tiles) break;
#pragma unroll
        for (int i = 0; i < Shape::kSteps; ++i) {
#pragma unroll
          for (int k = 0; k < 4; ++k) o[i][n][k] *= correction[n][k % 2];
        }
      }
    }
    const int values = stage + Key::kBytes;
    multiply_values<Shape, kColumnTiles>(ring_address + values, ring + values + Value::kTokens * Value::kRowStride, b,
                                         rest, tiles, o);
    __syncwarp();
  }
  wait_copies<0>();
  __syncthreads();
  const Merge<Shape> merge(work);
  merge_warps<Shape, kColumnTiles>(state, o, w.columns, merge);

  const int thread = static_cast<int>(threadIdx.x);
  if (w.splits == 1) {
    for (int i = thread; i < w.columns * kHead; i += Shape::kThreads) {
      write_column(p, w, i / kHead, i % kHead, merge.value(i / kHead, i % kHead) / merge.merged[i / kHead].y);
    }
    return;
  }
  const int64_t stride = static_cast<int64_t>(p.split_columns) * (kHead + 2);
  const int64_t cell = static_cast<int64_t>(blockIdx.z) * gridDim.x + blockIdx.x;
  float* partials = p.partials + cell * gridDim.y * stride;
  float* own = partials + blockIdx.y * stride;
  for (int i = thread; i < w.columns * kHead; i += Shape::kThreads) own[i] = merge.value(i / kHead, i % kHead);
  if (thread < w.columns) {
    reinterpret_cast<float2*>(own + p.split_columns * kHead)[thread] = merge.merged[thread];
  }
  __shared__ bool is_last;
  __threadfence();
  __syncthreads();
  if (thread == 0) {
    is_last = atomicAdd(p.counters + cell, 1U) == static_cast<unsigned>(w.splits - 1);
    if (is_last) p.counters[cell] = 0;  // for the next launch
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  merge_splits<Shape, kHead>(p, w, partials, stride, work);
}

template <KvFormat kKey, KvFormat kValue, int kHead>
void launch_split_head(const Queue& queue, const AttentionParams& params, const SplitGrid& grid) {
  constexpr int kWide = (kHead <= kWideHeadSize ? kWideColumns : kLargeHeadWideColumns) / 8;
  constexpr int kNarrow = kNarrowColumns / 8;
  const dim3 blocks(grid.head_chunks, grid.splits, grid.sequences);
  if (grid.wide) {
    using Shape = SplitShape<kKey, kValue, kHead, kWide>;
    launch_kernel(queue, "attention/split", {blocks, dim3(Shape::kThreads), Shape::kSharedBytes},
                  split_kernel<kKey, kValue, kHead, kWide>, params);
  } else {
    using Shape = SplitShape<kKey, kValue, kHead, kNarrow>;
    launch_kernel(queue, "attention/split", {blocks, dim3(Shape::kThreads), Shape::kSharedBytes},
                  split_kernel<kKey, kValue, kHead, kNarrow>, params);
  }
}

template <KvFormat kKey, KvFormat kValue>
bool launch_split(const Queue& queue, const AttentionParams& params, const SplitGrid& grid) {
  switch (params.key_size) {
    case 64:
      launch_split_head<kKey, kValue, 64>(queue, params, grid);
      return true;
    case 80:
      if constexpr (kKey != KvFormat::q8_0 && kValue != KvFormat::q8_0) {
        launch_split_head<kKey, kValue, 80>(queue, params, grid);
        return true;
      }
      return false;
    case 96:
      launch_split_head<kKey, kValue, 96>(queue, params, grid);
      return true;
    case 128:
      launch_split_head<kKey, kValue, 128>(queue, params, grid);
      return true;
    case 192:
      launch_split_head<kKey, kValue, 192>(queue, params, grid);
      return true;
    case 256:
      launch_split_head<kKey, kValue, 256>(queue, params, grid);
      return true;
    default:
      return false;
  }
}

}  // namespace minfer::cuda::attention
