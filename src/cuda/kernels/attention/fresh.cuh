// The newest token of a decoding step inside the split kernel (split.cuh): each block norms and rotates the queries
// that it multiplies, as the fragments that it reads; the block of the newest split makes the token's key and value as
// well, writes them to their page and puts them into its own copy of it. Replaces rope.cu's kernel before attention.
//
// One warp takes one head at a time: its lane holds elements lane, lane + 32, ... Products and rounding are those of
// rope.cu and cache.cuh, in the same order. Oracle: rope_append, then attention (attention_device_test).
#pragma once

#include "cuda/kernels/attention/cache.cuh"
#include "cuda/kernels/attention/split_parts.cuh"

namespace minfer::cuda::attention {

// Where a block prepares the newest token.
template <class Shape>
struct FreshMemory {
  using Key = typename Shape::Key;
  using Value = typename Shape::Value;

  __device__ __forceinline__ explicit FreshMemory(uint8_t* at)
      : staging(reinterpret_cast<float*>(at)),
        norms(staging + Shape::kWarps * Shape::kHeadSize),
        key(at + (Shape::kWarps + 2) * Shape::kHeadSize * 4),
        value(key + Key::kFreshBytes) {}

  float* staging;  // [warp][head size]
  float* norms;    // of q, of k: [2][head size]
  uint8_t* key;    // the token's row as the cache has it; q8_0: its scales behind
  uint8_t* value;
};

// The norms' weights, before the wait for the kernel before.
template <class Shape>
__device__ __forceinline__ void load_norms(const FreshRows& f, const FreshMemory<Shape>& memory) {
  for (int i = static_cast<int>(threadIdx.x); i < Shape::kHeadSize; i += Shape::kThreads) {
    if (f.q_norm != nullptr) memory.norms[i] = f.q_norm[i];
    if (f.k_norm != nullptr) memory.norms[Shape::kHeadSize + i] = f.k_norm[i];
  }
}

// A head of a row, and what turns it.
template <int kHead>
struct FreshHead {
  static constexpr int kEach = (kHead + kWarp - 1) / kWarp;
  static constexpr int kPairs = (kHead / 2 + kWarp - 1) / kWarp;

  __device__ __forceinline__ void load(const float* head) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
    for (int i = 0; i < kEach; ++i) x[i] = exists(i) ? head[lane + i * kWarp] : 0.0F;
  }
  __device__ __forceinline__ void normalize(const float* norm, float eps) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    float squares = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) squares += x[i] * x[i];
    const float factor = 1.0F / sqrtf(warp_sum(squares) / static_cast<float>(kHead) + eps);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (exists(i)) x[i] = x[i] * factor * norm[lane + i * kWarp];
    }
  }
  // To the warp's staging, turned there.
  __device__ __forceinline__ void rotate(const FreshRows& f, const float2* angles, float* staging) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (exists(i)) staging[lane + i * kWarp] = x[i];
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const int pair = lane + i * kWarp;
      if (pair < f.rotated / 2) rotate_pair(staging, pair, f.rotated, f.halves, angles[i].x, angles[i].y);
    }
    __syncwarp();
  }
  static __device__ __forceinline__ bool exists(int i) {
    return kHead % kWarp == 0 || static_cast<int>(threadIdx.x) % kWarp + i * kWarp < kHead;
  }

  float x[kEach];
};

template <int kHead>
__device__ __forceinline__ void load_angles(const FreshRows& f, int64_t row,
                                            float2 (&angles)[FreshHead<kHead>::kPairs]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const auto* from = reinterpret_cast<const float2*>(f.angles + row * f.angles_stride);
#pragma unroll
  for (int i = 0; i < FreshHead<kHead>::kPairs; ++i) {
    const int pair = lane + i * kWarp;
    angles[i] = pair < f.rotated / 2 ? from[pair] : make_float2(1, 0);
  }
}

// Column `column` of the queries as B fragments, scaled, from the warp's staging; see load_queries. Zeros where
// `factor` is 0: staging may then hold anything.
template <class Shape>
__device__ __forceinline__ void store_column(const float* staging, float factor, int column, uint8_t* queries) {
  using Key = typename Shape::Key;
  using Math = typename Key::Math;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int first = 0; first < Shape::kSteps * 4; first += kWarp) {
    const int step = (first + lane) / 4;
    const int t = lane % 4;
    if (Shape::kSteps * 4 % kWarp != 0 && step >= Shape::kSteps) break;
    float2 low = make_float2(0, 0);
    float2 high = make_float2(0, 0);
    if (factor != 0) {
      const float* q = staging + step * 16;
      low = *reinterpret_cast<const float2*>(q + (Key::kQuantized ? 4 * t : 2 * t));
      high = *reinterpret_cast<const float2*>(q + (Key::kQuantized ? 4 * t + 2 : 2 * t + 8));
    }
    const float x[4] = {low.x * factor, low.y * factor, high.x * factor, high.y * factor};
    const uint2 pair = make_uint2(Math::pack(x[0], x[1]), Math::pack(x[2], x[3]));
    const int i = (column / 8 * Shape::kSteps + step) * kWarp + column % 8 * 4 + t;
    reinterpret_cast<uint2*>(queries)[i] = pair;
    if constexpr (Key::kTwoParts) {
      reinterpret_cast<uint2*>(queries + Shape::kQueryPart)[i] =
          make_uint2(Math::pack(x[0] - Math::low(pair.x), x[1] - Math::high(pair.x)),
                     Math::pack(x[2] - Math::low(pair.y), x[3] - Math::high(pair.y)));
    }
  }
}

// The unit's queries: two columns a warp at a time, their loads together.
template <class Shape>
__device__ __forceinline__ void make_queries(const AttentionParams& p, const SplitUnit& u, const float2* angles,
                                             const FreshMemory<Shape>& memory, uint8_t* queries) {
  constexpr int kHead = Shape::kHeadSize;
  constexpr int kBatch = 2;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  float* staging = memory.staging + warp * kHead;
  const float* row =
      p.q + u.first_row * p.q_stride + (static_cast<int64_t>(own_head(p)) * p.group + u.first_column) * kHead;
#pragma unroll
  for (int first = 0; first < Shape::kColumns; first += kBatch * Shape::kWarps) {
    FreshHead<kHead> heads[kBatch];
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const int column = first + k * Shape::kWarps + warp;
      if (column < u.columns) heads[k].load(row + static_cast<int64_t>(column) * kHead);
    }
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const int column = first + k * Shape::kWarps + warp;
      if (column < u.columns) {
        if (p.fresh.q_norm != nullptr) heads[k].normalize(memory.norms, p.fresh.eps);
        heads[k].rotate(p.fresh, angles, staging);
      }
      store_column<Shape>(staging, column < u.columns ? p.query_factor : 0.0F, column, queries);
      __syncwarp();
    }
  }
}

// A head as the cache has it, by one warp: to `to` (kFreshBytes), and where `page` is not null to the token's place in
// the part of a page there.
template <class Part, int kHead>
__device__ __forceinline__ void store_fresh(const FreshHead<kHead>& head, uint8_t* to, std::byte* page, int64_t scales,
                                            int token_row) {
  constexpr int kEach = FreshHead<kHead>::kEach;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if constexpr (Part::kQuantized) {
#pragma unroll
    for (int block = 0; block < kEach; ++block) {
      const float x = head.x[block];
      const float d = __uint_as_float(warp_max(__float_as_uint(fabsf(x)))) / 127.0F;
      const __half scale = __float2half_rn(d);
      const bool none = __half2float(scale) == 0.0F || !isfinite(d);
      reinterpret_cast<int8_t*>(to)[block * kWarp + lane] =
          none ? int8_t{0} : static_cast<int8_t>(__float2int_rn(x / d));
      if (lane == 0) reinterpret_cast<__half*>(to + Part::kRowBytes)[block] = scale;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (!FreshHead<kHead>::exists(i)) continue;
      if constexpr (Part::kTwoParts) {
        reinterpret_cast<__nv_bfloat16*>(to)[lane + i * kWarp] = __float2bfloat16_rn(head.x[i]);
      } else {
        reinterpret_cast<__half*>(to)[lane + i * kWarp] = __float2half_rn(head.x[i]);
      }
    }
  }
  __syncwarp();
  if (page == nullptr) return;
  if (lane < Part::kPieces) {
    reinterpret_cast<uint4*>(page + static_cast<int64_t>(token_row) * Part::kRowBytes)[lane] =
        reinterpret_cast<const uint4*>(to)[lane];
  }
  if constexpr (Part::kQuantized) {
    if (lane < Part::kBlocks) {
      reinterpret_cast<uint16_t*>(page + scales)[token_row * Part::kBlocks + lane] =
          reinterpret_cast<const uint16_t*>(to + Part::kRowBytes)[lane];
    }
  }
}

// The newest token's key (the last warp but one) or value (the last), which `head` has been loaded with. They go to the
// page once, by the first chunk of columns.
template <class Shape>
__device__ __forceinline__ void make_newest(const AttentionParams& p, const SplitUnit& u, const float2* angles,
                                            FreshHead<Shape::kHeadSize>& head, const FreshMemory<Shape>& memory) {
  constexpr int kHead = Shape::kHeadSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t page = p.pages[u.table + u.pages - 1] * p.kv.page_stride;
  const int token_row = own_head(p) * static_cast<int>(kKvPageTokens) + (u.end - 1) % static_cast<int>(kKvPageTokens);
  const int64_t scales = kv_scales_offset(p.kv.kv_heads, kHead);
  if (warp == Shape::kWarps - 1) {
    store_fresh<typename Shape::Value, kHead>(head, memory.value, u.chunk == 0 ? p.kv.v + page : nullptr, scales,
                                              token_row);
    return;
  }
  if (p.fresh.k_norm != nullptr) head.normalize(memory.norms + kHead, p.fresh.eps);
  float* staging = memory.staging + warp * kHead;
  head.rotate(p.fresh, angles, staging);
#pragma unroll
  for (int i = 0; i < FreshHead<kHead>::kEach; ++i) {
    if (FreshHead<kHead>::exists(i)) head.x[i] = staging[lane + i * kWarp];
  }
  store_fresh<typename Shape::Key, kHead>(head, memory.key, u.chunk == 0 ? p.kv.k + page : nullptr, scales, token_row);
}

// What the unit needs of the newest token: queries, and where it ends the sequence the token's key and value. A barrier
// has to follow. All loads are under way together.
template <class Shape>
__device__ __forceinline__ void make_fresh(const AttentionParams& p, const SplitUnit& u, bool with_queries,
                                           bool with_newest, const FreshMemory<Shape>& memory, uint8_t* queries) {
  constexpr int kHead = Shape::kHeadSize;
  const FreshRows& f = p.fresh;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const bool makes_newest = with_newest && warp >= Shape::kWarps - 2;
  float2 angles[FreshHead<kHead>::kPairs];
  load_angles<kHead>(f, u.first_row, angles);
  FreshHead<kHead> newest;
  if (makes_newest) {
    const float* row = warp == Shape::kWarps - 1 ? f.v + u.first_row * f.v_stride : f.k + u.first_row * f.k_stride;
    newest.load(row + static_cast<int64_t>(own_head(p)) * kHead);
  }
  if (with_queries) make_queries<Shape>(p, u, angles, memory, queries);
  if (makes_newest) make_newest<Shape>(p, u, angles, newest, memory);
}

// The newest token's row into a warp's copy of its tokens, whose other rows are there.
template <class Part>
__device__ __forceinline__ void insert_fresh(const uint8_t* fresh, int row, uint8_t* part) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (lane < Part::kPieces) {
    reinterpret_cast<uint4*>(part + row * Part::kRowStride)[lane] = reinterpret_cast<const uint4*>(fresh)[lane];
  }
  if constexpr (Part::kQuantized) {
    if (lane < Part::kBlocks) {
      reinterpret_cast<uint16_t*>(part + Part::kTokens * Part::kRowStride)[row * Part::kBlocks + lane] =
          reinterpret_cast<const uint16_t*>(fresh + Part::kRowBytes)[lane];
    }
  }
  __syncwarp();
}

}  // namespace minfer::cuda::attention
