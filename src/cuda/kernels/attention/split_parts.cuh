// The pieces of the split kernel (split.cuh) that a warp does by itself: copies of its 16 tokens of a page to shared
// memory, scores, softmax, output. Layouts: mma.cuh.
#pragma once

#include <algorithm>

#include "cuda/kernels/attention/mma.cuh"
#include "cuda/kernels/attention/output.cuh"
#include "cuda/launch/attention_limits.hpp"
#include "cuda/launch/attention_params.hpp"

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
  // One token's row with its scales behind, in 16-byte pieces.
  static constexpr int kFreshBytes = kRowBytes + (kBlocks * 2 + 15) / 16 * 16;
  using Math = std::conditional_t<kFormat == KvFormat::bf16, Bfloat, Half>;
};

template <KvFormat kKey, KvFormat kValue, int kHead, int kColumnTiles>
struct SplitShape {
  using Key = SplitPart<kKey, kHead>;
  using Value = SplitPart<kValue, kHead>;
  static constexpr int kHeadSize = kHead;
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
  static constexpr int kFreshAt = kQueryBytes + kPairBytes + kRingBytes;
  static constexpr int kFreshBytes = (kWarps + 2) * kHead * 4 + Key::kFreshBytes + Value::kFreshBytes;  // fresh.cuh
  static constexpr int kSharedBytes = kFreshAt + kFreshBytes;
  static_assert(8 * kMergeStride * 4 <= kStageBytes);
};

// Blocks with the same place in their row of KV heads stand side by side; the last few of a grid may have no place.
__device__ __forceinline__ int own_head(const AttentionParams& p) {
  return static_cast<int>(blockIdx.x % static_cast<unsigned>(p.kv.kv_heads));
}

// One unit of work of the block's KV head (own_head), as all threads read it from shared memory. Its columns are
// pairs of a row and a query head: column i is row i / group, head i % group.
struct SplitUnit {
  int exists;
  int sequence, chunk;  // chunk: of the columns of all KV heads
  int first_column, columns;
  int split, splits;
  int table, pages;                           // pages[table ..] are its pages
  int position;                               // of its first token
  int first_row, first_position, begin, end;  // of the sequence; positions [begin, end) are visible to some row
};

// The queries as B fragments [column tile][step][lane], scaled; two parts: the rest behind.
template <class Shape>
__device__ __forceinline__ void load_queries(const AttentionParams& p, const SplitUnit& w, uint8_t* shared) {
  using Key = typename Shape::Key;
  using Math = typename Key::Math;
  constexpr int kPairs = Shape::kColumns * 4 * Shape::kSteps;
  constexpr int kLoads = (kPairs + Shape::kThreads - 1) / Shape::kThreads;
  // Loads of a batch first: each waits for memory. Columns that are none read the first's.
  constexpr int kBatch = kLoads % 4 == 0 ? 4 : kLoads % 3 == 0 ? 3 : kLoads % 2 == 0 ? 2 : 1;
  for (int first = 0; first < kLoads; first += kBatch) {
    float2 low[kBatch];
    float2 high[kBatch];
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const int i = static_cast<int>(threadIdx.x) + (first + k) * Shape::kThreads;
      const int of_tile = i / (kWarp * Shape::kSteps) * 8 + i % kWarp / 4;
      const int column = w.first_column + (of_tile < w.columns ? of_tile : 0);
      const int row = column / p.group;
      const int head = own_head(p) * p.group + column - row * p.group;
      const float* q = p.q + (w.first_row + row) * p.q_stride + head * p.key_size + i / kWarp % Shape::kSteps * 16;
      // 8-bit keys come as 4 neighbours a lane: the same order of products for q.
      low[k] = *reinterpret_cast<const float2*>(q + (Key::kQuantized ? 4 * (i % 4) : 2 * (i % 4)));
      high[k] = *reinterpret_cast<const float2*>(q + (Key::kQuantized ? 4 * (i % 4) + 2 : 2 * (i % 4) + 8));
    }
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const int i = static_cast<int>(threadIdx.x) + (first + k) * Shape::kThreads;
      if (kPairs % Shape::kThreads != 0 && i >= kPairs) break;
      const bool exists = i / (kWarp * Shape::kSteps) * 8 + i % kWarp / 4 < w.columns;
      const float factor = exists ? p.query_factor : 0.0F;
      const float x[4] = {low[k].x * factor, low[k].y * factor, high[k].x * factor, high[k].y * factor};
      const uint2 pair = make_uint2(Math::pack(x[0], x[1]), Math::pack(x[2], x[3]));
      reinterpret_cast<uint2*>(shared)[i] = pair;
      if constexpr (Key::kTwoParts) {
        reinterpret_cast<uint2*>(shared + Shape::kQueryPart)[i] =
            make_uint2(Math::pack(x[0] - Math::low(pair.x), x[1] - Math::high(pair.x)),
                       Math::pack(x[2] - Math::low(pair.y), x[3] - Math::high(pair.y)));
      }
    }
  }
}

// A warp's 16 tokens of a page's part; tokens outside [low, high) become zeros.
template <class Part>
__device__ __forceinline__ void copy_part(const std::byte* part, int64_t scales_offset, int kv_head, int slice, int low,
                                          int high, uint32_t to) {
  const unsigned lane = threadIdx.x % kWarp;
  const int first = kv_head * static_cast<int>(kKvPageTokens) + slice * Part::kTokens;
  const std::byte* from = part + static_cast<int64_t>(first) * Part::kRowBytes + lane * 16;
  const bool whole = low <= 0 && high >= Part::kTokens;
#pragma unroll
  for (int k = 0; k < Part::kTokens * Part::kPieces / kWarp; ++k) {
    const unsigned i = lane + k * kWarp;
    const int token = static_cast<int>(i / Part::kPieces);
    copy_async(to + token * Part::kRowStride + i % Part::kPieces * 16, from + k * kWarp * 16,
               whole || (token >= low && token < high) ? 16 : 0);
  }
  if constexpr (Part::kQuantized) {
    if (lane * 16 < Part::kScaleBytes) {
      const std::byte* scales = part + scales_offset + static_cast<int64_t>(first) * Part::kBlocks * 2;
      const int bytes = min(max(high * Part::kBlocks * 2 - static_cast<int>(lane) * 16, 0), 16);
      copy_async(to + Part::kTokens * Part::kRowStride + lane * 16, scales + lane * 16, bytes);
    }
  }
}

// s[column tile] = K Q^T of the warp's 16 tokens.
template <class Shape, int kColumnTiles>
__device__ __forceinline__ void multiply_keys(uint32_t keys, const uint8_t* key_scales, const uint8_t* queries,
                                              float (&s)[kColumnTiles][4]) {
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
    // Two chains of products: half the latency.
    float odd[kColumnTiles][4] = {};
#pragma unroll
    for (int step = 0; step < Shape::kSteps; ++step) {
      uint32_t a[4];
      load_matrices(a, at + step * 32);
#pragma unroll
      for (int n = 0; n < kColumnTiles; ++n) {
        const uint2 b = q[(n * Shape::kSteps + step) * kWarp];
        float(&sum)[4] = kColumnTiles == 1 && step % 2 != 0 ? odd[n] : s[n];
        Math::multiply(sum, a, b.x, b.y);
        if constexpr (Key::kTwoParts) {
          const uint2 rest = q[Shape::kQueryPart / 8 + (n * Shape::kSteps + step) * kWarp];
          Math::multiply(sum, a, rest.x, rest.y);
        }
      }
    }
    if constexpr (kColumnTiles == 1) {
#pragma unroll
      for (int i = 0; i < 4; ++i) s[0][i] += odd[0][i];
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
                                                const uint32_t (&rest)[kColumnTiles][2],
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
__device__ __forceinline__ void mask_scores(const AttentionParams& p, const SplitUnit& w, int first_token,
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
      const int last = w.first_position + (w.first_column + n * 8 + lane % 4 * 2 + i % 2) / p.group;
      const int token = first_token + lane / 4 + i / 2 * 8;
      // Columns that are none (beyond the last) see what the last row sees.
      const int capped_last = min(last, w.end - 1);
      const bool seen = token <= capped_last && (p.window == 0 || token > capped_last - p.window);
      if (!seen) s[n][i] = -INFINITY;
    }
  }
}

// Scores to probabilities as B fragments; returns whether the sums so far must be scaled by `correction`.
template <class Value, int kColumnTiles>
__device__ __forceinline__ bool update_softmax(float (&s)[kColumnTiles][4], SplitSoftmax<kColumnTiles>& state,
                                               float (&correction)[kColumnTiles][2], uint32_t (&b)[kColumnTiles][2],
                                               uint32_t (&rest)[kColumnTiles][2]) {
  using Math = typename Value::Math;
  bool changed = false;
#pragma unroll
  for (int n = 0; n < kColumnTiles; ++n) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      float top = fmaxf(s[n][j], s[n][j + 2]);
#pragma unroll
      for (int step = 4; step < kWarp; step *= 2) top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, step));
      const float before = state.maximum[n][j];
      const float maximum = fmaxf(before, top);
      const float base = maximum == -INFINITY ? 0.0F : maximum;
      correction[n][j] = power_of_two(before - base);
      changed = changed || maximum != before;
      s[n][j] = power_of_two(s[n][j] - base);
      s[n][j + 2] = power_of_two(s[n][j + 2] - base);
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

}  // namespace minfer::cuda::attention
