// The attention kernels of every vector instruction set, written over V: its register type Simd (vector_math.hpp of the
// set) and what kernels/<isa>/attention.cpp adds: kTileRows (vectors a register tile), kTileRegs (registers a tile
// row), loads of f16, select_range, greatest, first_lane. Everything is a template over V, so that no inline code
// compiled for one instruction set is linked into another. Order of accumulation, which no tile shape changes: a score
// adds q[d] * k[d] over ascending d by fused multiply-adds; a value adds p * v over ascending tokens; the sum of p adds
// lanes of ascending tokens, then the lanes by V::sum. Blocks of kTileRows vectors share each load of K or V. Shapes
// and memory: launch/attention_kernels.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/kernels/vector/math.hpp"
#include "cpu/launch/attention_kernels.hpp"

namespace minfer::cpu {

template <class V>
struct AttentionTile {
  using Reg = typename V::Float;
  static constexpr int64_t kLanes = V::kLanes;
  static constexpr int64_t kRows = V::kTileRows;
  static constexpr int64_t kChunk = kAttentionChunkTokens;

  // A stretch of positions [begin, end).
  struct Range {
    int64_t begin;
    int64_t end;
    bool empty() const { return begin >= end; }
  };
  static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
  static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
  static Range meet(Range a, Range b) { return {most(a.begin, b.begin), least(a.end, b.end)}; }

  // What vector i sees.
  static Range visible(const AttentionJob& job, int64_t vector) {
    const int64_t position = job.positions[vector / job.group];
    return {job.window > 0 ? most(0, position - job.window + 1) : 0, position + 1};
  }

  static Reg load_as(const float* source) { return V::load(source); }
  static Reg load_as(const uint16_t* source) { return V::load_f16(source); }
  static Reg load_as(const float* source, int64_t count) { return V::load_first(source, count); }
  static Reg load_as(const uint16_t* source, int64_t count) { return V::load_f16_first(source, count); }

  // ---- scores -----------------------------------------------------------------------------------------------------

  // query: [head_dim_k][M]; k: dimension 0 of the first of N registers of tokens, registers of a group of 16 beside
  // each other, groups group_stride elements apart; scores: rows kChunk apart.
  template <int M, int N, class K>
  static void score_tile(const float* query, const K* k, int64_t group_stride, int64_t head_dim_k, float* scores) {
    constexpr int64_t kGroupRegs = kKvGroupTokens / kLanes;
    Reg sums[M][N];
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) sums[m][n] = V::set1(0.0F);
    }
    for (int64_t d = 0; d < head_dim_k; ++d) {
      Reg tokens[N];
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) {
        tokens[n] = load_as(k + (n / kGroupRegs) * group_stride + (n % kGroupRegs) * kLanes + d * kKvGroupTokens);
      }
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) {
        const Reg q = V::set1(query[d * M + m]);
#pragma GCC unroll 8
        for (int n = 0; n < N; ++n) sums[m][n] = V::fma(q, tokens[n], sums[m][n]);
      }
    }
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) V::store(scores + m * kChunk + n * kLanes, sums[m][n]);
    }
  }

  // Groups [first, last) of 16 tokens of one page; scores: the row's entry of the page's first token.
  template <int M, class K>
  static void score_groups(const AttentionJob& job, const float* query, const K* k, int64_t first, int64_t last,
                           float* scores) {
    constexpr int64_t kGroupRegs = kKvGroupTokens / kLanes;
    constexpr int64_t kFull = V::kTileRegs / kGroupRegs;  // groups a full tile
    const int64_t stride = job.head_dim_k * kKvGroupTokens;
    int64_t group = first;
    for (; group + kFull <= last; group += kFull) {
      score_tile<M, V::kTileRegs>(query, k + group * stride, stride, job.head_dim_k, scores + group * kKvGroupTokens);
    }
    for (; group < last; ++group) {
      score_tile<M, static_cast<int>(kGroupRegs)>(query, k + group * stride, stride, job.head_dim_k,
                                                  scores + group * kKvGroupTokens);
    }
  }

  template <class K>
  static void score_block(const AttentionJob& job, int64_t vectors, const float* query, const K* k, int64_t first,
                          int64_t last, float* scores) {
    switch (vectors) {
      case 1:
        return score_groups<1>(job, query, k, first, last, scores);
      case 2:
        return score_groups<2>(job, query, k, first, last, scores);
      case 3:
        return score_groups<3>(job, query, k, first, last, scores);
      case 4:
        return score_groups<4>(job, query, k, first, last, scores);
      case 5:
        return score_groups<5>(job, query, k, first, last, scores);
      default:
        return score_groups<6>(job, query, k, first, last, scores);
    }
  }

  // ---- softmax of one vector's scores of a chunk --------------------------------------------------------------------

  // `seen` is within the chunk, in tokens from its start. Leaves exp(s - maximum) in scores, 0 outside `seen` within
  // the registers that it touches.
  static void soften(float* scores, Range seen, float softcap, float* maximum, float* sum) {
    const int64_t begin = seen.begin / kLanes * kLanes;
    Reg top = V::set1(-__builtin_inff());
    for (int64_t t = begin; t < seen.end; t += kLanes) {
      Reg s = V::load(scores + t);
      if (softcap > 0.0F) {
        s = cap(s, softcap);
        V::store(scores + t, s);
      }
      top = V::max(V::select_range(s, seen.begin - t, seen.end - t, -__builtin_inff()), top);
    }
    *maximum = V::greatest(top);
    const Reg shift = V::set1(-*maximum);
    Reg total = V::set1(0.0F);
    for (int64_t t = begin; t < seen.end; t += kLanes) {
      const Reg p =
          V::select_range(vector::exp<V>(V::add(V::load(scores + t), shift)), seen.begin - t, seen.end - t, 0.0F);
      V::store(scores + t, p);
      total = V::add(total, p);
    }
    *sum = V::sum(total);
  }

  static Reg cap(Reg s, float softcap) {
    return V::mul(vector::tanh<V>(V::mul(s, V::set1(1.0F / softcap))), V::set1(softcap));
  }

  // ---- weighted sum of values ---------------------------------------------------------------------------------------

  // Adds `tokens` rows of v, weighted, to the N registers of M vectors; weights: rows kChunk apart; the last register
  // holds `tail` lanes where Tail.
  template <int M, int N, bool Tail, class T>
  static void value_tile(const float* weights, const T* v, int64_t v_stride, int64_t tokens, float* values,
                         int64_t value_stride, int64_t tail) {
    Reg sums[M][N];
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) sums[m][n] = V::load(values + m * value_stride + n * kLanes);
    }
    for (int64_t t = 0; t < tokens; ++t) {
      Reg row[N];
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) {
        row[n] =
            Tail && n == N - 1 ? load_as(v + t * v_stride + n * kLanes, tail) : load_as(v + t * v_stride + n * kLanes);
      }
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) {
        const Reg p = V::set1(weights[m * kChunk + t]);
#pragma GCC unroll 8
        for (int n = 0; n < N; ++n) sums[m][n] = V::fma(p, row[n], sums[m][n]);
      }
    }
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) V::store(values + m * value_stride + n * kLanes, sums[m][n]);
    }
  }

  // Few vectors take twice the registers a row, so that a row of V is read in one sweep.
  template <int M, class T>
  static void value_rows(const AttentionJob& job, const float* weights, const T* v, int64_t tokens, float* values) {
    constexpr int kWide = M <= 3 ? 2 * V::kTileRegs : V::kTileRegs;
    const int64_t dim = job.head_dim_v;
    int64_t d = 0;
    for (; d + kWide * kLanes <= dim; d += kWide * kLanes) {
      value_tile<M, kWide, false>(weights, v + d, dim, tokens, values + d, job.value_stride, 0);
    }
    for (; d + V::kTileRegs * kLanes <= dim; d += V::kTileRegs * kLanes) {
      value_tile<M, V::kTileRegs, false>(weights, v + d, dim, tokens, values + d, job.value_stride, 0);
    }
    for (; d + kLanes <= dim; d += kLanes) {
      value_tile<M, 1, false>(weights, v + d, dim, tokens, values + d, job.value_stride, 0);
    }
    if (d < dim) value_tile<M, 1, true>(weights, v + d, dim, tokens, values + d, job.value_stride, dim - d);
  }

  template <class T>
  static void value_block(const AttentionJob& job, int64_t vectors, const float* weights, const T* v, int64_t tokens,
                          float* values) {
    switch (vectors) {
      case 1:
        return value_rows<1>(job, weights, v, tokens, values);
      case 2:
        return value_rows<2>(job, weights, v, tokens, values);
      case 3:
        return value_rows<3>(job, weights, v, tokens, values);
      case 4:
        return value_rows<4>(job, weights, v, tokens, values);
      case 5:
        return value_rows<5>(job, weights, v, tokens, values);
      default:
        return value_rows<6>(job, weights, v, tokens, values);
    }
  }

  // One page for one block of vectors. Tokens that all of them see are added together; the few at the edges of the
  // causal limit or the window, vector by vector, so that a token that a vector does not see never touches it. `v` is
  // the page's first row, `page` its positions, `origin` the chunk's first position.
  template <class T>
  static void value_page(const AttentionJob& job, int64_t block, int64_t vectors, Range page, int64_t origin,
                         const T* v, const float* weights, float* values) {
    Range common = page;
    for (int64_t i = 0; i < vectors; ++i) common = meet(common, visible(job, block + i));
    const auto add = [&](int64_t vector, int64_t count, Range tokens) {
      if (tokens.empty()) return;
      value_block(job, count, weights + vector * kChunk + (tokens.begin - origin),
                  v + (tokens.begin - page.begin) * job.head_dim_v, tokens.end - tokens.begin,
                  values + vector * job.value_stride);
    };
    if (common.empty()) {
      for (int64_t i = 0; i < vectors; ++i) add(i, 1, meet(page, visible(job, block + i)));
      return;
    }
    for (int64_t i = 0; i < vectors; ++i) add(i, 1, meet({page.begin, common.begin}, visible(job, block + i)));
    add(0, vectors, common);
    for (int64_t i = 0; i < vectors; ++i) add(i, 1, meet({common.end, page.end}, visible(job, block + i)));
  }

  // ---- a chunk ------------------------------------------------------------------------------------------------------

  static Range block_range(const AttentionJob& job, int64_t block, int64_t vectors, Range within) {
    Range all = visible(job, block);
    for (int64_t i = 1; i < vectors; ++i) {
      const Range one = visible(job, block + i);
      all = {least(all.begin, one.begin), most(all.end, one.end)};
    }
    return meet(all, within);
  }

  template <class K>
  static void score_chunk(const AttentionJob& job, const AttentionWork& work, Range chunk) {
    const int64_t count = job.rows * job.group;
    for (int64_t at = chunk.begin; at < chunk.end; at += kKvPageTokens) {
      const Range page = {at, at + kKvPageTokens};
      for (int64_t block = 0; block < count; block += kRows) {
        const int64_t vectors = least(kRows, count - block);
        const Range seen = block_range(job, block, vectors, page);
        if (seen.empty()) continue;
        const K* k = reinterpret_cast<const K*>(job.k + job.pages[at / kKvPageTokens] * job.k_page_stride);
        const int64_t first = (seen.begin - at) / kKvGroupTokens;
        const int64_t last = (seen.end - at + kKvGroupTokens - 1) / kKvGroupTokens;
        score_block(job, vectors, work.query + block * job.head_dim_k, k, first, last,
                    work.scores + block * kChunk + (at - chunk.begin));
      }
    }
  }

  template <class T>
  static void value_chunk(const AttentionJob& job, const AttentionWork& work, Range chunk, float* values) {
    const int64_t count = job.rows * job.group;
    for (int64_t at = chunk.begin; at < chunk.end; at += kKvPageTokens) {
      const Range page = {at, at + kKvPageTokens};
      for (int64_t block = 0; block < count; block += kRows) {
        const int64_t vectors = least(kRows, count - block);
        if (block_range(job, block, vectors, page).empty()) continue;
        const T* v = reinterpret_cast<const T*>(job.v + job.pages[at / kKvPageTokens] * job.v_page_stride);
        value_page(job, block, vectors, page, chunk.begin, v, work.scores + block * kChunk,
                   values + block * job.value_stride);
      }
    }
  }

  static void chunk(const AttentionJob& job, const AttentionWork& work, int64_t index, const AttentionPartial& out) {
    const Range all = {index * kChunk, (index + 1) * kChunk};
    const int64_t count = job.rows * job.group;
    if (job.k_format == KvFormat::f32) {
      score_chunk<float>(job, work, all);
    } else {
      score_chunk<uint16_t>(job, work, all);
    }
    for (int64_t i = 0; i < count; ++i) {
      out.sum[i] = 0.0F;
      out.maximum[i] = -__builtin_inff();
      const Range seen = meet(visible(job, i), all);
      if (!seen.empty()) {
        soften(work.scores + i * kChunk, {seen.begin - all.begin, seen.end - all.begin}, job.softcap, out.maximum + i,
               out.sum + i);
      }
    }
    for (int64_t i = 0; i < count * job.value_stride; i += kLanes) V::store(out.values + i, V::set1(0.0F));
    if (job.v_format == KvFormat::f32) {
      value_chunk<float>(job, work, all, out.values);
    } else {
      value_chunk<uint16_t>(job, work, all, out.values);
    }
  }

  // ---- packing, merging, finishing ----------------------------------------------------------------------------------

  static void pack(const AttentionJob& job, const AttentionWork& work) {
    const int64_t count = job.rows * job.group;
    for (int64_t block = 0; block < count; block += kRows) {
      const int64_t vectors = least(kRows, count - block);
      float* packed = work.query + block * job.head_dim_k;
      for (int64_t i = 0; i < vectors; ++i) {
        const int64_t vector = block + i;
        const float* q = job.q + vector / job.group * job.q_stride + vector % job.group * job.head_dim_k;
        for (int64_t d = 0; d < job.head_dim_k; ++d) packed[d * vectors + i] = q[d] * job.scale;
      }
    }
  }

  static float exp_one(float x) { return V::first_lane(vector::exp<V>(V::set1(x))); }

  static void merge(const AttentionJob& job, const AttentionPartial& total, const AttentionPartial& next) {
    const int64_t count = job.rows * job.group;
    for (int64_t i = 0; i < count; ++i) {
      if (next.sum[i] == 0.0F) continue;
      float* into = total.values + i * job.value_stride;
      const float* from = next.values + i * job.value_stride;
      const bool first = total.sum[i] == 0.0F;
      const float top = first || next.maximum[i] > total.maximum[i] ? next.maximum[i] : total.maximum[i];
      const float old_factor = first ? 0.0F : exp_one(total.maximum[i] - top);
      const float new_factor = exp_one(next.maximum[i] - top);
      const Reg old_scale = V::set1(old_factor);
      const Reg new_scale = V::set1(new_factor);
      for (int64_t d = 0; d < job.value_stride; d += kLanes) {
        V::store(into + d, V::fma(V::load(into + d), old_scale, V::mul(V::load(from + d), new_scale)));
      }
      total.sum[i] = total.sum[i] * old_factor + next.sum[i] * new_factor;
      total.maximum[i] = top;
    }
  }

  static void finish(int64_t head_dim_v, float maximum, float sum, float* values, const AttentionTarget& target) {
    float factor = 1.0F / sum;
    if (target.sink != nullptr) {
      const float top = maximum > *target.sink ? maximum : *target.sink;
      const float own = exp_one(maximum - top);
      factor = own / (sum * own + exp_one(*target.sink - top));
    }
    const Reg scale = V::set1(factor);
    if (target.f32 != nullptr) {
      int64_t d = 0;
      for (; d + kLanes <= head_dim_v; d += kLanes) V::store(target.f32 + d, V::mul(V::load(values + d), scale));
      for (; d < head_dim_v; ++d) target.f32[d] = values[d] * factor;
      return;
    }
    for (int64_t d = 0; d < head_dim_v; d += kLanes) V::store(values + d, V::mul(V::load(values + d), scale));
    for (int64_t d = 0; d < head_dim_v; d += 32) {
      quantize_block(values + d, target.quants + d, target.scales + d / 32, target.sums + d / 32);
    }
  }

  // 32 floats as a block of activation.hpp.
  static void quantize_block(const float* x, int8_t* quants, float* scale, float* sum) {
    Reg block[32 / kLanes];
    for (int i = 0; i < 32 / kLanes; ++i) block[i] = V::load(x + i * kLanes);
    const float d = __builtin_bit_cast(float, V::largest_magnitude_bits(block)) / 127.0F;
    *scale = d;
    *sum = d * static_cast<float>(V::quantize(block, d == 0.0F ? 1.0F : d, quants));
  }

  static constexpr AttentionKernels kernels() { return {&pack, &chunk, &merge, &finish}; }
};

}  // namespace minfer::cpu
