// Attention of many query rows: prompts, and their chunks behind earlier pages. A block takes one KV head and one tile
// of a sequence's rows, with all query heads of that KV head: the tile's rows are (row, head) pairs, so that keys and
// values are read once for a group. It goes through the visible pages, one at a time:
//   S = Q K^T (rows x 64 tokens),  online softmax,  O += P V (rows x head size)
// with 16-bit tensor cores and float accumulators (FlashAttention-2: Dao 2023). Each warp has its own rows. While the
// scores are computed the page's values are copied, while the output is computed the next page's keys.
//
// Tiles never span sequences. The grid is a capacity: a block finds its sequence by counting tiles. Within a sequence
// the last tiles, which see most, start first. Sequences of few rows belong to the split kernel (split.cuh).
//
// Precision: keys and values in f16 or bf16 as they are, q8_0 as f16; queries and probabilities rounded to the same.
#pragma once

#include "cuda/kernels/attention/mma.cuh"
#include "cuda/kernels/attention/output.cuh"
#include "cuda/kernels/common/chain.cuh"
#include "cuda/launch/attention_limits.hpp"
#include "cuda/launch/attention_params.hpp"

namespace minfer::cuda::attention {

using graph::KvFormat;

template <KvFormat kFormat, int kHead>
struct TileShape {
  static constexpr bool kQuantized = kFormat == KvFormat::q8_0;
  using Math = std::conditional_t<kFormat == KvFormat::bf16, Bfloat, Half>;
  static constexpr int kWarps = 4;
  static constexpr int kThreads = kWarps * kWarp;
  static constexpr int kRowTiles = kHead <= kWideHeadSize ? 2 : 1;  // of 16 rows, a warp
  static constexpr int kRows = kWarps * kRowTiles * 16;
  static constexpr int kTokens = static_cast<int>(kKvPageTokens);
  static constexpr int kTokenTiles = kTokens / 8;
  static constexpr int kSteps = kHead / 16;
  static constexpr int kPieces = kHead / 8;       // of 16 bytes in a row
  static constexpr int kStride = kHead * 2 + 16;  // bytes; an odd number of pieces: no bank conflicts
  static constexpr int kBlocks = kHead / 32;
  static constexpr int kQueryBytes = kRows * kStride;
  static constexpr int kPageBytes = kTokens * kStride;
  static constexpr int kQuantBytes = kQuantized ? kTokens * kHead : 0;  // as they are in the cache, before the scales
  static constexpr int kScaleBytes = kQuantized ? kTokens * kBlocks * 2 : 0;
  static constexpr int kSharedBytes = kQueryBytes + 2 * kPageBytes + kQuantBytes + kScaleBytes;

  // Where a row's 16-byte piece is, in a matrix of `rows` rows in shared memory.
  __device__ static __forceinline__ int place(int /*rows*/, int row, int piece) { return row * kStride + piece * 16; }
};
static_assert(TileShape<KvFormat::f16, 128>::kRows == kTileRows);
static_assert(TileShape<KvFormat::f16, 256>::kRows == kLargeHeadTileRows);

struct TileWork {
  int first_row;       // of the tile, in the step
  int rows;            // query rows of the tile
  int first_position;  // of the first row
  int begin, end;      // positions [begin, end) are visible to some row
  const int32_t* table;
};

// The tile blockIdx.y of the step; false: there are fewer. Every warp finds it by itself.
__device__ __forceinline__ bool find_tile(const AttentionParams& p, int tile_rows, TileWork& w) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  int left = static_cast<int>(blockIdx.y);
  for (int base = 0; base < p.sequence_count; base += kWarp) {
    SequenceInfo info{};
    if (base + lane < p.sequence_count) info = p.sequences[base + lane];
    const int tiles = info.rows > p.split_rows ? (info.rows + tile_rows - 1) / tile_rows : 0;
    int before = tiles;  // inclusive sum
#pragma unroll
    for (int step = 1; step < kWarp; step *= 2) {
      const int other = __shfl_up_sync(kAllLanes, before, step);
      if (lane >= step) before += other;
    }
    const unsigned beyond = __ballot_sync(kAllLanes, before > left);
    if (beyond == 0) {
      left -= __shfl_sync(kAllLanes, before, kWarp - 1);
      continue;
    }
    const int owner = __ffs(static_cast<int>(beyond)) - 1;
    const int tile = __shfl_sync(kAllLanes, before, owner) - 1 - left;  // the last one first
    const int sequence_rows = __shfl_sync(kAllLanes, info.rows, owner);
    const int row = tile * tile_rows;
    w.first_row = __shfl_sync(kAllLanes, info.first_row, owner) + row;
    w.rows = min(tile_rows, sequence_rows - row);
    w.first_position = __shfl_sync(kAllLanes, info.first_position, owner) + row;
    w.begin = p.window > 0 ? max(0, w.first_position + 1 - p.window) : 0;
    w.end = w.first_position + w.rows;
    w.table = p.pages + __shfl_sync(kAllLanes, info.first_page, owner);
    return true;
  }
  return false;
}

// Rows [first, first + kCount) of the tile's queries, scaled and rounded, by kThreads threads. Rows beyond the tile are
// zeros.
template <class Shape, int kHead, int kCount, int kThreads>
__device__ __forceinline__ void load_tile_queries(const AttentionParams& p, const TileWork& w, int kv_head, int first,
                                                  int thread, uint8_t* shared) {
  using Math = typename Shape::Math;
  static_assert(kCount * Shape::kPieces % kThreads == 0);
#pragma unroll 8
  for (int k = 0; k < kCount * Shape::kPieces / kThreads; ++k) {
    const unsigned i = static_cast<unsigned>(thread) + k * kThreads;
    const int m = first + static_cast<int>(i / Shape::kPieces);
    const int piece = static_cast<int>(i % Shape::kPieces);
    uint4 packed = make_uint4(0, 0, 0, 0);
    if (m < w.rows * p.group) {
      const float4* q = reinterpret_cast<const float4*>(p.q + (w.first_row + m / p.group) * p.q_stride +
                                                        (kv_head * p.group + m % p.group) * kHead + piece * 8);
      const float f = p.query_factor;
      const float4 a = q[0];
      const float4 b = q[1];
      packed = make_uint4(Math::pack(a.x * f, a.y * f), Math::pack(a.z * f, a.w * f), Math::pack(b.x * f, b.y * f),
                          Math::pack(b.z * f, b.w * f));
    }
    *reinterpret_cast<uint4*>(shared + Shape::place(Shape::kRows, m, piece)) = packed;
  }
}

// Rows of a tile that are computed together, and what they see.
struct TileRows {
  bool exist;
  int first, last;  // their positions

  __device__ __forceinline__ TileRows(const AttentionParams& p, const TileWork& w, int row, int count)
      : exist(row < w.rows * p.group),
        first(w.first_position + row / p.group),
        last(min(w.first_position + (row + count - 1) / p.group, w.end - 1)) {}
  // Whether one sees some token of the page from `position`.
  __device__ __forceinline__ bool see(const AttentionParams& p, int position) const {
    return exist && position <= last &&
           (p.window == 0 || position + static_cast<int>(kKvPageTokens) > first + 1 - p.window);
  }
};

// Starts the copy of a page's K or V of one head by kThreads threads. Tokens that no row sees become zeros. q8_0: as it
// is, to `quants`.
template <class Shape, int kHead, int kThreads>
__device__ __forceinline__ void copy_tile_page(const AttentionParams& p, const std::byte* part, const TileWork& w,
                                               int kv_head, int page, int thread, uint32_t to, uint32_t quants) {
  constexpr int kRowBytes = kHead * (Shape::kQuantized ? 1 : 2);
  constexpr int kPieces = kRowBytes / 16;
  constexpr int kCopies = Shape::kTokens * kPieces;
  const int low = w.begin - page * Shape::kTokens;
  const int high = w.end - page * Shape::kTokens;
  part += w.table[page] * p.kv.page_stride;
  const std::byte* from = part + static_cast<int64_t>(kv_head) * Shape::kTokens * kRowBytes;
#pragma unroll 4
  for (int k = 0; k < (kCopies + kThreads - 1) / kThreads; ++k) {
    // Unsigned: what differs between the copies is then a constant.
    const unsigned i = static_cast<unsigned>(thread) + k * kThreads;
    if (kCopies % kThreads != 0 && i >= kCopies) break;
    const int token = static_cast<int>(i / kPieces);
    const int piece = static_cast<int>(i % kPieces);
    copy_async(Shape::kQuantized ? quants + i * 16 : to + Shape::place(Shape::kTokens, token, piece), from + i * 16,
               token >= low && token < high ? 16 : 0);
  }
  if constexpr (Shape::kQuantized) {
    const std::byte* scales = part + kv_scales_offset(p.kv.kv_heads, kHead) + kv_head * Shape::kScaleBytes;
    const int at = thread * 16;
    if (at < Shape::kScaleBytes) {
      copy_async(quants + Shape::kQuantBytes + at, scales + at, min(max(high * Shape::kBlocks * 2 - at, 0), 16));
    }
  }
}

// The copied quants as f16 to `page`.
template <class Shape, int kHead, int kThreads>
__device__ __forceinline__ void convert_page(const uint8_t* quants, int thread, uint8_t* page) {
  constexpr int kPieces = kHead / 16;
  const uint16_t* scales = reinterpret_cast<const uint16_t*>(quants + Shape::kQuantBytes);
#pragma unroll 2
  for (unsigned i = static_cast<unsigned>(thread); i < Shape::kTokens * kPieces; i += kThreads) {
    const int token = static_cast<int>(i / kPieces);
    const int piece = static_cast<int>(i % kPieces);
    const uint4 bytes = reinterpret_cast<const uint4*>(quants)[i];
    const uint32_t scale = scales[token * Shape::kBlocks + piece / 2] * 0x10001U;
    const uint32_t words[4] = {bytes.x ^ 0x80808080U, bytes.y ^ 0x80808080U, bytes.z ^ 0x80808080U,
                               bytes.w ^ 0x80808080U};
    uint32_t out[8];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      out[2 * k] = multiply_halves(bytes_to_half<0x4140>(words[k]), scale);
      out[2 * k + 1] = multiply_halves(bytes_to_half<0x4342>(words[k]), scale);
    }
    *reinterpret_cast<uint4*>(page + Shape::place(Shape::kTokens, token, 2 * piece)) =
        make_uint4(out[0], out[1], out[2], out[3]);
    *reinterpret_cast<uint4*>(page + Shape::place(Shape::kTokens, token, 2 * piece + 1)) =
        make_uint4(out[4], out[5], out[6], out[7]);
  }
}

template <class Shape>
using TileScores = float[Shape::kRowTiles][Shape::kTokenTiles][4];
template <class Shape>
using TileOutput = float[Shape::kRowTiles][Shape::kSteps * 2][4];

template <class Shape>
__device__ __forceinline__ void multiply_tile_keys(uint32_t queries, uint32_t keys, TileScores<Shape>& s) {
  using Math = typename Shape::Math;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const uint32_t q_at = queries + (warp * Shape::kRowTiles * 16 + lane % 16) * Shape::kStride + lane / 16 * 16;
  const uint32_t k_at = keys + (lane / 16 * 8 + lane % 8) * Shape::kStride + lane / 8 % 2 * 16;
#pragma unroll
  for (int m = 0; m < Shape::kRowTiles; ++m) {
#pragma unroll
    for (int n = 0; n < Shape::kTokenTiles; ++n) s[m][n][0] = s[m][n][1] = s[m][n][2] = s[m][n][3] = 0;
  }
#pragma unroll
  for (int step = 0; step < Shape::kSteps; ++step) {
    uint32_t a[Shape::kRowTiles][4];
#pragma unroll
    for (int m = 0; m < Shape::kRowTiles; ++m) load_matrices(a[m], q_at + m * 16 * Shape::kStride + step * 32);
#pragma unroll
    for (int n = 0; n < Shape::kTokenTiles; n += 2) {
      uint32_t b[4];
      load_matrices(b, k_at + n * 8 * Shape::kStride + step * 32);
#pragma unroll
      for (int m = 0; m < Shape::kRowTiles; ++m) {
        Math::multiply(s[m][n], a[m], b[0], b[1]);
        Math::multiply(s[m][n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

// Caps and masks the scores of a page's tokens from `first_token`. Row m of the tile is query row m / group.
template <class Shape>
__device__ __forceinline__ void mask_tile(const AttentionParams& p, const TileWork& w, int first_token,
                                          TileScores<Shape>& s) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  if (p.cap_factor != 0) {
#pragma unroll
    for (int m = 0; m < Shape::kRowTiles; ++m) {
#pragma unroll
      for (int n = 0; n < Shape::kTokenTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) s[m][n][i] = capped(s[m][n][i], p.cap_factor);
      }
    }
  }
  const bool all =
      first_token + Shape::kTokens - 1 <= w.first_position && (p.window == 0 || first_token >= w.end - p.window);
  if (all) return;
#pragma unroll
  for (int m = 0; m < Shape::kRowTiles; ++m) {
#pragma unroll
    for (int upper = 0; upper < 2; ++upper) {
      const int row = ((warp * Shape::kRowTiles + m) * 16 + lane / 4 + 8 * upper) / p.group;
      // Rows beyond the tile see what its last row sees: their results are not used.
      const int last = min(w.first_position + row, w.end - 1) - first_token;
      const int first = p.window > 0 ? last - p.window + 1 : -1;
#pragma unroll
      for (int n = 0; n < Shape::kTokenTiles; ++n) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const int token = n * 8 + lane % 4 * 2 + j;
          if (token > last || token < first) s[m][n][2 * upper + j] = -INFINITY;
        }
      }
    }
  }
}

// The running softmax: rows g and g + 8 of each row tile. The sums are the lane's own part.
template <class Shape>
struct TileSoftmax {
  float maximum[Shape::kRowTiles][2];
  float sum[Shape::kRowTiles][2];
};

template <class Shape>
__device__ __forceinline__ void clear_tile(TileSoftmax<Shape>& state, TileOutput<Shape>& o) {
#pragma unroll
  for (int m = 0; m < Shape::kRowTiles; ++m) {
    state.maximum[m][0] = state.maximum[m][1] = -INFINITY;
    state.sum[m][0] = state.sum[m][1] = 0;
#pragma unroll
    for (int n = 0; n < Shape::kSteps * 2; ++n) o[m][n][0] = o[m][n][1] = o[m][n][2] = o[m][n][3] = 0;
  }
}

// What the output so far is to be multiplied with, where a maximum rose.
template <class Shape>
struct TileCorrection {
  float factor[Shape::kRowTiles][2];
  bool changed[Shape::kRowTiles];  // in some lane
};

// Scores become probabilities.
template <class Shape>
__device__ __forceinline__ void update_tile_softmax(TileScores<Shape>& s, TileSoftmax<Shape>& state,
                                                    TileCorrection<Shape>& correction) {
#pragma unroll
  for (int m = 0; m < Shape::kRowTiles; ++m) {
    bool changed = false;
#pragma unroll
    for (int upper = 0; upper < 2; ++upper) {
      float top = -INFINITY;
#pragma unroll
      for (int n = 0; n < Shape::kTokenTiles; ++n) {
        top = fmaxf(top, fmaxf(s[m][n][2 * upper], s[m][n][2 * upper + 1]));
      }
      top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 1));
      top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 2));
      const float before = state.maximum[m][upper];
      const float maximum = fmaxf(before, top);
      const float base = maximum == -INFINITY ? 0.0F : maximum;
      correction.factor[m][upper] = power_of_two(before - base);
      changed = changed || maximum != before;
      float sum = 0;
#pragma unroll
      for (int n = 0; n < Shape::kTokenTiles; ++n) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          s[m][n][2 * upper + j] = power_of_two(s[m][n][2 * upper + j] - base);
          sum += s[m][n][2 * upper + j];
        }
      }
      state.maximum[m][upper] = maximum;
      state.sum[m][upper] = state.sum[m][upper] * correction.factor[m][upper] + sum;
    }
    correction.changed[m] = __any_sync(kAllLanes, changed) != 0;
  }
}

template <class Shape>
__device__ __forceinline__ void correct_tile(const TileCorrection<Shape>& correction, TileOutput<Shape>& o) {
#pragma unroll
  for (int m = 0; m < Shape::kRowTiles; ++m) {
    if (!correction.changed[m]) continue;
#pragma unroll
    for (int n = 0; n < Shape::kSteps * 2; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) o[m][n][i] *= correction.factor[m][i / 2];
    }
  }
}

// Probabilities of 16 tokens as an A fragment.
template <class Math, int kTokenTiles>
__device__ __forceinline__ void pack_tile(const float (&s)[kTokenTiles][4], int k, uint32_t (&a)[4]) {
  a[0] = Math::pack(s[2 * k][0], s[2 * k][1]);
  a[1] = Math::pack(s[2 * k][2], s[2 * k][3]);
  a[2] = Math::pack(s[2 * k + 1][0], s[2 * k + 1][1]);
  a[3] = Math::pack(s[2 * k + 1][2], s[2 * k + 1][3]);
}

template <class Shape>
__device__ __forceinline__ void multiply_tile_values(uint32_t values, const TileScores<Shape>& s,
                                                     TileOutput<Shape>& o) {
  using Math = typename Shape::Math;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const uint32_t at = values + lane % 16 * Shape::kStride + lane / 16 * 16;
#pragma unroll
  for (int k = 0; k < Shape::kTokenTiles / 2; ++k) {
    uint32_t a[Shape::kRowTiles][4];
#pragma unroll
    for (int m = 0; m < Shape::kRowTiles; ++m) pack_tile<Math>(s[m], k, a[m]);
#pragma unroll
    for (int step = 0; step < Shape::kSteps; ++step) {
      uint32_t b[4];
      load_transposed(b, at + k * 16 * Shape::kStride + step * 32);
#pragma unroll
      for (int m = 0; m < Shape::kRowTiles; ++m) {
        Math::multiply(o[m][2 * step], a[m], b[0], b[1]);
        Math::multiply(o[m][2 * step + 1], a[m], b[2], b[3]);
      }
    }
  }
}

// One row of a warp's output, of which this lane has elements 8 n + 2 t and the next, n = 0 .. 2 kSteps - 1: `value(n,
// j)`. Lanes of a row (4) call together. q8: a block of 32 elements is theirs.
template <int kSteps, class Value>
__device__ __forceinline__ void write_row(const AttentionParams& p, bool exists, int64_t row, int first_element,
                                          Value value) {
  const int t = static_cast<int>(threadIdx.x) % 4;
  std::byte* at = p.out + row * p.out_stride;
  if (p.out_format == ActivationFormat::q8) {
    if constexpr (kSteps % 2 == 0) {
#pragma unroll
      for (int block = 0; block < kSteps / 2; ++block) {
        uint32_t top = 0;
#pragma unroll
        for (int i = 0; i < 8; ++i) top = max(top, __float_as_uint(fabsf(value(block * 4 + i / 2, i % 2))));
        top = max(top, __shfl_xor_sync(kAllLanes, top, 1));
        top = max(top, __shfl_xor_sync(kAllLanes, top, 2));
        const Q8Scale scale(__uint_as_float(top));
        int sum = 0;
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          const int low = scale.quant(value(block * 4 + n, 0));
          const int high = scale.quant(value(block * 4 + n, 1));
          sum += low + high;
          if (exists) {
            reinterpret_cast<char2*>(at + first_element + block * 32 + n * 8)[t] =
                make_char2(static_cast<char>(low), static_cast<char>(high));
          }
        }
        sum += __shfl_xor_sync(kAllLanes, sum, 1);
        sum += __shfl_xor_sync(kAllLanes, sum, 2);
        if (exists && t == 0) {
          reinterpret_cast<float2*>(at + q8_quants_bytes(p.out_width))[first_element / 32 + block] = scale.pair(sum);
        }
      }
    }
    return;
  }
  if (!exists) return;
#pragma unroll
  for (int n = 0; n < kSteps * 2; ++n) {
    const int i = first_element + n * 8 + 2 * t;
    if (p.out_format == ActivationFormat::f32) {
      reinterpret_cast<float2*>(at)[i / 2] = make_float2(value(n, 0), value(n, 1));
    } else {
      reinterpret_cast<uint32_t*>(at)[i / 2] = Bfloat::pack(value(n, 0), value(n, 1));
    }
  }
}

template <class Shape, int kHead>
__device__ __forceinline__ void write_tile(const AttentionParams& p, const TileWork& w, int kv_head,
                                           const TileSoftmax<Shape>& state, const TileOutput<Shape>& o) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
#pragma unroll
  for (int m = 0; m < Shape::kRowTiles; ++m) {
#pragma unroll
    for (int upper = 0; upper < 2; ++upper) {
      float sum = state.sum[m][upper];
      sum += __shfl_xor_sync(kAllLanes, sum, 1);
      sum += __shfl_xor_sync(kAllLanes, sum, 2);
      const int at = (warp * Shape::kRowTiles + m) * 16 + lane / 4 + 8 * upper;
      const int head = kv_head * p.group + at % p.group;
      const float factor = softmax_factor(p, head, state.maximum[m][upper], sum);
      write_row<Shape::kSteps>(p, at < w.rows * p.group, w.first_row + at / p.group, head * kHead,
                               [&](int n, int j) { return o[m][n][2 * upper + j] * factor; });
    }
  }
}

template <KvFormat kFormat, int kHead>
__global__ void __launch_bounds__(128, 2) tile_kernel(const __grid_constant__ AttentionParams p) {
  using Shape = TileShape<kFormat, kHead>;
  extern __shared__ __align__(16) uint8_t shared[];
  allow_dependents();
  wait_for_dependencies();
  TileWork w;
  if (!find_tile(p, Shape::kRows / p.group, w)) return;
  const int kv_head = static_cast<int>(blockIdx.x);
  const int thread = static_cast<int>(threadIdx.x);
  uint8_t* keys = shared + Shape::kQueryBytes;
  uint8_t* values = keys + Shape::kPageBytes;
  uint8_t* quants = values + Shape::kPageBytes;
  const int last_page = (w.end - 1) / Shape::kTokens;
  const TileRows rows(p, w, thread / kWarp * Shape::kRowTiles * 16, Shape::kRowTiles * 16);
  const auto copy = [&](const std::byte* part, int page, uint8_t* to) {
    copy_tile_page<Shape, kHead, Shape::kThreads>(p, part, w, kv_head, page, thread, shared_address(to),
                                                  shared_address(quants));
    commit_copies();
  };
  // What was copied is there for all, and everybody is done with what was there before.
  const auto arrive = [&](uint8_t* to) {
    wait_copies<0>();
    __syncthreads();
    if constexpr (Shape::kQuantized) {
      convert_page<Shape, kHead, Shape::kThreads>(quants, thread, to);
      __syncthreads();
    }
  };
  copy(p.kv.k, w.begin / Shape::kTokens, keys);
  load_tile_queries<Shape, kHead, Shape::kRows, Shape::kThreads>(p, w, kv_head, 0, thread, shared);
  TileSoftmax<Shape> state;
  TileOutput<Shape> o;
  clear_tile<Shape>(state, o);
  for (int page = w.begin / Shape::kTokens; page <= last_page; ++page) {
    const bool visible = rows.see(p, page * Shape::kTokens);
    arrive(keys);
    copy(p.kv.v, page, values);
    TileScores<Shape> s;
    if (visible) multiply_tile_keys<Shape>(shared_address(shared), shared_address(keys), s);
    arrive(values);
    if (page < last_page) copy(p.kv.k, page + 1, keys);
    if (!visible) continue;
    mask_tile<Shape>(p, w, page * Shape::kTokens, s);
    TileCorrection<Shape> correction;
    update_tile_softmax<Shape>(s, state, correction);
    correct_tile<Shape>(correction, o);
    multiply_tile_values<Shape>(shared_address(values), s, o);
  }
  write_tile<Shape, kHead>(p, w, kv_head, state, o);
}

}  // namespace minfer::cuda::attention
