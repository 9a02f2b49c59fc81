// AVX-512: the register type Simd that kernels/vector/ is written over, and the vector functions by their plain names
// (accuracy: kernels/vector/math.hpp). Include it only in sources compiled with MINFER_AVX512_FLAGS. Loads and stores
// take any alignment; the `_first` forms touch only the first `count` floats (0 to kLanes) of memory.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "cpu/kernels/vector/math.hpp"

namespace minfer::cpu::avx512 {

struct Simd {
  using Float = __m512;
  using Int = __m512i;
  static constexpr int64_t kLanes = 16;

  static Float set1(float value) { return _mm512_set1_ps(value); }
  static Float load(const float* source) { return _mm512_loadu_ps(source); }
  static Float load_first(const float* source, int64_t count) { return _mm512_maskz_loadu_ps(first(count), source); }
  static void store(float* target, Float value) { _mm512_storeu_ps(target, value); }
  static void store_first(float* target, int64_t count, Float value) {
    _mm512_mask_storeu_ps(target, first(count), value);
  }

  static Float add(Float a, Float b) { return _mm512_add_ps(a, b); }
  static Float sub(Float a, Float b) { return _mm512_sub_ps(a, b); }
  static Float mul(Float a, Float b) { return _mm512_mul_ps(a, b); }
  static Float div(Float a, Float b) { return _mm512_div_ps(a, b); }
  static Float sqrt(Float a) { return _mm512_sqrt_ps(a); }
  static Float fma(Float a, Float b, Float c) { return _mm512_fmadd_ps(a, b, c); }    // a b + c
  static Float fnma(Float a, Float b, Float c) { return _mm512_fnmadd_ps(a, b, c); }  // c - a b
  // Even lanes a b - c, odd lanes a b + c.
  static Float fma_subtract_add(Float a, Float b, Float c) { return _mm512_fmaddsub_ps(a, b, c); }
  static Float min(Float a, Float b) { return _mm512_min_ps(a, b); }  // b where one is NaN
  static Float max(Float a, Float b) { return _mm512_max_ps(a, b); }  // b where one is NaN
  static Float abs(Float a) { return _mm512_abs_ps(a); }
  static Float round(Float a) {  // to the nearest integer, ties to even
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static Float with_sign_of(Float magnitude, Float sign) {
    const Float bit = _mm512_set1_ps(-0.0f);
    return _mm512_or_ps(_mm512_andnot_ps(bit, magnitude), _mm512_and_ps(bit, sign));
  }
  // a < b ? less : otherwise, by lane; a NaN is not less.
  static Float select_less(Float a, Float b, Float less, Float otherwise) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), otherwise, less);
  }
  // value * 2^power; power a whole number. Subnormal results are rounded once, overflow is inf.
  static Float scale_by_power(Float value, Float power) { return _mm512_scalef_ps(value, power); }

  // All lanes in a fixed order: halves, quarters, ...
  static float sum(Float a) {
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    quarter = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
    return _mm_cvtss_f32(_mm_add_ss(quarter, _mm_movehdup_ps(quarter)));
  }

  // Lane pairs (a0, b0), (a1, b1), ...: each first element twice, each second twice, both exchanged.
  static Float firsts_of_pairs(Float a) { return _mm512_moveldup_ps(a); }
  static Float seconds_of_pairs(Float a) { return _mm512_movehdup_ps(a); }
  static Float swap_pairs(Float a) { return _mm512_permute_ps(a, 0xB1); }
  // kLanes pairs in two registers -> all firsts, all seconds, in order.
  static void split_pairs(Float low, Float high, Float& firsts, Float& seconds) {
    const Int even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const Int odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    firsts = _mm512_permutex2var_ps(low, even, high);
    seconds = _mm512_permutex2var_ps(low, odd, high);
  }

  // 32 floats -> largest bit pattern of |x|: as integers NaN > inf > finite, so it also finds what is not finite.
  static uint32_t largest_magnitude_bits(const Float (&block)[2]) {
    const Int low = _mm512_castps_si512(abs(block[0]));
    const Int high = _mm512_castps_si512(abs(block[1]));
    return _mm512_reduce_max_epu32(_mm512_max_epu32(low, high));
  }
  // 32 floats -> round(x / scale) as int8 (|x / scale| < 127.5); returns their sum.
  static int32_t quantize(const Float (&block)[2], float scale, int8_t* quants) {
    const Float divisor = set1(scale);
    const Int low = _mm512_cvtps_epi32(div(block[0], divisor));
    const Int high = _mm512_cvtps_epi32(div(block[1], divisor));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(quants), _mm512_cvtepi32_epi8(low));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(quants + 16), _mm512_cvtepi32_epi8(high));
    return _mm512_reduce_add_epi32(_mm512_add_epi32(low, high));
  }

  // One step of a running maximum by lane: where value > best, best = value and best_index = index.
  static void keep_greater(Float value, Int index, Float& best, Int& best_index) {
    const __mmask16 greater = _mm512_cmp_ps_mask(value, best, _CMP_GT_OQ);
    best = _mm512_mask_mov_ps(best, greater, value);
    best_index = _mm512_mask_mov_epi32(best_index, greater, index);
  }
  static Int lane_numbers() { return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); }
  static Int set1_int(int32_t value) { return _mm512_set1_epi32(value); }
  static Int add_int(Int a, Int b) { return _mm512_add_epi32(a, b); }
  static void store_int(int32_t* target, Int value) { _mm512_storeu_si512(target, value); }

 private:
  static __mmask16 first(int64_t count) { return static_cast<__mmask16>((1u << count) - 1u); }
};

inline __m512 exp(__m512 x) {
  return vector::exp<Simd>(x);
}
inline __m512 tanh(__m512 x) {
  return vector::tanh<Simd>(x);
}
inline __m512 sigmoid(__m512 x) {
  return vector::sigmoid<Simd>(x);
}
inline __m512 silu(__m512 x) {
  return vector::silu<Simd>(x);
}
inline __m512 gelu_tanh(__m512 x) {
  return vector::gelu_tanh<Simd>(x);
}

}  // namespace minfer::cpu::avx512
