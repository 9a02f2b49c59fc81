// The limit kernels of AVX-512: vpdpbusd, vdpbf16ps and 64-byte loads. See launch/limits.hpp.
#include "cpu/launch/limits.hpp"

#include <immintrin.h>

namespace minfer::cpu::avx512 {
namespace {

template <int kStreams>
int64_t read_streams(const std::byte* data, int64_t bytes) noexcept {
  const int64_t part = bytes / kStreams;
  __m512i sum0 = _mm512_setzero_si512(), sum1 = sum0;
  for (int64_t at = 0; at + 128 <= part; at += 128) {
    for (int s = 0; s < kStreams; ++s) {
      const std::byte* p = data + s * part + at;
      sum0 = _mm512_add_epi64(sum0, _mm512_loadu_si512(p));
      sum1 = _mm512_add_epi64(sum1, _mm512_loadu_si512(p + 64));
    }
  }
  return _mm512_reduce_add_epi64(_mm512_add_epi64(sum0, sum1));
}

int64_t read(const std::byte* data, int64_t bytes, int streams) noexcept {
  return streams == 1   ? read_streams<1>(data, bytes)
         : streams == 4 ? read_streams<4>(data, bytes)
                        : read_streams<8>(data, bytes);
}

constexpr int kChains = 12;

int64_t dot8(int64_t rounds) noexcept {
  __m512i sums[kChains];
  for (auto& sum : sums) sum = _mm512_setzero_si512();
  __m512i a = _mm512_set1_epi8(1);
  const __m512i b = _mm512_set1_epi8(2);
  for (int64_t r = 0; r < rounds; ++r) {
    asm volatile("" : "+v"(a));
    for (auto& sum : sums) sum = _mm512_dpbusd_epi32(sum, a, b);
  }
  int64_t total = 0;
  for (const auto& sum : sums) total += _mm512_reduce_add_epi32(sum);
  return total;
}

// Of bfloat16, with sums in f32: twice the rate of fp32 FMA, and what BF16 weights are multiplied by.
int64_t multiply_add(int64_t rounds) noexcept {
  __m512 sums[kChains];
  for (auto& sum : sums) sum = _mm512_set1_ps(1.0F);
  __m512i a = _mm512_set1_epi16(0x3F80);        // ones
  const __m512i b = _mm512_set1_epi16(0x3580);  // about 1e-6
  for (int64_t r = 0; r < rounds; ++r) {
    asm volatile("" : "+v"(a));
    for (auto& sum : sums) sum = _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
  }
  float total = 0;
  for (const auto& sum : sums) total += _mm512_reduce_add_ps(sum);
  return static_cast<int64_t>(total);
}

}  // namespace

extern const LimitKernels kLimitKernels{read, dot8, kChains * 128, multiply_add, kChains * 64};

}  // namespace minfer::cpu::avx512
