// The limit kernels of AVX2: 8-bit dots as four maddubs summed in 16 bits, then madd; FMA. See launch/limits.hpp.
#include "cpu/launch/limits.hpp"

#include <immintrin.h>

namespace minfer::cpu::avx2 {
namespace {

template <int kStreams>
int64_t read_streams(const std::byte* data, int64_t bytes) noexcept {
  const int64_t part = bytes / kStreams;
  __m256i sum0 = _mm256_setzero_si256(), sum1 = sum0;
  for (int64_t at = 0; at + 64 <= part; at += 64) {
    for (int s = 0; s < kStreams; ++s) {
      const auto* p = reinterpret_cast<const __m256i*>(data + s * part + at);
      sum0 = _mm256_add_epi64(sum0, _mm256_loadu_si256(p));
      sum1 = _mm256_add_epi64(sum1, _mm256_loadu_si256(p + 1));
    }
  }
  return _mm256_extract_epi64(_mm256_add_epi64(sum0, sum1), 0);
}

int64_t read(const std::byte* data, int64_t bytes, int streams) noexcept {
  return streams == 1   ? read_streams<1>(data, bytes)
         : streams == 4 ? read_streams<4>(data, bytes)
                        : read_streams<8>(data, bytes);
}

constexpr int kDotChains = 4;
constexpr int kDotsAChain = 4;

int64_t dot8(int64_t rounds) noexcept {
  __m256i sums[kDotChains], weights[kDotsAChain];
  for (auto& sum : sums) sum = _mm256_setzero_si256();
  for (int i = 0; i < kDotsAChain; ++i) weights[i] = _mm256_set1_epi8(static_cast<char>(i + 1));
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i a = _mm256_set1_epi8(1);
  for (int64_t r = 0; r < rounds; ++r) {
    for (auto& sum : sums) {
      __m256i narrow = _mm256_setzero_si256();
      for (const auto& weight : weights) {
        asm volatile("" : "+x"(a));
        narrow = _mm256_add_epi16(narrow, _mm256_maddubs_epi16(a, weight));
      }
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(narrow, ones));
    }
  }
  int64_t total = 0;
  for (const auto& sum : sums) total += _mm256_extract_epi32(sum, 0);
  return total;
}

constexpr int kFmaChains = 12;

int64_t multiply_add(int64_t rounds) noexcept {
  __m256 sums[kFmaChains];
  for (auto& sum : sums) sum = _mm256_set1_ps(1.0F);
  __m256 a = _mm256_set1_ps(1.0001F);
  const __m256 b = _mm256_set1_ps(1e-6F);
  for (int64_t r = 0; r < rounds; ++r) {
    asm volatile("" : "+x"(a));
    for (auto& sum : sums) sum = _mm256_fmadd_ps(sum, a, b);
  }
  float total = 0;
  for (const auto& sum : sums) total += _mm256_cvtss_f32(sum);
  return static_cast<int64_t>(total);
}

}  // namespace

extern const LimitKernels kLimitKernels{read, dot8, kDotChains* kDotsAChain * 64, multiply_add, kFmaChains * 16};

}  // namespace minfer::cpu::avx2
