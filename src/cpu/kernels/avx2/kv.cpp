// Writing of KV pages on AVX2 with F16C: the conversions that kernels/vector/kv_rows.hpp is written over.
// Contract: launch/kv_kernels.hpp.
#include "cpu/kernels/avx2/vector_math.hpp"
#include "cpu/kernels/vector/kv_rows.hpp"

namespace minfer::cpu::avx2 {
namespace {

constexpr int kToNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

struct Lanes : Simd {
  static void store_half(uint16_t* target, Float a) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target), _mm256_cvtps_ph(a, kToNearest));
  }
  static void store_brain(uint16_t* target, Float a) {
    const Int bits = _mm256_castps_si256(a);
    const Int high = _mm256_srli_epi32(bits, 16);
    const Int odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    const Int sum = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
    const Int quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
    const Int nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
    const Int rounded = _mm256_blendv_epi8(_mm256_srli_epi32(sum, 16), quiet, nan);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target),
                     _mm_packus_epi32(_mm256_castsi256_si128(rounded), _mm256_extracti128_si256(rounded, 1)));
  }
  static uint16_t half(float value) {
    return static_cast<uint16_t>(_mm_extract_epi16(_mm_cvtps_ph(_mm_set_ss(value), kToNearest), 0));
  }
};

}  // namespace

void write_kv_k(KvFormat format, const KvRows& rows, const KvTarget& target) {
  KvWriter<Lanes>::write_k(format, rows, target);
}

void write_kv_v(KvFormat format, const KvRows& rows, const KvTarget& target) {
  KvWriter<Lanes>::write_v(format, rows, target);
}

}  // namespace minfer::cpu::avx2
