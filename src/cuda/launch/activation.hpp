// Rows of values between kernels. Every row starts at a multiple of 16 bytes.
//
//   f32   width floats
//   bf16  width bfloat16
//   q8    width in blocks of 32 (the last may be short: padded with zero quants): int8 quants[blocks * 32], then
//         float2 {d, d * sum of the block's quants}[blocks], d = max|x| / 127, quants = round(x / d), ties to even, 0
//         where the block is all zeros. The sum is taken in integers. The same numbers as the CPU's.
#pragma once

#include <cstddef>
#include <cstdint>

namespace minfer::cuda {

enum class ActivationFormat : uint8_t { f32, bf16, q8 };

inline constexpr int64_t kQ8Block = 32;

constexpr int64_t align16(int64_t bytes) {
  return (bytes + 15) / 16 * 16;
}
constexpr int64_t q8_blocks(int64_t width) {
  return (width + kQ8Block - 1) / kQ8Block;
}
// Where the float2 plane of a q8 row begins.
constexpr int64_t q8_quants_bytes(int64_t width) {
  return q8_blocks(width) * kQ8Block;
}

// Bytes from one row to the next.
constexpr int64_t row_stride(ActivationFormat format, int64_t width) {
  switch (format) {
    case ActivationFormat::f32:
      return align16(width * 4);
    case ActivationFormat::bf16:
      return align16(width * 2);
    case ActivationFormat::q8:
      return align16(q8_quants_bytes(width) + q8_blocks(width) * 8);
  }
  return 0;
}

// Rows on the device: [rows][width] at row_stride(format, width).
struct Rows {
  ActivationFormat format = ActivationFormat::f32;
  std::byte* data = nullptr;
  int64_t rows = 0;
  int64_t width = 0;
};

}  // namespace minfer::cuda
