// Writing of KV pages on AVX2 with F16C. Layout: launch/kv_layout.hpp; contract: launch/kv_kernels.hpp. V rows are
// converted as they come. K rows are converted 8 dimensions at a time and their lanes stored 16 tokens apart: with all
// 16 tokens of a group in one call every cache line is filled while it is in the first-level cache.
#include <immintrin.h>

#include "cpu/launch/kv_kernels.hpp"

namespace minfer::cpu::avx2 {
namespace {

constexpr int kRound = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

uint16_t half(float value) {
  return static_cast<uint16_t>(_mm_extract_epi16(_mm_cvtps_ph(_mm_set_ss(value), kRound), 0));
}

void scatter_row(const float* source, int64_t dim, uint16_t* destination) {
  int64_t d = 0;
  for (; d + 8 <= dim; d += 8) {
    alignas(16) uint16_t halves[8];
    _mm_store_si128(reinterpret_cast<__m128i*>(halves), _mm256_cvtps_ph(_mm256_loadu_ps(source + d), kRound));
    for (int i = 0; i < 8; ++i) destination[(d + i) * kKvGroupTokens] = halves[i];
  }
  for (; d < dim; ++d) destination[d * kKvGroupTokens] = half(source[d]);
}

void convert_row(const float* source, int64_t dim, uint16_t* destination) {
  int64_t d = 0;
  for (; d + 8 <= dim; d += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(destination + d), _mm256_cvtps_ph(_mm256_loadu_ps(source + d), kRound));
  }
  for (; d < dim; ++d) destination[d] = half(source[d]);
}

}  // namespace

void write_kv_k(KvFormat format, const KvRows& rows, std::byte* destination) {
  for (int64_t r = 0; r < rows.rows; ++r) {
    const float* source = rows.source + r * rows.source_stride;
    if (format == KvFormat::f16) {
      scatter_row(source, rows.dim, reinterpret_cast<uint16_t*>(destination) + r);
    } else {
      float* out = reinterpret_cast<float*>(destination) + r;
      for (int64_t d = 0; d < rows.dim; ++d) out[d * kKvGroupTokens] = source[d];
    }
  }
}

void write_kv_v(KvFormat format, const KvRows& rows, std::byte* destination) {
  for (int64_t r = 0; r < rows.rows; ++r) {
    const float* source = rows.source + r * rows.source_stride;
    if (format == KvFormat::f16) {
      convert_row(source, rows.dim, reinterpret_cast<uint16_t*>(destination) + r * rows.dim);
    } else {
      __builtin_memcpy(reinterpret_cast<float*>(destination) + r * rows.dim, source,
                       static_cast<size_t>(rows.dim) * sizeof(float));
    }
  }
}

}  // namespace minfer::cpu::avx2
