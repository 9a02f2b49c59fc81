// Activations in 8 bits: what a quantized linear reads on the vector instruction sets. A row of k values (k a multiple
// of 32) is cut in blocks of 32; block b has scale d_b = max|x| / 127 and quants round(x / d_b), ties to even (0 where
// the block is all zeros). In memory a row is, at a stride of q8_row_bytes(k), a multiple of 64:
//   int8  quants[k]        padded with zeros to a multiple of 64
//   float scales[k / 32]   d_b
//   float sums[k / 32]     d_b * sum of the block's quants, the sum taken exactly in integers first
// Finer than the 256-element blocks that the field uses for K-quants, so it is nearer to exact.
#pragma once

#include <cstdint>

namespace minfer::cpu {

inline constexpr int64_t kQ8BlockElements = 32;

constexpr int64_t q8_quants_bytes(int64_t k) {
  return (k + 63) / 64 * 64;
}
constexpr int64_t q8_row_bytes(int64_t k) {
  return (q8_quants_bytes(k) + 2 * (k / kQ8BlockElements) * static_cast<int64_t>(sizeof(float)) + 63) / 64 * 64;
}

// One row of q8 activations, read-only; pointers into a buffer of q8_row_bytes(k).
struct Q8Row {
  const int8_t* quants;
  const float* scales;
  const float* sums;
};

inline Q8Row q8_row(const void* rows, int64_t row, int64_t k) {
  const char* base = static_cast<const char*>(rows) + row * q8_row_bytes(k);
  const float* scales = reinterpret_cast<const float*>(base + q8_quants_bytes(k));
  return {reinterpret_cast<const int8_t*>(base), scales, scales + k / kQ8BlockElements};
}

}  // namespace minfer::cpu
