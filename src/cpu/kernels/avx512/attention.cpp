// Attention on AVX-512: 16 lanes; tiles of 6 vectors by 4 registers hold 24 of the 32 registers as sums. Algorithm:
// kernels/vector/attention_tile.hpp.
#include "cpu/kernels/avx512/vector_math.hpp"
#include "cpu/kernels/vector/attention_tile.hpp"

namespace minfer::cpu::avx512 {
namespace {

struct Lanes : Simd {
  static constexpr int kTileRows = 6;
  static constexpr int kTileRegs = 4;

  static __mmask16 lanes_below(int64_t count) {
    return static_cast<__mmask16>(count <= 0 ? 0U : count >= kLanes ? 0xFFFFU : (1U << count) - 1U);
  }
  static Float load_f16(const uint16_t* source) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(source)));
  }
  static Float load_f16_first(const uint16_t* source, int64_t count) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(lanes_below(count), source));
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
