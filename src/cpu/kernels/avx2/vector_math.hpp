// AVX2 with FMA: the register type Simd that kernels/vector/ is written over, and the vector functions by their plain
// names (accuracy: kernels/vector/math.hpp). Include it only in sources compiled with MINFER_AVX2_FLAGS. Loads and
// stores take any alignment; the `_first` forms touch only the first `count` floats (0 to kLanes) of memory.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "cpu/kernels/vector/math.hpp"

namespace minfer::cpu::avx2 {

struct Simd {
  using Float = __m256;
  using Int = __m256i;
  static constexpr int64_t kLanes = 8;

  static Float set1(float value) { return _mm256_set1_ps(value); }
  static Float load(const float* source) { return _mm256_loadu_ps(source); }
  static Float load_first(const float* source, int64_t count) { return _mm256_maskload_ps(source, first(count)); }
  static void store(float* target, Float value) { _mm256_storeu_ps(target, value); }
  static void store_first(float* target, int64_t count, Float value) {
    _mm256_maskstore_ps(target, first(count), value);
  }

  static Float add(Float a, Float b) { return _mm256_add_ps(a, b); }
  static Float sub(Float a, Float b) { return _mm256_sub_ps(a, b); }
  static Float mul(Float a, Float b) { return _mm256_mul_ps(a, b); }
  static Float div(Float a, Float b) { return _mm256_div_ps(a, b); }
  static Float sqrt(Float a) { return _mm256_sqrt_ps(a); }
  static Float fma(Float a, Float b, Float c) { return _mm256_fmadd_ps(a, b, c); }    // a b + c
  static Float fnma(Float a, Float b, Float c) { return _mm256_fnmadd_ps(a, b, c); }  // c - a b
  // Even lanes a b - c, odd lanes a b + c.
  static Float fma_subtract_add(Float a, Float b, Float c) { return _mm256_fmaddsub_ps(a, b, c); }
  static Float min(Float a, Float b) { return _mm256_min_ps(a, b); }  // b where one is NaN
  static Float max(Float a, Float b) { return _mm256_max_ps(a, b); }  // b where one is NaN
  static Float abs(Float a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
  static Float round(Float a) {  // to the nearest integer, ties to even
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static Float with_sign_of(Float magnitude, Float sign) {
    const Float bit = _mm256_set1_ps(-0.0f);
    return _mm256_or_ps(_mm256_andnot_ps(bit, magnitude), _mm256_and_ps(bit, sign));
  }
  // a < b ? less : otherwise, by lane; a NaN is not less.
  static Float select_less(Float a, Float b, Float less, Float otherwise) {
    return _mm256_blendv_ps(otherwise, less, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
  }
  // value * 2^power; power a whole number from -252 to 254. In two factors, neither of which leaves the normal range:
  // subnormal results are rounded once, overflow is inf.
  static Float scale_by_power(Float value, Float power) {
    const Int whole = _mm256_cvtps_epi32(power);
    const Int half = _mm256_srai_epi32(whole, 1);
    return mul(mul(value, power_of_two(half)), power_of_two(_mm256_sub_epi32(whole, half)));
  }

  // All lanes in a fixed order: halves, quarters, ...
  static float sum(Float a) {
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
  }

  // Lane pairs (a0, b0), (a1, b1), ...: each first element twice, each second twice, both exchanged.
  static Float firsts_of_pairs(Float a) { return _mm256_moveldup_ps(a); }
  static Float seconds_of_pairs(Float a) { return _mm256_movehdup_ps(a); }
  static Float swap_pairs(Float a) { return _mm256_permute_ps(a, 0xB1); }
  // kLanes pairs in two registers -> all firsts, all seconds, in order.
  static void split_pairs(Float low, Float high, Float& firsts, Float& seconds) {
    const Float outer = _mm256_permute2f128_ps(low, high, 0x20);
    const Float inner = _mm256_permute2f128_ps(low, high, 0x31);
    firsts = _mm256_shuffle_ps(outer, inner, 0x88);
    seconds = _mm256_shuffle_ps(outer, inner, 0xDD);
  }

  // 32 floats -> largest bit pattern of |x|: as integers NaN > inf > finite, so it also finds what is not finite.
  static uint32_t largest_magnitude_bits(const Float (&block)[4]) {
    Int largest = _mm256_castps_si256(abs(block[0]));
    for (int i = 1; i < 4; ++i) largest = _mm256_max_epi32(largest, _mm256_castps_si256(abs(block[i])));
    __m128i half = _mm_max_epi32(_mm256_castsi256_si128(largest), _mm256_extracti128_si256(largest, 1));
    half = _mm_max_epi32(half, _mm_shuffle_epi32(half, 0x4E));
    half = _mm_max_epi32(half, _mm_shuffle_epi32(half, 0xB1));
    return static_cast<uint32_t>(_mm_cvtsi128_si32(half));
  }
  // 32 floats -> round(x / scale) as int8 (|x / scale| < 127.5); returns their sum.
  static int32_t quantize(const Float (&block)[4], float scale, int8_t* quants) {
    const Float divisor = set1(scale);
    Int whole[4];
    for (int i = 0; i < 4; ++i) whole[i] = _mm256_cvtps_epi32(div(block[i], divisor));
    const Int words_low = _mm256_packs_epi32(whole[0], whole[1]);
    const Int words_high = _mm256_packs_epi32(whole[2], whole[3]);
    // The packs work in 128-bit halves and leave groups of four bytes in the order 0 2 4 6 1 3 5 7.
    const Int bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(words_low, words_high),
                                                  _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256(reinterpret_cast<Int*>(quants), bytes);
    const Int sums = _mm256_add_epi32(_mm256_add_epi32(whole[0], whole[1]), _mm256_add_epi32(whole[2], whole[3]));
    __m128i half = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4E));
    half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0xB1));
    return _mm_cvtsi128_si32(half);
  }

  // One step of a running maximum by lane: where value > best, best = value and best_index = index.
  static void keep_greater(Float value, Int index, Float& best, Int& best_index) {
    const Float greater = _mm256_cmp_ps(value, best, _CMP_GT_OQ);
    best = _mm256_blendv_ps(best, value, greater);
    best_index = _mm256_blendv_epi8(best_index, index, _mm256_castps_si256(greater));
  }
  static Int lane_numbers() { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }
  static Int set1_int(int32_t value) { return _mm256_set1_epi32(value); }
  static Int add_int(Int a, Int b) { return _mm256_add_epi32(a, b); }
  static void store_int(int32_t* target, Int value) { _mm256_storeu_si256(reinterpret_cast<Int*>(target), value); }

 private:
  static Int first(int64_t count) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int32_t>(count)), lane_numbers());
  }
  static Float power_of_two(Int exponent) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(exponent, _mm256_set1_epi32(127)), 23));
  }
};

inline __m256 exp(__m256 x) {
  return vector::exp<Simd>(x);
}
inline __m256 tanh(__m256 x) {
  return vector::tanh<Simd>(x);
}
inline __m256 sigmoid(__m256 x) {
  return vector::sigmoid<Simd>(x);
}
inline __m256 silu(__m256 x) {
  return vector::silu<Simd>(x);
}
inline __m256 gelu_tanh(__m256 x) {
  return vector::gelu_tanh<Simd>(x);
}

}  // namespace minfer::cpu::avx2
