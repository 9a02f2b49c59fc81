// Writing of KV pages on AVX-512: the conversions that kernels/vector/kv_rows.hpp is written over.
// Contract: launch/kv_kernels.hpp.
#include "cpu/kernels/avx512/vector_math.hpp"
#include "cpu/kernels/vector/kv_rows.hpp"

namespace minfer::cpu::avx512 {
namespace {

constexpr int kToNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

struct Lanes : Simd {
  static void store_half(uint16_t* target, Float a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(target), _mm512_cvtps_ph(a, kToNearest));
  }
  // In integers: the instruction for bfloat16 takes subnormal numbers for 0.
  static void store_brain(uint16_t* target, Float a) {
    const Int bits = _mm512_castps_si512(a);
    const Int high = _mm512_srli_epi32(bits, 16);
    const Int odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
    const Int sum = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
    const Int quiet = _mm512_or_si512(high, _mm512_set1_epi32(0x40));
    const Int rounded =
        _mm512_mask_mov_epi32(_mm512_srli_epi32(sum, 16), _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), quiet);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(target), _mm512_cvtepi32_epi16(rounded));
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

}  // namespace minfer::cpu::avx512
