// The row kernels of the vector instruction sets, written once over S (see math.hpp); kernels/<isa>/rows.cpp
// instantiates them. Contracts: launch/rows_kernels.hpp; oracle: kernels/scalar/rows.cpp. Elementwise kernels are a
// function from (index, count) to a register, count being kLanes but for the tail; map_row stores it as f32, as 8 bits,
// or both.
#pragma once

#include "cpu/kernels/vector/math.hpp"
#include "cpu/launch/rows_kernels.hpp"

namespace minfer::cpu::vector {

inline constexpr int64_t kBlock = 32;  // elements a block of the 8-bit form

template <class S>
inline typename S::Float load_up_to(const float* source, int64_t count) {
  return count == S::kLanes ? S::load(source) : S::load_first(source, count);
}

// Writes block number `block` of a row: its quants, scale and sum.
template <class S>
inline void quantize_block(const typename S::Float (&values)[kBlock / S::kLanes], Q8Out q8, int64_t block) {
  constexpr uint32_t kInfinityBits = 0x7F800000u;
  constexpr float kSmallestNormal = 1.17549435e-38f;
  const uint32_t largest_bits = S::largest_magnitude_bits(values);
  float largest;
  __builtin_memcpy(&largest, &largest_bits, sizeof(largest));
  const float scale = largest / 127.0f;
  int8_t* quants = q8.quants + block * kBlock;
  if (largest_bits < kInfinityBits && scale >= kSmallestNormal) {
    q8.scales[block] = scale;
    q8.sums[block] = scale * static_cast<float>(S::quantize(values, scale, quants));
    return;
  }
  const float marker = largest_bits < kInfinityBits ? 0.0f : __builtin_nanf("");
  __builtin_memset(quants, 0, kBlock);
  q8.scales[block] = marker;
  q8.sums[block] = marker;
}

template <class S, class Value>
inline void map_row(int64_t n, Value value, float* out, Q8Out q8) {
  if (q8.quants != nullptr) {
    for (int64_t block = 0; block < n / kBlock; ++block) {
      typename S::Float values[kBlock / S::kLanes];
      for (int64_t j = 0; j < kBlock / S::kLanes; ++j) {
        const int64_t i = block * kBlock + j * S::kLanes;
        values[j] = value(i, S::kLanes);
        if (out != nullptr) S::store(out + i, values[j]);
      }
      quantize_block<S>(values, q8, block);
    }
    return;
  }
  int64_t i = 0;
  for (; i + S::kLanes <= n; i += S::kLanes) S::store(out + i, value(i, S::kLanes));
  if (i < n) S::store_first(out + i, n - i, value(i, n - i));
}

// Sum of x^2: four registers take turns, are added in pairs, then lane by lane.
template <class S>
inline float sum_of_squares(const float* x, int64_t n) {
  using F = typename S::Float;
  constexpr int64_t kStep = 4 * S::kLanes;
  F sums[4] = {S::set1(0.0f), S::set1(0.0f), S::set1(0.0f), S::set1(0.0f)};
  int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    for (int64_t j = 0; j < 4; ++j) {
      const F value = S::load(x + i + j * S::kLanes);
      sums[j] = S::fma(value, value, sums[j]);
    }
  }
  for (int64_t j = 0; i < n; ++j, i += S::kLanes) {
    const F value = load_up_to<S>(x + i, n - i < S::kLanes ? n - i : S::kLanes);
    sums[j] = S::fma(value, value, sums[j]);
  }
  return S::sum(S::add(S::add(sums[0], sums[1]), S::add(sums[2], sums[3])));
}

template <class S>
void rms_norm(const float* x, const float* weight, int64_t n, float eps, float* out, Q8Out q8) noexcept {
  const float mean = sum_of_squares<S>(x, n) / static_cast<float>(n);
  const typename S::Float factor = S::div(S::set1(1.0f), S::sqrt(S::set1(mean + eps)));
  const auto normalized = [=](int64_t i, int64_t count) {
    return S::mul(S::mul(load_up_to<S>(x + i, count), factor), load_up_to<S>(weight + i, count));
  };
  map_row<S>(n, normalized, out, q8);
}

// Sum of term(i, count) over a row, in sum_of_squares's order.
template <class S, class Term>
inline float sum_of(int64_t n, Term term) {
  using F = typename S::Float;
  constexpr int64_t kStep = 4 * S::kLanes;
  F sums[4] = {S::set1(0.0f), S::set1(0.0f), S::set1(0.0f), S::set1(0.0f)};
  int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    for (int64_t j = 0; j < 4; ++j) sums[j] = S::add(sums[j], term(i + j * S::kLanes, S::kLanes));
  }
  for (int64_t j = 0; i < n; ++j, i += S::kLanes) {
    sums[j] = S::add(sums[j], term(i, n - i < S::kLanes ? n - i : S::kLanes));
  }
  return S::sum(S::add(S::add(sums[0], sums[1]), S::add(sums[2], sums[3])));
}

template <class S>
void layer_norm(const float* x, const float* weight, const float* bias, int64_t n, float eps, float* out,
                Q8Out q8) noexcept {
  using F = typename S::Float;
  const float sum = sum_of<S>(n, [=](int64_t i, int64_t count) { return load_up_to<S>(x + i, count); });
  const F mean = S::set1(sum / static_cast<float>(n));
  // In a row's last register the lanes past its end would add mean^2: there the mean is loaded as x is.
  const auto square = [=](int64_t i, int64_t count) {
    float means[S::kLanes];
    S::store(means, mean);
    const F centered = S::sub(load_up_to<S>(x + i, count), load_up_to<S>(means, count));
    return S::mul(centered, centered);
  };
  const float variance = sum_of<S>(n, square) / static_cast<float>(n);
  const F factor = S::div(S::set1(1.0f), S::sqrt(S::set1(variance + eps)));
  const auto normalized = [=](int64_t i, int64_t count) {
    const F centered = S::sub(load_up_to<S>(x + i, count), mean);
    const F scaled = S::mul(S::mul(centered, factor), load_up_to<S>(weight + i, count));
    return bias == nullptr ? scaled : S::add(scaled, load_up_to<S>(bias + i, count));
  };
  map_row<S>(n, normalized, out, q8);
}

template <class S>
void quantize(const float* x, int64_t n, Q8Out q8) noexcept {
  map_row<S>(n, [=](int64_t i, int64_t count) { return load_up_to<S>(x + i, count); }, nullptr, q8);
}

template <class S>
void add(const float* a, const float* b, int64_t n, float* out) noexcept {
  const auto sum = [=](int64_t i, int64_t count) {
    return S::add(load_up_to<S>(a + i, count), load_up_to<S>(b + i, count));
  };
  map_row<S>(n, sum, out, Q8Out{});
}

template <class S>
void scale(const float* x, float factor, int64_t n, float* out) noexcept {
  const auto scaled = [=](int64_t i, int64_t count) { return S::mul(load_up_to<S>(x + i, count), S::set1(factor)); };
  map_row<S>(n, scaled, out, Q8Out{});
}

template <class S>
void softcap(const float* x, float factor, float cap, int64_t n, float* out) noexcept {
  const auto capped = [=](int64_t i, int64_t count) {
    const typename S::Float limit = S::set1(cap);
    const typename S::Float scaled = S::mul(load_up_to<S>(x + i, count), S::set1(factor));
    return S::mul(limit, vector::tanh<S>(S::div(scaled, limit)));
  };
  map_row<S>(n, capped, out, Q8Out{});
}

template <class S>
void gated(Activation activation, const float* gate, const float* up, int64_t n, float* out, Q8Out q8) noexcept {
  const auto with_silu = [=](int64_t i, int64_t count) {
    return S::mul(vector::silu<S>(load_up_to<S>(gate + i, count)), load_up_to<S>(up + i, count));
  };
  const auto with_gelu = [=](int64_t i, int64_t count) {
    return S::mul(vector::gelu_tanh<S>(load_up_to<S>(gate + i, count)), load_up_to<S>(up + i, count));
  };
  const auto with_oai = [=](int64_t i, int64_t count) {
    return vector::swiglu_oai<S>(load_up_to<S>(gate + i, count), load_up_to<S>(up + i, count));
  };
  switch (activation) {
    case Activation::silu:
      return map_row<S>(n, with_silu, out, q8);
    case Activation::gelu_tanh:
      return map_row<S>(n, with_gelu, out, q8);
    case Activation::swiglu_oai:
      return map_row<S>(n, with_oai, out, q8);
    case Activation::gelu_erf:
      break;  // of ungated layers only
  }
}

template <class S>
void activate(Activation activation, const float* x, int64_t n, float* out, Q8Out q8) noexcept {
  if (activation == Activation::silu) {
    map_row<S>(n, [=](int64_t i, int64_t count) { return vector::silu<S>(load_up_to<S>(x + i, count)); }, out, q8);
  } else if (activation == Activation::gelu_tanh) {
    map_row<S>(n, [=](int64_t i, int64_t count) { return vector::gelu_tanh<S>(load_up_to<S>(x + i, count)); }, out, q8);
  } else {
    map_row<S>(n, [=](int64_t i, int64_t count) { return vector::gelu_erf<S>(load_up_to<S>(x + i, count)); }, out, q8);
  }
}

template <class S>
int64_t argmax(const float* x, int64_t n) noexcept {
  typename S::Float best = S::set1(-__builtin_inff());
  typename S::Int best_index = S::set1_int(-1);
  typename S::Int index = S::lane_numbers();
  int64_t i = 0;
  for (; i + S::kLanes <= n; i += S::kLanes) {
    S::keep_greater(S::load(x + i), index, best, best_index);
    index = S::add_int(index, S::set1_int(static_cast<int32_t>(S::kLanes)));
  }
  float values[S::kLanes];
  int32_t indices[S::kLanes];
  S::store(values, best);
  S::store_int(indices, best_index);
  int64_t winner = -1;
  for (int64_t lane = 0; lane < S::kLanes; ++lane) {
    if (indices[lane] < 0) continue;
    const bool first = winner < 0 || values[lane] > x[winner] || (values[lane] == x[winner] && indices[lane] < winner);
    if (first) winner = indices[lane];
  }
  for (; i < n; ++i) {
    if (x[i] > -__builtin_inff() && (winner < 0 || x[i] > x[winner])) winner = i;
  }
  // Nothing above minus infinity: the first that is a number, if any.
  for (int64_t j = 0; winner < 0 && j < n; ++j) {
    if (x[j] == x[j]) winner = j;
  }
  return winner;
}

// What a partial rotation leaves as it is.
template <class S>
inline void copy_rest(const float* x, int64_t rotated, int64_t n, float* out) {
  if (out != x) __builtin_memcpy(out + rotated, x + rotated, static_cast<uint64_t>(n - rotated) * sizeof(float));
}

template <class S>
void rope_halves(const float* x, const float* angles, int64_t rotated, int64_t n, float* out) noexcept {
  using F = typename S::Float;
  const int64_t half = rotated / 2;
  for (int64_t i = 0; i < half; i += S::kLanes) {
    const int64_t count = half - i < S::kLanes ? half - i : S::kLanes;
    const int64_t low_count = 2 * count < S::kLanes ? 2 * count : S::kLanes;
    F cosine;
    F sine;
    const F low = load_up_to<S>(angles + 2 * i, low_count);
    const F high = S::load_first(angles + 2 * i + low_count, 2 * count - low_count);
    S::split_pairs(low, high, cosine, sine);
    const F a = load_up_to<S>(x + i, count);
    const F b = load_up_to<S>(x + half + i, count);
    S::store_first(out + i, count, S::fnma(b, sine, S::mul(a, cosine)));
    S::store_first(out + half + i, count, S::fma(b, cosine, S::mul(a, sine)));
  }
  copy_rest<S>(x, rotated, n, out);
}

template <class S>
void rope_pairs(const float* x, const float* angles, int64_t rotated, int64_t n, float* out) noexcept {
  using F = typename S::Float;
  for (int64_t i = 0; i < rotated; i += S::kLanes) {
    const int64_t count = rotated - i < S::kLanes ? rotated - i : S::kLanes;
    const F turn = load_up_to<S>(angles + i, count);
    const F value = load_up_to<S>(x + i, count);
    const F crossed = S::mul(S::swap_pairs(value), S::seconds_of_pairs(turn));
    S::store_first(out + i, count, S::fma_subtract_add(value, S::firsts_of_pairs(turn), crossed));
  }
  copy_rest<S>(x, rotated, n, out);
}

// The table of S.
template <class S>
inline constexpr RowKernels kRowKernels = {
    .rms_norm = &rms_norm<S>,
    .layer_norm = &layer_norm<S>,
    .quantize = &quantize<S>,
    .add = &add<S>,
    .scale = &scale<S>,
    .softcap = &softcap<S>,
    .gated = &gated<S>,
    .activate = &activate<S>,
    .argmax = &argmax<S>,
    .rope_halves = &rope_halves<S>,
    .rope_pairs = &rope_pairs<S>,
};

}  // namespace minfer::cpu::vector
