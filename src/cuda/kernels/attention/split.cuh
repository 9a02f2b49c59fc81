// Attention of few query rows over a long cache: decode, and sequences with a few rows in a mixed step.
//
// A unit of work is one sequence, one KV head (with all its query heads: the columns) and one split of the visible
// pages. The units of a step lie behind one another, by sequence, head, split; each block takes an equal share of their
// pages, rounded to units, and streams through it without a pause at their borders. A block's 4 warps are independent
// of one another inside a unit: each copies 16 of a page's 64 tokens into its own ring of shared memory and computes
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
  static constexpr int kColumns = kColumnTiles * 8;
  static constexpr int kSteps = kHead / 16;
  static constexpr int kStageBytes = Key::kBytes + Value::kBytes;
  static constexpr int kQueryPart = kColumnTiles * kSteps * kWarp * 8;
  static constexpr int kQueryBytes = kQueryPart * (Key::kTwoParts ? 2 : 1);
  // Two blocks of a multiprocessor, or three, keep enough bytes under way; one must where heads are large.
  static constexpr int kAllWarps = kWarps * kStageBytes;
  static constexpr int kStages = kAllWarps * 4 <= 74 * 1024 ? 4 : kAllWarps * 3 <= 208 * 1024 ? 3 : 2;
  // Merging uses the stage of its ring that a warp has just consumed, 8 columns at a time.
  static constexpr int kMergeStride = kHead + 4;  // floats; spreads the columns over the banks
  static constexpr int kPairBytes = kWarps * kColumns * 8;
  static constexpr int kRingBytes = kWarps * kStages * kStageBytes;
  static constexpr int kSharedBytes = kQueryBytes + kPairBytes + kRingBytes;
  static_assert(8 * kMergeStride * 4 <= kStageBytes);
};

// A sequence as it is split.
struct SplitSequence {
  int pages, each, splits;  // visible pages, of a split (the last may have fewer), 0: not this kernel's
  int first_page;           // visible, in the sequence's table
  int table;                // of pages, in the step's
  int first_row, rows, first_position, begin, end;  // positions [begin, end) are visible to some row
};

__device__ __forceinline__ SplitSequence split_sequence(const AttentionParams& p, int sequence) {
  constexpr int kPage = static_cast<int>(kKvPageTokens);
  const SequenceInfo info = p.sequences[sequence];
  SplitSequence s{};
  if (info.rows == 0 || info.rows > p.split_rows) return s;
  s.first_row = info.first_row;
  s.rows = info.rows;
  s.first_position = info.first_position;
  s.end = info.first_position + info.rows;
  s.begin = p.window > 0 ? max(0, info.first_position + 1 - p.window) : 0;
  s.table = info.first_page;
  s.first_page = s.begin / kPage;
  s.pages = (s.end + kPage - 1) / kPage - s.first_page;
  s.each = split_pages(s.pages, p.split_limit);
  s.splits = s.each <= 2 ? (s.pages + s.each - 1) >> (s.each - 1) : (s.pages + s.each - 1) / s.each;
  return s;
}

// One unit of a block's share.
struct SplitUnit {
  SplitSequence sequence;
  int index;  // of the sequence
  int chunk;  // of query heads
  int split;
  int base;   // pages before this sequence
  int limit;  // where the block's share ends, in pages of the step
  bool exists;

  __device__ __forceinline__ int first_page() const { return sequence.first_page + split * sequence.each; }
  __device__ __forceinline__ int pages() const { return min(sequence.each, sequence.pages - split * sequence.each); }
  __device__ __forceinline__ int start() const { return base + chunk * sequence.pages + split * sequence.each; }
};

// To the next sequence that is split, if the unit is past its last head.
__device__ __forceinline__ void settle_unit(const AttentionParams& p, SplitUnit& u) {
  if (u.split == u.sequence.splits) {
    u.split = 0;
    ++u.chunk;
  }
  if (u.chunk == p.head_chunks) {
    u.chunk = 0;
    u.base += p.head_chunks * u.sequence.pages;
    do {
      ++u.index;
      if (u.index == p.sequence_count) break;
      u.sequence = split_sequence(p, u.index);
    } while (u.sequence.pages == 0);
  }
  u.exists = u.index < p.sequence_count && u.start() < u.limit;
}

// The first unit of the block's share. Every warp finds it by itself.
__device__ __forceinline__ SplitUnit first_unit(const AttentionParams& p) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  int total = 0;
  for (int base = 0; base < p.sequence_count; base += kWarp) {
    const int pages = base + lane < p.sequence_count ? split_sequence(p, base + lane).pages : 0;
    total += __reduce_add_sync(kAllLanes, pages);
  }
  const int share = (total * p.head_chunks + static_cast<int>(gridDim.x) - 1) / static_cast<int>(gridDim.x);
  const int first = static_cast<int>(blockIdx.x) * share;
  SplitUnit u{};
  u.limit = min(first + share, total * p.head_chunks);
  if (first >= u.limit) return u;
  for (int base = 0; base < p.sequence_count; base += kWarp) {
    const int pages = p.head_chunks * (base + lane < p.sequence_count ? split_sequence(p, base + lane).pages : 0);
    int through = pages;
#pragma unroll
    for (int step = 1; step < kWarp; step *= 2) {
      const int other = __shfl_up_sync(kAllLanes, through, step);
      if (lane >= step) through += other;
    }
    const unsigned beyond = __ballot_sync(kAllLanes, u.base + through > first);
    if (beyond == 0) {
      u.base += __shfl_sync(kAllLanes, through, kWarp - 1);
      continue;
    }
    const int owner = __ffs(static_cast<int>(beyond)) - 1;
    u.index = base + owner;
    u.base += __shfl_sync(kAllLanes, through - pages, owner);
    break;
  }
  u.sequence = split_sequence(p, u.index);
  u.chunk = (first - u.base) / u.sequence.pages;
  const int offset = first - u.base - u.chunk * u.sequence.pages;
  u.split = u.sequence.each == 1 ? offset : (offset + u.sequence.each - 1) / u.sequence.each;
  settle_unit(p, u);
  return u;
}

// The columns of a unit: (row, query head) pairs.
struct SplitColumns {
  int kv_head, first_head, heads, count;

  __device__ __forceinline__ SplitColumns(const AttentionParams& p, const SplitUnit& u, int limit) {
    const int chunks = p.head_chunks / static_cast<int>(p.kv.kv_heads);
    kv_head = u.chunk / chunks;
    const int first = u.chunk % chunks * limit;
    heads = min(limit, p.group - first);
    first_head = kv_head * p.group + first;
    count = u.sequence.rows * heads;
  }
};

// The queries as B fragments [column tile][step][lane], scaled; two parts: the rest behind.
template <class Shape>
__device__ __forceinline__ void load_queries(const AttentionParams& p, const SplitSequence& w,
                                             const SplitColumns& columns, uint8_t* shared) {
  using Key = typename Shape::Key;
  using Math = typename Key::Math;
  for (int i = static_cast<int>(threadIdx.x); i < Shape::kColumns * 4 * Shape::kSteps; i += Shape::kThreads) {
    const int t = i % 4;
    const int column = i / (kWarp * Shape::kSteps) * 8 + i % kWarp / 4;
    const int step = i / kWarp % Shape::kSteps;
    float x[4] = {0, 0, 0, 0};
    if (column < columns.count) {
      const int head = columns.first_head + column % columns.heads;
      const float* q = p.q + (w.first_row + column / columns.heads) * p.q_stride + head * p.key_size + step * 16;
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
__device__ __forceinline__ void copy_part(const std::byte* part, int64_t scales_offset, int kv_head, int slice, int low,
                                          int high, uint32_t to) {
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
__device__ __forceinline__ void mask_scores(const AttentionParams& p, const SplitSequence& w, int heads,
                                            int first_token, float (&s)[kColumnTiles][4]) {
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
      const int last = w.first_position + (n * 8 + lane % 4 * 2 + i % 2) / heads;
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

// Where four elements of a column go in the output; all lanes of a warp call.
__device__ __forceinline__ void write_column(const AttentionParams& p, const SplitSequence& w,
                                             const SplitColumns& columns, int column, int element, float4 x) {
  const int head = columns.first_head + column % columns.heads;
  write_output(p, column < columns.count, w.first_row + column / columns.heads, head * p.value_size + element, x);
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
  return x == -INFINITY ? 0.0F : exp2f(x - maximum);
}

// Merges the warps' results of a unit. `stages`: a piece of shared memory of each warp, kStages * kStageBytes apart.
// The only split of its sequence is written out, another one to scratch: `partial`.
template <class Shape, int kHead, int kColumnTiles>
__device__ __forceinline__ void merge_warps(const AttentionParams& p, const SplitUnit& u, const SplitColumns& columns,
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
    if (n * 8 >= columns.count) break;
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
    const int fours = min(columns.count - n * 8, 8) * (kHead / 4);
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
      if (u.sequence.splits == 1) {
        write_column(p, u.sequence, columns, column, element, scaled(x, 1.0F / sum));
      } else if (i < fours) {
        *reinterpret_cast<float4*>(partial + column * kHead + element) = x;
        if (element == 0) {
          reinterpret_cast<float2*>(partial + p.split_columns * kHead)[column] = make_float2(maximum, sum);
        }
      }
    }
    __syncthreads();
  }
}

// Reads the partial results of all splits, in ascending order, and writes the rows. By the last block to finish. The
// loads of a batch are under way together: this is a step that the whole launch waits for.
template <class Shape, int kHead>
__device__ __forceinline__ void merge_splits(const AttentionParams& p, const SplitUnit& u, const SplitColumns& columns,
                                             const float* partials, int64_t stride) {
  constexpr int kBatch = 16;
  const int fours = columns.count * (kHead / 4);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  for (int base = 0; base + warp * kWarp < fours; base += Shape::kThreads) {
    const int i = base + static_cast<int>(threadIdx.x);
    const int at = min(i, fours - 1);
    const int column = at / (kHead / 4);
    float maximum = -INFINITY;
    float sum = 0;
    float4 x = make_float4(0, 0, 0, 0);
    for (int first = 0; first < u.sequence.splits; first += kBatch) {
      const float* from = partials + first * stride;
      float2 pair[kBatch];
      float4 value[kBatch];
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        const bool exists = first + k < u.sequence.splits;
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
    write_column(p, u.sequence, columns, i / (kHead / 4), i % (kHead / 4) * 4, scaled(x, 1.0F / sum));
  }
}

// Tells that `done` splits of the unit's sequence and head are in scratch; true in the block that completes them, which
// then sees all. Resets the counter for the next launch.
__device__ __forceinline__ bool completes(const AttentionParams& p, const SplitUnit& u, int done) {
  __shared__ bool is_last;
  if (done == u.sequence.splits) return true;  // its own, written before merge_warps' last barrier
  if (threadIdx.x == 0) {
    unsigned* counter = p.counters + u.index * p.head_chunks + u.chunk;
    unsigned before;
    // Releases what the block wrote, which the barrier before has ordered, and acquires what the others did.
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(counter), "r"(static_cast<unsigned>(done))
                 : "memory");
    is_last = before + static_cast<unsigned>(done) == static_cast<unsigned>(u.sequence.splits);
    if (is_last) *counter = 0;
  }
  __syncthreads();
  return is_last;
}

// The copies of a warp, running ahead of its products by kStages - 1 pages.
template <class Shape, int kHead>
struct SplitCopier {
  SplitUnit unit;
  int page = 0;    // of the unit
  int copied = 0;  // pages so far
  int ids = 0;     // lane i has the id of page ids_base + i of the table
  int ids_base = 0;
  int ids_index = -1;

  // Two groups of copies, keys and values; empty ones past the end.
  __device__ __forceinline__ void copy_page(const AttentionParams& p, uint32_t ring) {
    using Key = typename Shape::Key;
    using Value = typename Shape::Value;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    if (!unit.exists) {
      commit_copies();
      commit_copies();
      return;
    }
    const SplitSequence& w = unit.sequence;
    const int index = unit.first_page() + page;
    if (ids_index != unit.index || index < ids_base || index >= ids_base + kWarp) {
      ids_index = unit.index;
      ids_base = index;
      ids = index + lane < w.first_page + w.pages ? p.pages[w.table + index + lane] : 0;
    }
    const int64_t id = __shfl_sync(kAllLanes, ids, index - ids_base);
    const int position = index * static_cast<int>(kKvPageTokens) + warp * 16;
    const int low = w.begin - position;
    const int high = w.end - position;
    const bool visible = low < 16 && high > 0;
    const int kv_head = unit.chunk / (p.head_chunks / static_cast<int>(p.kv.kv_heads));
    const int64_t scales = kv_scales_offset(p.kv.kv_heads, kHead);
    const uint32_t to = ring + copied % Shape::kStages * Shape::kStageBytes;
    if (visible) copy_part<Key>(p.kv.k + id * p.kv.page_stride, scales, kv_head, warp, low, high, to);
    commit_copies();
    if (visible) copy_part<Value>(p.kv.v + id * p.kv.page_stride, scales, kv_head, warp, low, high, to + Key::kBytes);
    commit_copies();
    ++copied;
    if (++page == unit.pages()) {
      page = 0;
      ++unit.split;
      settle_unit(p, unit);
    }
  }
};

// A warp's part of one page: scores, softmax, output. Its copies are the oldest two groups but kStages - 1 pages.
template <class Shape, int kColumnTiles>
__device__ __forceinline__ void attend_page(const AttentionParams& p, const SplitSequence& w,
                                            const SplitColumns& columns, int position, const uint8_t* queries,
                                            const uint8_t* stage, SplitSoftmax<kColumnTiles>& state,
                                            float (&o)[Shape::kSteps][kColumnTiles][4]) {
  using Key = typename Shape::Key;
  using Value = typename Shape::Value;
  const uint32_t address = shared_address(stage);
  const int tiles = (columns.count + 7) / 8;
  const bool visible = position < w.end && position + 16 > w.begin;
  float correction[kColumnTiles][2];
  uint32_t b[kColumnTiles][2];
  uint32_t rest[kColumnTiles][2];
  bool changed = false;
  wait_copies<2 * Shape::kStages - 1>();
  __syncwarp();
  if (visible) {
    float s[kColumnTiles][4];
    multiply_keys<Shape, kColumnTiles>(address, stage + Key::kTokens * Key::kRowStride, queries, tiles, s);
    mask_scores(p, w, columns.heads, position, s);
    changed = update_softmax<Value, kColumnTiles>(s, state, tiles, correction, b, rest);
  }
  wait_copies<2 * Shape::kStages - 2>();
  __syncwarp();
  if (!visible) return;
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
  multiply_values<Shape, kColumnTiles>(address + Key::kBytes, stage + Key::kBytes + Value::kTokens * Value::kRowStride,
                                       b, rest, tiles, o);
  __syncwarp();
}

template <KvFormat kKey, KvFormat kValue, int kHead, int kColumnTiles>
__global__ void __launch_bounds__(128) split_kernel(const __grid_constant__ AttentionParams p) {
  using Shape = SplitShape<kKey, kValue, kHead, kColumnTiles>;
  extern __shared__ __align__(16) uint8_t shared[];
  allow_dependents();
  wait_for_dependencies();
  SplitUnit unit = first_unit(p);
  if (!unit.exists) return;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  float2* pairs = reinterpret_cast<float2*>(shared + Shape::kQueryBytes);
  uint8_t* rings = shared + Shape::kQueryBytes + Shape::kPairBytes;
  uint8_t* ring = rings + warp * Shape::kStages * Shape::kStageBytes;
  SplitCopier<Shape, kHead> copier{unit};
#pragma unroll
  for (int i = 0; i < Shape::kStages - 1; ++i) copier.copy_page(p, shared_address(ring));
  const int64_t stride = partial_floats(p.split_columns, kHead);
  int consumed = 0;  // pages
  int done = 0;      // splits of the sequence and head
  while (unit.exists) {
    const SplitColumns columns(p, unit, Shape::kColumns);
    if (done == 0) {
      load_queries<Shape>(p, unit.sequence, columns, shared);
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
    for (int page = 0; page < unit.pages(); ++page) {
      copier.copy_page(p, shared_address(ring));
      const int position = (unit.first_page() + page) * static_cast<int>(kKvPageTokens) + warp * 16;
      attend_page<Shape, kColumnTiles>(p, unit.sequence, columns, position, shared,
                                       ring + consumed % Shape::kStages * Shape::kStageBytes, state, o);
      ++consumed;
    }
    uint8_t* stages = rings + (consumed - 1) % Shape::kStages * Shape::kStageBytes;
    const int64_t cell = static_cast<int64_t>(unit.index) * p.head_chunks + unit.chunk;
    float* partials = p.partials + cell * p.split_stride * stride;
    merge_warps<Shape, kHead, kColumnTiles>(p, unit, columns, state, o, stages, pairs, partials + unit.split * stride);
    ++done;
    SplitUnit next = unit;
    ++next.split;
    settle_unit(p, next);
    if (!next.exists || next.index != unit.index || next.chunk != unit.chunk) {
      if (unit.sequence.splits > 1 && completes(p, unit, done)) {
        merge_splits<Shape, kHead>(p, unit, columns, partials, stride);
      }
      done = 0;
    }
    unit = next;
  }
}

// As many blocks as the card holds at once, but not more than there can be units.
template <class Shape>
dim3 split_blocks(const Queue& queue, const SplitGrid& grid) {
  const int64_t resident = queue.capabilities->shared_bytes_per_multiprocessor / (Shape::kSharedBytes + 1024);
  const int64_t blocks = std::clamp<int64_t>(resident, 1, 3) * queue.capabilities->multiprocessors;
  return dim3(static_cast<unsigned>(std::min(blocks, grid.units)));
}

template <KvFormat kKey, KvFormat kValue, int kHead>
void launch_split_head(const Queue& queue, const AttentionParams& params, const SplitGrid& grid) {
  constexpr int kWide = (kHead <= kWideHeadSize ? kWideColumns : kLargeHeadWideColumns) / 8;
  constexpr int kNarrow = kNarrowColumns / 8;
  if (grid.wide) {
    using Shape = SplitShape<kKey, kValue, kHead, kWide>;
    launch_kernel(queue, "attention/split",
                  {split_blocks<Shape>(queue, grid), dim3(Shape::kThreads), Shape::kSharedBytes},
                  split_kernel<kKey, kValue, kHead, kWide>, params);
  } else {
    using Shape = SplitShape<kKey, kValue, kHead, kNarrow>;
    launch_kernel(queue, "attention/split",
                  {split_blocks<Shape>(queue, grid), dim3(Shape::kThreads), Shape::kSharedBytes},
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
