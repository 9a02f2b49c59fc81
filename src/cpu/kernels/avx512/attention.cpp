// Attention on AVX-512: 16 lanes; blocks of 8 vectors by 2 registers, or fewer vectors by more, hold up to 24 of the 32
// registers as sums. Algorithm: kernels/vector/attention_tile.hpp.
#include "cpu/kernels/avx512/vector_math.hpp"
#include "cpu/kernels/vector/attention_tile.hpp"

namespace minfer::cpu::avx512 {
namespace {

struct Lanes : Simd {
  static constexpr int64_t kTileRows = 8;
  template <int M>
  static constexpr int score_regs() {
    return M <= 6 ? 4 : 2;
  }
  // Two vectors take a whole row of V of 128 in one sweep.
  template <int M>
  static constexpr int value_regs() {
    return M <= 2 ? 8 : M <= 6 ? 4 : 2;
  }

  static __mmask16 lanes_below(int64_t count) {
    return static_cast<__mmask16>(count <= 0 ? 0U : count >= kLanes ? 0xFFFFU : (1U << count) - 1U);
  }
  static Float load_f16(const uint16_t* source) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(source)));
  }
  static Float load_f16_first(const uint16_t* source, int64_t count) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lanes_below(count), source));
  }
  static Float widen(__m256i bfloats) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bfloats), 16));
  }
  static Float load_bf16(const uint16_t* source) {
    return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(source)));
  }
  static Float load_bf16_first(const uint16_t* source, int64_t count) {
    return widen(_mm256_maskz_loadu_epi16(lanes_below(count), source));
  }
  static Float load_i8(const int8_t* source) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(source))));
  }
  // Lanes [begin, end) of a, `other` elsewhere; begin and end may lie outside the register.
  static Float select_range(Float a, int64_t begin, int64_t end, float other) {
    const auto inside = static_cast<__mmask16>(lanes_below(end) & ~lanes_below(begin));
    return _mm512_mask_mov_ps(set1(other), inside, a);
  }
  static float greatest(Float a) { return _mm512_reduce_max_ps(a); }
  static float first_lane(Float a) { return _mm512_cvtss_f32(a); }
};

}  // namespace

constinit const AttentionKernels kAttentionKernels = AttentionTile<Lanes>::kernels();

}  // namespace minfer::cpu::avx512
