// The limit kernels of AVX-VNNI: 8-bit dots by vpdpbusd; reading and multiply-adds are AVX2's. See launch/limits.hpp.
#include "cpu/launch/limits.hpp"

#include <immintrin.h>

namespace minfer::cpu::avxvnni {
namespace {

constexpr int kDotChains = 12;

int64_t dot8(int64_t rounds) noexcept {
  __m256i sums[kDotChains];
  for (auto& sum : sums) sum = _mm256_setzero_si256();
  __m256i a = _mm256_set1_epi8(1);
  const __m256i b = _mm256_set1_epi8(2);
  for (int64_t r = 0; r < rounds; ++r) {
    asm volatile("" : "+x"(a));
    for (auto& sum : sums) sum = _mm256_dpbusd_avx_epi32(sum, a, b);
  }
  int64_t total = 0;
  for (const auto& sum : sums) total += _mm256_extract_epi32(sum, 0);
  return total;
}

}  // namespace

LimitKernels limit_kernels() {
  return {avx2::kLimitKernels.read, dot8, kDotChains * 64, avx2::kLimitKernels.multiply_add,
          avx2::kLimitKernels.multiply_add_ops_a_round};
}

}  // namespace minfer::cpu::avxvnni
