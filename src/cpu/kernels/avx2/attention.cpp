// Attention on AVX2: 8 lanes; blocks of 6 vectors by 2 registers, or fewer vectors by more, hold up to 12 of the 16
// registers as sums. Algorithm: kernels/vector/attention_tile.hpp.
#include "cpu/kernels/avx2/vector_math.hpp"
#include "cpu/kernels/vector/attention_tile.hpp"

namespace minfer::cpu::avx2 {
namespace {

struct Lanes : Simd {
  static constexpr int64_t kTileRows = 6;
  template <int M>
  static constexpr int score_regs() {
    return M <= 2 ? 4 : M <= 6 ? 2 : 1;
  }
  template <int M>
  static constexpr int value_regs() {
    return M == 1 ? 8 : score_regs<M>();
  }

  static Float load_f16(const uint16_t* source) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(source)));
  }
  // head_dim_v is a multiple of 8, so no register is ever partly filled.
  static Float load_f16_first(const uint16_t* source, int64_t) { return load_f16(source); }
  static Float load_bf16(const uint16_t* source) {
    const Int bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(source)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16));
  }
  static Float load_bf16_first(const uint16_t* source, int64_t) { return load_bf16(source); }
  static Float load_i8(const int8_t* source) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(source))));
  }
  // Lanes [begin, end) of a, `other` elsewhere; begin and end may lie outside the register.
  static Float select_range(Float a, int64_t begin, int64_t end, float other) {
    if (begin <= 0 && end >= kLanes) return a;
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const int32_t first_in = begin <= 0 ? 0 : static_cast<int32_t>(begin);
    const int32_t first_out = end >= kLanes ? 8 : static_cast<int32_t>(end);
    const __m256i inside = _mm256_and_si256(_mm256_cmpgt_epi32(lane, _mm256_set1_epi32(first_in - 1)),
                                            _mm256_cmpgt_epi32(_mm256_set1_epi32(first_out), lane));
    return _mm256_blendv_ps(set1(other), a, _mm256_castsi256_ps(inside));
  }
  static float greatest(Float a) {
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
  }
  static float first_lane(Float a) { return _mm256_cvtss_f32(a); }
};

}  // namespace

constinit const AttentionKernels kAttentionKernels = AttentionTile<Lanes>::kernels();

}  // namespace minfer::cpu::avx2
