// 8-bit products of tensor cores with activations in q8, for the kernels that have both in shared memory: 16 rows of
// weights by 8 tokens, a block of 32 columns at a time. Integer sums are exact; floats are added in the order of the
// blocks. With g, t: lane / 4, lane % 4,
//   A  a[0] row g, a[1] row g + 8, columns 4 t .. 4 t + 3; a[2], a[3] the same of columns 16 ..
//   B  b[0] token g, columns 4 t ..; b[1] of columns 16 ..
//   C  sums[e] row g, token 2 t + e; sums[2 + e] row g + 8
// A token's chunk of 256 columns lies in shared memory as quants, kQuantStride bytes from token to token, and scales,
// kScaleStride bytes from token to token: no bank conflicts.
#pragma once

#include <cstdint>

namespace minfer::cuda {

inline constexpr int kQuantStride = 272, kScaleStride = 72;

__device__ __forceinline__ void multiply_bytes(int (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void multiply_half_bytes(int (&d)[4], uint32_t a0, uint32_t a1, uint32_t b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
               : "r"(a0), "r"(a1), "r"(b));
}

// Integer sums begin at this, the bits of 1.5 * 2^23: as a float, less that, they are the sum (under 2^22), exactly.
inline constexpr int kSumBits = 0x4B400000;
__device__ __forceinline__ float sum_value(int bits) {
  return __int_as_float(bits) - 12582912.0F;
}

// Adds a block's products. row: {scale, offset, or the second half's scale} of rows g and g + 8; token: {scale, scale *
// sum of the quants} of tokens 2 t and 2 t + 1. kHalves: 16 columns share a scale.
template <bool kHalves, bool kHasOffset>
__device__ __forceinline__ void add_block(const uint32_t (&a)[4], const uint32_t (&b)[2], const float2 (&row)[2],
                                          const float2 (&token)[2], float (&sums)[4]) {
  int d[4] = {kSumBits, kSumBits, kSumBits, kSumBits};
  if constexpr (kHalves) {
    int last[4] = {kSumBits, kSumBits, kSumBits, kSumBits};
    multiply_half_bytes(d, a[0], a[1], b[0]);
    multiply_half_bytes(last, a[2], a[3], b[1]);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float both = __fmaf_rn(row[i / 2].y, sum_value(last[i]), __fmul_rn(row[i / 2].x, sum_value(d[i])));
      sums[i] = __fmaf_rn(token[i % 2].x, both, sums[i]);
    }
  } else {
    multiply_bytes(d, a, b);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sums[i] = __fmaf_rn(__fmul_rn(row[i / 2].x, token[i % 2].x), sum_value(d[i]), sums[i]);
      if constexpr (kHasOffset) sums[i] = __fmaf_rn(row[i / 2].y, token[i % 2].y, sums[i]);
    }
  }
}

}  // namespace minfer::cuda
