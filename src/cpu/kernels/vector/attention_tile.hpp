// The attention kernels of every vector instruction set, written over V: its register type Simd (vector_math.hpp of the
// set) and what kernels/<isa>/attention.cpp adds: kTileRows (vectors a register tile), kTileRegs (registers a tile
// row), loads of f16, bf16 and int8, select_range, greatest, first_lane. Everything is a template over V, so that no
// inline code compiled for one instruction set is linked into another. Order of accumulation, which no tile shape
// changes: a score adds q[d] * k[d] over ascending d by fused multiply-adds (q8_0: within each block of 32, whose sum
// times its scale is then added to those before); a value adds p * v over ascending tokens; the sum of p adds lanes of
// ascending tokens, then the lanes by V::sum. Blocks of kTileRows vectors share each load of K or V. Shapes and memory:
// launch/attention_kernels.hpp.
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
  static constexpr int64_t kMostRows = 8;
  static constexpr int64_t kScoreStep = 16;  // tokens: scores are computed for whole steps
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

  // Vectors in the next block when `left` are left: a few go together even where a block of many has less.
  static int64_t block_rows(int64_t left) { return left <= kMostRows ? left : V::kTileRows; }

  // What vector i sees.
  static Range visible(const AttentionJob& job, int64_t vector) {
    const int64_t position = job.positions[vector / job.group];
    return {job.window > 0 ? most(0, position - job.window + 1) : 0, position + 1};
  }

  // Elements of the formats as they lie in memory; Quant's blocks of 32 dimensions have f16 scales apart.
  using Full = float;
  struct Half {
    uint16_t bits;
  };
  struct Brain {
    uint16_t bits;
  };
  struct Quant {
    int8_t value;
  };
  static constexpr int64_t kBlock = kKvBlockElements;
  template <class T>
  static constexpr bool kScaled = sizeof(T) == 1;

  static Reg load_as(const Full* source) { return V::load(source); }
  static Reg load_as(const Half* source) { return V::load_f16(&source->bits); }
  static Reg load_as(const Brain* source) { return V::load_bf16(&source->bits); }
  static Reg load_as(const Quant* source) { return V::load_i8(&source->value); }
  static Reg load_as(const Full* source, int64_t count) { return V::load_first(source, count); }
  static Reg load_as(const Half* source, int64_t count) { return V::load_f16_first(&source->bits, count); }
  static Reg load_as(const Brain* source, int64_t count) { return V::load_bf16_first(&source->bits, count); }
  static Reg load_as(const Quant* source, int64_t) { return V::load_i8(&source->value); }  // never partly filled

  // Keys from a dimension and token of a page on, and the scales that go with them (Quant only).
  template <class K>
  struct Keys {
    const K* at;
    const uint16_t* scales;
  };
  // Values likewise; the scales of the page that is read have become f32.
  template <class T>
  struct Values {
    const T* at;
    const float* scales;
  };

  // Asks for what N registers of the next page occupy (second-level cache: the first is too small to hold it until
  // then).
  template <int N, class T>
  static void prefetch(const T* ahead) {
    constexpr int kBytes = static_cast<int>(N * kLanes * sizeof(T));
#pragma GCC unroll 8
    for (int i = 0; i < kBytes; i += 64) __builtin_prefetch(reinterpret_cast<const char*>(ahead) + i, 0, 2);
  }

  // ---- scores -----------------------------------------------------------------------------------------------------

  // Adds `dims` dimensions; query: [dims][M]; k: the first dimension of the first of N registers of tokens.
  template <int M, int N, class K>
  static void score_dims(const float* query, const K* k, const K* ahead, int64_t dims, Reg (&sums)[M][N]) {
    for (int64_t d = 0; d < dims; ++d) {
      prefetch<N>(ahead + d * kKvPageTokens);
      Reg tokens[N];
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) {
        tokens[n] = load_as(k + d * kKvPageTokens + n * kLanes);
      }
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) {
        const Reg q = V::set1(query[d * M + m]);
#pragma GCC unroll 8
        for (int n = 0; n < N; ++n) sums[m][n] = V::fma(q, tokens[n], sums[m][n]);
      }
    }
  }

  template <int M, int N>
  static void clear(Reg (&sums)[M][N]) {
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) sums[m][n] = V::set1(0.0F);
    }
  }

  // query: [head_dim_k][M]; k: dimension 0 of the first of N registers of tokens; scores: rows kChunk apart.
  template <int M, int N, class K>
  static void score_tile(const float* query, Keys<K> k, Keys<K> ahead, int64_t head_dim_k, float* scores) {
    Reg sums[M][N];
    if constexpr (kScaled<K>) {
      for (int64_t d = 0; d < head_dim_k; d += kBlock) {
        clear(sums);
        score_dims(query + d * M, k.at + d * kKvPageTokens, ahead.at + d * kKvPageTokens, kBlock, sums);
        const int64_t block = d / kBlock * kKvPageTokens;
        prefetch<N>(ahead.scales + block);
        Reg scale[N];
#pragma GCC unroll 8
        for (int n = 0; n < N; ++n) scale[n] = V::load_f16(k.scales + block + n * kLanes);
#pragma GCC unroll 8
        for (int m = 0; m < M; ++m) {
#pragma GCC unroll 8
          for (int n = 0; n < N; ++n) {
            float* score = scores + m * kChunk + n * kLanes;
            V::store(score, d == 0 ? V::mul(sums[m][n], scale[n]) : V::fma(sums[m][n], scale[n], V::load(score)));
          }
        }
      }
    } else {
      clear(sums);
      score_dims(query, k.at, ahead.at, head_dim_k, sums);
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) {
#pragma GCC unroll 8
        for (int n = 0; n < N; ++n) V::store(scores + m * kChunk + n * kLanes, sums[m][n]);
      }
    }
  }

  // Keys from a token of the page on.
  template <class K>
  static Keys<K> from(Keys<K> k, int64_t token) {
    return {k.at + token, k.scales + token};
  }

  // Tokens [first, last) of one page, multiples of kScoreStep; scores: the row's entry of the page's first token.
  template <int M, class K>
  static void score_tokens(const AttentionJob& job, const float* query, Keys<K> k, Keys<K> ahead, int64_t first,
                           int64_t last, float* scores) {
    constexpr int kRegs = V::template score_regs<M>();
    constexpr int kStepRegs = static_cast<int>(kScoreStep / kLanes);
    int64_t t = first;
    for (; t + kRegs * kLanes <= last; t += kRegs * kLanes) {
      score_tile<M, kRegs>(query, from(k, t), from(ahead, t), job.head_dim_k, scores + t);
    }
    for (; t < last; t += kScoreStep) {
      score_tile<M, kStepRegs>(query, from(k, t), from(ahead, t), job.head_dim_k, scores + t);
    }
  }

  template <class K>
  static void score_block(const AttentionJob& job, int64_t vectors, const float* query, Keys<K> k, Keys<K> ahead,
                          int64_t first, int64_t last, float* scores) {
    switch (vectors) {
      case 1:
        return score_tokens<1>(job, query, k, ahead, first, last, scores);
      case 2:
        return score_tokens<2>(job, query, k, ahead, first, last, scores);
      case 3:
        return score_tokens<3>(job, query, k, ahead, first, last, scores);
      case 4:
        return score_tokens<4>(job, query, k, ahead, first, last, scores);
      case 5:
        return score_tokens<5>(job, query, k, ahead, first, last, scores);
      case 6:
        return score_tokens<6>(job, query, k, ahead, first, last, scores);
      case 7:
        return score_tokens<7>(job, query, k, ahead, first, last, scores);
      default:
        return score_tokens<8>(job, query, k, ahead, first, last, scores);
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

  // Quants times their scales: exact, an 8-bit integer by an 11-bit mantissa.
  template <int N>
  static void scale_row(const float* scales, Reg (&row)[N]) {
    Reg scale = V::set1(scales[0]);
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) {
      if (n > 0 && n * kLanes % kBlock == 0) scale = V::set1(scales[n * kLanes / kBlock]);
      row[n] = V::mul(row[n], scale);
    }
  }

  // Adds `tokens` rows of v, weighted, to the N registers of M vectors; weights: rows kChunk apart; the last register
  // holds `tail` lanes where Tail. N registers of Quant lie in whole blocks or in one.
  template <int M, int N, bool Tail, class T>
  static void value_tile(const float* weights, Values<T> v, const T* ahead, int64_t v_stride, int64_t tokens,
                         float* values, int64_t value_stride, int64_t tail) {
    Reg sums[M][N];
#pragma GCC unroll 8
    for (int m = 0; m < M; ++m) {
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) sums[m][n] = V::load(values + m * value_stride + n * kLanes);
    }
    for (int64_t t = 0; t < tokens; ++t) {
      prefetch<N>(ahead + t * v_stride);
      Reg row[N];
      const T* from = v.at + t * v_stride;
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) {
        row[n] = Tail && n == N - 1 ? load_as(from + n * kLanes, tail) : load_as(from + n * kLanes);
      }
      if constexpr (kScaled<T>) scale_row(v.scales + t * (v_stride / kBlock), row);
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

  // Values from a dimension of their rows on.
  template <class T>
  static Values<T> column(Values<T> v, int64_t dim) {
    return {v.at + dim, v.scales + dim / kBlock};
  }
  // Values from a token of the page on.
  template <class T>
  static Values<T> row(Values<T> v, int64_t token, int64_t dim) {
    return {v.at + token * dim, v.scales + token * (dim / kBlock)};
  }

  template <int M, class T>
  static void value_rows(const AttentionJob& job, const float* weights, Values<T> v, const T* ahead, int64_t tokens,
                         float* values) {
    constexpr int kRegs = V::template value_regs<M>();
    const int64_t dim = job.head_dim_v;
    const auto tile = [&]<int N, bool Tail>(int64_t d) {
      value_tile<M, N, Tail>(weights, column(v, d), ahead + d, dim, tokens, values + d, job.value_stride, dim - d);
    };
    int64_t d = 0;
    for (; d + kRegs * kLanes <= dim; d += kRegs * kLanes) tile.template operator()<kRegs, false>(d);
    for (; d + kLanes <= dim; d += kLanes) tile.template operator()<1, false>(d);
    if (d < dim) tile.template operator()<1, true>(d);
  }

  template <class T>
  static void value_block(const AttentionJob& job, int64_t vectors, const float* weights, Values<T> v, const T* ahead,
                          int64_t tokens, float* values) {
    switch (vectors) {
      case 1:
        return value_rows<1>(job, weights, v, ahead, tokens, values);
      case 2:
        return value_rows<2>(job, weights, v, ahead, tokens, values);
      case 3:
        return value_rows<3>(job, weights, v, ahead, tokens, values);
      case 4:
        return value_rows<4>(job, weights, v, ahead, tokens, values);
      case 5:
        return value_rows<5>(job, weights, v, ahead, tokens, values);
      case 6:
        return value_rows<6>(job, weights, v, ahead, tokens, values);
      case 7:
        return value_rows<7>(job, weights, v, ahead, tokens, values);
      default:
        return value_rows<8>(job, weights, v, ahead, tokens, values);
    }
  }

  // One page for one block of vectors. Tokens that all of them see are added together; the few at the edges of the
  // causal limit or the window, vector by vector, so that a token that a vector does not see never touches it. `v` is
  // the page's first row, `page` its positions, `origin` the chunk's first position.
  template <class T>
  static void value_page(const AttentionJob& job, int64_t block, int64_t vectors, Range page, int64_t origin,
                         Values<T> v, const T* ahead, const float* weights, float* values) {
    Range common = page;
    for (int64_t i = 0; i < vectors; ++i) common = meet(common, visible(job, block + i));
    const auto add = [&](int64_t vector, int64_t count, Range tokens) {
      if (tokens.empty()) return;
      value_block(job, count, weights + vector * kChunk + (tokens.begin - origin),
                  row(v, tokens.begin - page.begin, job.head_dim_v),
                  ahead + (tokens.begin - page.begin) * job.head_dim_v, tokens.end - tokens.begin,
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

  static const std::byte* k_page(const AttentionJob& job, int64_t position) {
    return job.k + job.pages[position / kKvPageTokens] * job.k_page_stride;
  }
  static const std::byte* v_page(const AttentionJob& job, int64_t position) {
    return job.v + job.pages[position / kKvPageTokens] * job.v_page_stride;
  }

  template <class K>
  static Keys<K> keys_of(const AttentionJob& job, const std::byte* page) {
    return {reinterpret_cast<const K*>(page), reinterpret_cast<const uint16_t*>(page + job.k_scales)};
  }

  // Runs of pages that are far from each other keep hardware prefetchers from their stride, so each page asks for the
  // next one: `after` is what follows the last.
  template <class K>
  static void score_chunk(const AttentionJob& job, const AttentionWork& work, Range seen, int64_t origin,
                          const std::byte* after) {
    const int64_t count = job.rows * job.group;
    for (int64_t at = seen.begin / kKvPageTokens * kKvPageTokens; at < seen.end; at += kKvPageTokens) {
      const Keys<K> k = keys_of<K>(job, k_page(job, at));
      const int64_t next = at + kKvPageTokens;
      Keys<K> ahead = keys_of<K>(job, next < seen.end ? k_page(job, next) : after);
      for (int64_t block = 0; block < count; block += block_rows(count - block)) {
        const int64_t vectors = block_rows(count - block);
        const Range part = block_range(job, block, vectors, {at, next});
        if (part.empty()) continue;
        const int64_t first = (part.begin - at) / kScoreStep * kScoreStep;
        const int64_t last = (part.end - at + kScoreStep - 1) / kScoreStep * kScoreStep;
        score_block(job, vectors, work.query + block * job.head_dim_k, k, ahead, first, last,
                    work.scores + block * kChunk + (at - origin));
        ahead = k;
      }
    }
  }

  // The scales of a page of values to f32, those of the page after it prefetched.
  static void widen_scales(const AttentionJob& job, const std::byte* page, const std::byte* following, float* out) {
    const int64_t count = kKvPageTokens * (job.head_dim_v / kBlock);
    const auto* scales = reinterpret_cast<const uint16_t*>(page + job.v_scales);
    for (int64_t i = 0; i < count; i += kLanes) V::store(out + i, V::load_f16(scales + i));
    if (following == nullptr) return;
    constexpr int64_t kLine = 64;
    for (int64_t i = 0; i < count * kKvScaleBytes; i += kLine) __builtin_prefetch(following + job.v_scales + i, 0, 2);
  }

  template <class T>
  static void value_chunk(const AttentionJob& job, const AttentionWork& work, Range seen, int64_t origin,
                          const std::byte* after, float* values) {
    const int64_t count = job.rows * job.group;
    for (int64_t at = seen.begin / kKvPageTokens * kKvPageTokens; at < seen.end; at += kKvPageTokens) {
      const int64_t next = at + kKvPageTokens;
      const std::byte* page = v_page(job, at);
      const std::byte* following = next < seen.end ? v_page(job, next) : nullptr;
      const Values<T> v = {reinterpret_cast<const T*>(page), work.scales};
      const T* ahead = reinterpret_cast<const T*>(following != nullptr ? following : after);
      if constexpr (kScaled<T>) widen_scales(job, page, following, work.scales);
      for (int64_t block = 0; block < count; block += block_rows(count - block)) {
        const int64_t vectors = block_rows(count - block);
        if (block_range(job, block, vectors, {at, next}).empty()) continue;
        value_page(job, block, vectors, {at, next}, origin, v, ahead, work.scores + block * kChunk,
                   values + block * job.value_stride);
        ahead = v.at;
      }
    }
  }

  template <class Body>
  static void with_elements(KvFormat format, Body body) {
    switch (format) {
      case KvFormat::f32:
        return body.template operator()<Full>();
      case KvFormat::f16:
        return body.template operator()<Half>();
      case KvFormat::bf16:
        return body.template operator()<Brain>();
      case KvFormat::q8_0:
        return body.template operator()<Quant>();
    }
  }

  static void chunk(const AttentionJob& job, const AttentionWork& work, int64_t index, const std::byte* after,
                    const AttentionPartial& out) {
    const Range all = {index * kChunk, (index + 1) * kChunk};
    const int64_t count = job.rows * job.group;
    const Range seen = block_range(job, 0, count, all);
    const std::byte* values = v_page(job, seen.begin);
    if (after == nullptr) after = values;
    with_elements(job.k_format, [&]<class K>() { score_chunk<K>(job, work, seen, all.begin, values); });
    for (int64_t i = 0; i < count; ++i) {
      out.sum[i] = 0.0F;
      out.maximum[i] = -__builtin_inff();
      const Range own = meet(visible(job, i), all);
      if (!own.empty()) {
        soften(work.scores + i * kChunk, {own.begin - all.begin, own.end - all.begin}, job.softcap, out.maximum + i,
               out.sum + i);
      }
    }
    for (int64_t i = 0; i < count * job.value_stride; i += kLanes) V::store(out.values + i, V::set1(0.0F));
    with_elements(job.v_format, [&]<class T>() { value_chunk<T>(job, work, seen, all.begin, after, out.values); });
  }

  // ---- packing, merging, finishing ----------------------------------------------------------------------------------

  static void pack(const AttentionJob& job, const AttentionWork& work) {
    const int64_t count = job.rows * job.group;
    for (int64_t block = 0; block < count; block += block_rows(count - block)) {
      const int64_t vectors = block_rows(count - block);
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
