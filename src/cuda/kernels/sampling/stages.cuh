// The stages on candidates, as the engine's sampler has them (engine/sampler/filters.cpp), by one block. Candidates lie
// sorted, best first, so that every stage but typical keeps a prefix or a suffix, which a binary search over cumulated
// probabilities finds; every thread does the same search. Exponentials and logarithms are taken in double precision and
// rounded to float, which is what a good float function gives, so that results equal the engine's.
#pragma once

#include "cuda/kernels/sampling/block.cuh"
#include "cuda/kernels/sampling/params.cuh"

namespace minfer::cuda::sampling {

// The drawn token.
struct Chosen {
  int32_t id;  // kNone where it can't be told
  float p;     // among the candidates that were left
};

inline constexpr int32_t kZipfHead = 100;  // candidates that Mirostat 1 looks at (its paper)

// Candidates [begin, begin + count) of sorted keys. In shared memory, or, with many, in global.
struct Candidates {
  uint64_t* keys;
  double* sums;     // as many: cumulated probabilities from softmax() on
  double* partial;  // [kWarps] shared
  int32_t begin;
  int32_t count;
  float temperature;  // 0: not applied yet
  double total;       // softmax's denominator
};

__device__ __forceinline__ float logit_at(const Candidates& list, int32_t i) {
  return key_logit(list.keys[list.begin + i]);
}

// exp of the logit below the largest; the softmax's numerator.
__device__ __forceinline__ float weight_at(const Candidates& list, int32_t i, float largest) {
  float x = __fsub_rn(logit_at(list, i), largest);
  if (list.temperature != 0.0F) x = __fdiv_rn(x, list.temperature);
  return static_cast<float>(exp(static_cast<double>(x)));
}

__device__ __forceinline__ float probability_at(const Candidates& list, int32_t i) {
  return static_cast<float>(static_cast<double>(weight_at(list, i, logit_at(list, 0))) / list.total);
}

// The first index in [low, high) for which `holds`, which is false then true; high where it never is.
template <class Predicate>
__device__ __forceinline__ int32_t partition_point(int32_t low, int32_t high, Predicate holds) {
  while (low < high) {
    const int32_t middle = (low + high) / 2;
    if (holds(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// Cumulated probabilities. `with_tail`: the least denominator, the sum with those that are not in the list.
template <int kItems>
__device__ inline void softmax(Candidates& list, double with_tail) {
  const float largest = logit_at(list, 0);
  const auto own = static_cast<int32_t>(threadIdx.x) * kItems;
  double sum = 0;
  for (int32_t base = 0; base < list.count; base += kThreads * kItems) {
#pragma unroll
    for (int j = 0; j < kItems; ++j) {
      const int32_t i = base + own + j;
      if (i >= list.count) break;
      const auto weight = static_cast<double>(weight_at(list, i, largest));
      list.sums[i] = weight;
      sum += weight;
    }
  }
  list.total = fmax(block_sum(sum, list.partial), with_tail);
  double before = 0;
  for (int32_t base = 0; base < list.count; base += kThreads * kItems) {
    double through[kItems];
    double of_thread = 0;
#pragma unroll
    for (int j = 0; j < kItems; ++j) {
      const int32_t i = base + own + j;
      if (i < list.count) of_thread += static_cast<double>(static_cast<float>(list.sums[i] / list.total));
      through[j] = of_thread;
    }
    double of_block = 0;
    const double scanned = block_scan(of_thread, list.partial, of_block);
    const double start = before + (scanned - of_thread);
#pragma unroll
    for (int j = 0; j < kItems; ++j) {
      const int32_t i = base + own + j;
      if (i < list.count) list.sums[i] = start + through[j];
    }
    before += of_block;
  }
  __syncthreads();
}

// How many of the first candidates have a sum of at least `target`: all, and false, where they don't.
__device__ __forceinline__ bool prefix_reaching(const Candidates& list, double target, int32_t& count) {
  const int32_t at = partition_point(0, list.count, [&](int32_t i) { return list.sums[i] >= target; });
  count = min(at + 1, list.count);
  return at < list.count;
}

__device__ __forceinline__ int32_t count_min_p(const Candidates& list, float min_p) {
  const float least = __fadd_rn(logit_at(list, 0), static_cast<float>(log(static_cast<double>(min_p))));
  return max(1, partition_point(0, list.count, [&](int32_t i) { return !(logit_at(list, i) >= least); }));
}

// Distances from the entropy fall up to `middle` and rise from it. Taken in order of distance the candidates are
// `left` from the middle down and `right` from it up; of equal distances those on the left are first.
struct TypicalSplit {
  double entropy;
  int32_t middle;
};
__device__ __forceinline__ double surprise_at(const Candidates& list, int32_t i) {
  return -log(static_cast<double>(probability_at(list, i)));
}
__device__ __forceinline__ double distance_at(const Candidates& list, const TypicalSplit& split, int32_t i) {
  return fabs(surprise_at(list, i) - split.entropy);
}
// How many of the `taken` nearest are on the left.
__device__ inline int32_t left_of_nearest(const Candidates& list, const TypicalSplit& split, int32_t taken) {
  const int32_t least = max(0, taken - (list.count - split.middle));
  const int32_t most = min(taken, split.middle);
  // The l + 1st on the left is not taken where taken - l on the right are nearer.
  return partition_point(least, most, [&](int32_t left) {
    const int32_t right = taken - left;
    return distance_at(list, split, split.middle - 1 - left) > distance_at(list, split, split.middle + right - 1);
  });
}

// Moves the kept part of a run of equal distances up to the kept ones behind it. Rare: the cut is in a run.
__device__ inline void close_gap(const Candidates& list, int32_t from, int32_t to, int32_t count) {
  auto* copies = reinterpret_cast<uint64_t*>(list.sums);
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < count; i += kThreads) {
    copies[i] = list.keys[list.begin + from + i];
  }
  __syncthreads();
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < count; i += kThreads) {
    list.keys[list.begin + to + i] = copies[i];
  }
  __syncthreads();
}

template <int kItems>
__device__ inline void keep_typical(Candidates& list, float typical_p) {
  softmax<kItems>(list, 0.0);
  double terms = 0;
  for (int32_t i = static_cast<int32_t>(threadIdx.x); i < list.count; i += kThreads) {
    const float p = probability_at(list, i);
    if (p > 0.0F) terms -= static_cast<double>(p) * log(static_cast<double>(p));
  }
  TypicalSplit split{};
  split.entropy = block_sum(terms, list.partial);
  split.middle = partition_point(0, list.count, [&](int32_t i) { return surprise_at(list, i) >= split.entropy; });
  const auto sum_below = [&](int32_t i) { return i == 0 ? 0.0 : list.sums[i - 1]; };
  // The fewest nearest ones that reach typical_p.
  const int32_t before = partition_point(0, list.count - 1, [&](int32_t fewer) {
    const int32_t left = left_of_nearest(list, split, fewer + 1);
    const int32_t right = fewer + 1 - left;
    return sum_below(split.middle + right) - sum_below(split.middle - left) >= static_cast<double>(typical_p);
  });
  const int32_t taken = before + 1;
  const int32_t left = left_of_nearest(list, split, taken);
  int32_t first = split.middle - left;
  if (left > 0) {
    // The farthest on the left is of a run of equal distances, of which the first ones are kept.
    const double farthest = distance_at(list, split, first);
    const int32_t run = partition_point(0, first, [&](int32_t i) { return distance_at(list, split, i) <= farthest; });
    if (run < first) {
      const int32_t end =
          partition_point(first, split.middle, [&](int32_t i) { return distance_at(list, split, i) < farthest; });
      __syncthreads();  // all have searched
      close_gap(list, run, first, end - first);
    }
  }
  list.begin += first;
  list.count = taken;
  __syncthreads();
}

template <int kItems>
__device__ inline void apply_xtc(Candidates& list, const SamplingRow& row) {
  if (row.xtc_probability <= 0.0F || row.xtc_threshold > 0.5F || list.count < 2) return;
  if (row.xtc_uniform >= row.xtc_probability) return;
  softmax<kItems>(list, 0.0);
  const int32_t above =
      partition_point(0, list.count, [&](int32_t i) { return !(probability_at(list, i) >= row.xtc_threshold); });
  if (above >= 2) {
    list.begin += above - 1;
    list.count -= above - 1;
  }
  __syncthreads();
}

// Index of the drawn candidate; count where the draw falls beyond the list, possible with a tail only.
template <int kItems>
__device__ inline int32_t draw(Candidates& list, const SamplingRow& row, double with_tail) {
  list.temperature = row.temperature;
  softmax<kItems>(list, with_tail);
  const int32_t at = partition_point(0, list.count, [&](int32_t i) { return list.sums[i] > row.uniform; });
  if (at == list.count && with_tail > 0.0) return at;
  if (at < list.count && probability_at(list, at) > 0.0F) return at;
  return max(0, partition_point(0, list.count, [&](int32_t i) { return !(probability_at(list, i) > 0.0F); }) - 1);
}

// Mirostat's cut (engine/sampler/mirostat.cpp), after softmax() at the row's temperature. `all`: candidates of which
// the list may be but the best.
__device__ __forceinline__ int32_t count_mirostat_2(const Candidates& list, float mu) {
  const auto surprise = [&](int32_t i) {
    return -static_cast<float>(log2(static_cast<double>(probability_at(list, i))));
  };
  return partition_point(0, list.count, [&](int32_t i) { return !(surprise(i) <= mu); });
}
__device__ inline int32_t count_mirostat_1(const Candidates& list, float mu, int32_t all) {
  const auto i = static_cast<int32_t>(threadIdx.x);
  double tb = 0;
  double tt = 0;
  if (i + 1 < min(kZipfHead, list.count) && probability_at(list, i + 1) > 0.0F) {
    const double t = log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    tb = t * log(static_cast<double>(probability_at(list, i)) / static_cast<double>(probability_at(list, i + 1)));
    tt = t * t;
  }
  tb = block_sum(tb, list.partial);
  tt = block_sum(tt, list.partial);
  const double s = tt > 0.0 ? tb / tt : 1.0;
  const double epsilon = s - 1.0;
  const double base = epsilon * exp2(static_cast<double>(mu)) / (1.0 - pow(static_cast<double>(all), -epsilon));
  const double k = pow(base, 1.0 / s);
  return isfinite(k) ? static_cast<int32_t>(fmin(fmax(k, 1.0), static_cast<double>(all))) : all;
}

template <int kItems>
__device__ inline Chosen chosen_at(Candidates& list, const SamplingRow& row, double with_tail) {
  const int32_t at = draw<kItems>(list, row, with_tail);
  if (at == list.count) return {kNone, 0.0F};
  return {key_id(list.keys[list.begin + at]), probability_at(list, at)};
}

// As run_trial(), with Mirostat in place of the filters; `list` is whole where `all` is its count.
template <int kItems>
__device__ inline Chosen run_mirostat(Candidates& list, const SamplingRow& row, int32_t all, double tail) {
  list.temperature = row.temperature;
  softmax<kItems>(list, tail);
  const int32_t count =
      row.mirostat == 1 ? count_mirostat_1(list, row.mirostat_mu, all) : count_mirostat_2(list, row.mirostat_mu);
  if (list.count < all && count >= list.count) return {kNone, 0.0F};
  list.count = max(count, 1);
  __syncthreads();
  return chosen_at<kItems>(list, row, 0.0);
}

// The drawn token; `list` is whole.
template <int kItems>
__device__ inline Chosen run_stages(Candidates& list, const SamplingRow& row) {
  if (row.mirostat != 0) return run_mirostat<kItems>(list, row, list.count, 0.0);
  if (row.typical_p < 1.0F) keep_typical<kItems>(list, row.typical_p);
  if (row.top_p < 1.0F) {
    softmax<kItems>(list, 0.0);
    int32_t count = 0;
    prefix_reaching(list, static_cast<double>(row.top_p), count);
    list.count = count;
    __syncthreads();
  }
  if (row.min_p > 0.0F) list.count = count_min_p(list, row.min_p);
  apply_xtc<kItems>(list, row);
  return chosen_at<kItems>(list, row, 0.0);
}

// As run_stages() for a list that is but the best of `all` candidates; `tail` as of tail_temperature. kNone where it
// takes more of them to tell.
template <int kItems>
__device__ inline Chosen run_trial(Candidates& list, const SamplingRow& row, int32_t all, double tail) {
  if (row.mirostat != 0) return run_mirostat<kItems>(list, row, all, tail);
  bool open = true;
  if (row.top_p < 1.0F) {
    softmax<kItems>(list, tail);
    int32_t count = 0;
    open = !prefix_reaching(list, static_cast<double>(row.top_p), count);
    list.count = count;
    __syncthreads();
  }
  if (row.min_p > 0.0F) {
    const int32_t count = count_min_p(list, row.min_p);
    open = open && count == list.count;
    list.count = count;
  }
  const bool filtered = row.top_p < 1.0F || row.min_p > 0.0F;
  if (open && filtered) return {kNone, 0.0F};
  if (filtered) apply_xtc<kItems>(list, row);
  return chosen_at<kItems>(list, row, open ? tail : 0.0);
}

}  // namespace minfer::cuda::sampling
