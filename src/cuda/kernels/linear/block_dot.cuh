// Dot products of 512 columns (two chunks) of quantized panels with q8 activations in shared memory. A lane has one of
// the chunks, two rows of the panel and blocks j and j + 4: a quarter of a warp meets 8 rows in 128 contiguous bytes of
// the plane of nibbles, without bank conflicts, and each activation that is loaded serves two rows. Integer sums are
// exact; floats are added in the order of the blocks, by the same operations for any number of tokens, so that a
// token's result does not depend on the others.
//
// Elements stay where they lie in their byte: a signed nibble in the upper half is 16 times its value, which the
// block's scale undoes. kLow and kHigh are those shifts for a block's first and last 16 elements.
#pragma once

#include "cuda/kernels/common/panel_block.cuh"

namespace minfer::cuda {

__device__ __forceinline__ int dot4_signed(uint32_t a, int b, int sum) {
  return __dp4a(static_cast<int>(a), b, sum);
}
__device__ __forceinline__ int dot4_unsigned(uint32_t a, int b, int sum) {
  int result;
  asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
  return result;
}

template <DType type>
struct DotShape {
  // 16 elements share a scale: else 32 do.
  static constexpr bool kHalves = type == DType::q6_k || type == DType::q3_k || type == DType::q2_k;
  static constexpr bool kUnsigned = type == DType::q4_k || type == DType::q4_1;
  static constexpr int kHigh = type == DType::q4_k || type == DType::q4_1 || type == DType::q4_0 ? 4
                               : type == DType::q5_0                                             ? 3
                               : type == DType::q6_k                                             ? 2
                               : type == DType::q3_k                                             ? 5
                                                                                                 : 0;
  static constexpr int kLow = kUnsigned ? 0 : kHigh;
  static constexpr float kUnit = 1.0F / (1 << kHigh);
};

// A block and row as it lies in the planes of quants and of high bits.
struct RawBlock {
  uint4 quants;
  uint4 last;  // elements 16 .. 31 of 8-bit types
  uint2 high;
};

template <DType type>
__device__ __forceinline__ RawBlock load_raw(const std::byte* chunk, int blocks, int block, int row) {
  constexpr PanelType kType = panel_type(type);
  const std::byte* high = chunk + kType.high_offset(blocks) + (block * 8 + row) * kType.high_bytes();
  RawBlock raw{};
  if constexpr (kType.bits == 8) {
    raw.quants = load_as<uint4>(chunk + (block * 16 + row) * 16);
    raw.last = load_as<uint4>(chunk + (block * 16 + 8 + row) * 16);
  } else if constexpr (kType.bits >= 4) {
    raw.quants = load_as<uint4>(chunk + (block * 8 + row) * 16);
  } else {
    const uint2 pairs = load_as<uint2>(chunk + (block * 8 + row) * 8);
    raw.quants = {pairs.x, pairs.y, 0, 0};
  }
  if constexpr (kType.bits == 6) raw.high = load_as<uint2>(high);
  if constexpr (kType.bits == 5 || kType.bits == 3) raw.high.x = load_as<uint32_t>(high);
  return raw;
}

// The 8 words of a block, each element times 2^kLow or 2^kHigh.
template <DType type>
__device__ __forceinline__ void dot_quants(const RawBlock& raw, uint32_t (&words)[8]) {
  constexpr int kBits = panel_type(type).bits;
  const uint32_t n[4] = {raw.quants.x, raw.quants.y, raw.quants.z, raw.quants.w};
  const uint32_t last[4] = {raw.last.x, raw.last.y, raw.last.z, raw.last.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (kBits == 8) {
      words[i] = n[i];
      words[i + 4] = last[i];
    } else if constexpr (kIndexed<type>) {
      constexpr IndexTable kTable = kIndexTable<type>;
      words[i] = look_up(kTable, n[i] & 0x0F0F0F0F);
      words[i + 4] = look_up(kTable, n[i] >> 4 & 0x0F0F0F0F);
    } else if constexpr (kBits == 4) {
      words[i] = type == DType::q4_0 ? n[i] << 4 & 0xF0F0F0F0 : n[i] & 0x0F0F0F0F;
      words[i + 4] = n[i] & 0xF0F0F0F0;
    } else if constexpr (type == DType::q5_0) {
      words[i] = (n[i] << 3 & 0x78787878) | (raw.high.x << (7 - i) & 0x80808080);
      words[i + 4] = (n[i] >> 1 & 0x78787878) | (raw.high.x << (3 - i) & 0x80808080);
    } else if constexpr (kBits == 5) {
      words[i] = (n[i] & 0x0F0F0F0F) | (raw.high.x << (4 - i) & 0x10101010);
      words[i + 4] = (n[i] >> 4 & 0x0F0F0F0F) | (raw.high.x >> i & 0x10101010);
    } else if constexpr (kBits == 6) {
      words[i] = (n[i] << 2 & 0x3C3C3C3C) | (raw.high.x << (6 - 2 * i) & 0xC0C0C0C0);
      words[i + 4] = (n[i] >> 2 & 0x3C3C3C3C) | (raw.high.y << (6 - 2 * i) & 0xC0C0C0C0);
    } else if constexpr (kBits == 3) {
      words[i] = ((i < 3 ? n[0] << (5 - 2 * i) : n[0] >> 1) & 0x60606060) | (raw.high.x << (7 - i) & 0x80808080);
      words[i + 4] = ((i < 3 ? n[1] << (5 - 2 * i) : n[1] >> 1) & 0x60606060) | (raw.high.x << (3 - i) & 0x80808080);
    } else {
      words[i] = n[0] >> (2 * i) & 0x03030303;
      words[i + 4] = n[1] >> (2 * i) & 0x03030303;
    }
  }
}

// What makes floats of a block's integer sums. With halves: value = d * (s0 * sum0 + s1 * sum1).
struct BlockFactors {
  float d;  // of the sums, kUnit included
  float m;  // of the activations' stored sum; with halves: of m0 and m1
  int s0, s1, m0, m1;
};

// The factors of blocks j and j + 4 of one row.
template <DType type>
__device__ __forceinline__ void chunk_factors(const std::byte* chunk, int blocks, int j, int row,
                                              BlockFactors (&factors)[2]) {
  constexpr PanelType kType = panel_type(type);
  constexpr float kUnit = DotShape<type>::kUnit;
  const std::byte* part = chunk + kType.row_offset(blocks) + row * kType.row_bytes;
  const std::byte* tail = chunk + kType.tail_offset(blocks) + row * kType.tail_bytes;
  if constexpr (type == DType::q4_k || type == DType::q5_k) {
    const uint4 words = load_as<uint4>(part);
    const float2 d = __half22float2(*reinterpret_cast<const __half2*>(&words.x));
    const float unit = d.x * kUnit;
    const uint32_t s = words.y >> (8 * j), m = words.z >> (8 * j), both = words.w >> (8 * j);
    factors[0].d = __fmul_rn(unit, static_cast<float>(s & 0x3F));
    factors[1].d = __fmul_rn(unit, static_cast<float>((both & 0x0F) | (s >> 2 & 0x30)));
    factors[0].m = -__fmul_rn(d.y, static_cast<float>(m & 0x3F));
    factors[1].m = -__fmul_rn(d.y, static_cast<float>((both >> 4 & 0x0F) | (m >> 2 & 0x30)));
  } else if constexpr (type == DType::q6_k) {
    const float d = load_half(tail) * kUnit;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const char2 s = load_as<char2>(part + (j + 4 * h) * 2);
      factors[h].d = d;
      factors[h].s0 = s.x;
      factors[h].s1 = s.y;
    }
  } else if constexpr (type == DType::q2_k) {
    const float d = load_half(tail), dmin = load_half(tail + 2);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const uchar2 both = load_as<uchar2>(part + (j + 4 * h) * 2);
      factors[h] = {d, -dmin, both.x & 15, both.y & 15, both.x >> 4, both.y >> 4};
    }
  } else if constexpr (type == DType::q3_k) {
    const float d = load_half(tail) * kUnit;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      factors[h].d = d;
      factors[h].s0 = q3_k_scale(part, (j + 4 * h) * 2);
      factors[h].s1 = q3_k_scale(part, (j + 4 * h) * 2 + 1);
    }
  } else {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (j + 4 * h >= blocks) continue;
      const BlockScales scales = panel_scales<type>(chunk, blocks, j + 4 * h, row);
      factors[h].d = scales.scale[0] * kUnit;
      factors[h].m = scales.offset[0];
    }
  }
}

// One block's product with one token's.
template <DType type>
__device__ __forceinline__ float block_dot(const uint32_t (&words)[8], const BlockFactors& factors, const int4& low,
                                           const int4& high, const float2& scale, float sum) {
  using Shape = DotShape<type>;
  const int x[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
  int first = 0, last = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    first = Shape::kUnsigned ? dot4_unsigned(words[i], x[i], first) : dot4_signed(words[i], x[i], first);
    last = Shape::kUnsigned ? dot4_unsigned(words[i + 4], x[i + 4], last) : dot4_signed(words[i + 4], x[i + 4], last);
  }
  int dot;
  if constexpr (Shape::kHalves) {
    dot = factors.s0 * first + factors.s1 * last;
  } else {
    dot = (first << (Shape::kHigh - Shape::kLow)) + last;
  }
  sum = __fmaf_rn(__fmul_rn(factors.d, scale.x), static_cast<float>(dot), sum);
  if constexpr (type == DType::q2_k) {
    int first_sum = 0, last_sum = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      first_sum = __dp4a(0x01010101, x[i], first_sum);
      last_sum = __dp4a(0x01010101, x[i + 4], last_sum);
    }
    const int offset = factors.m0 * first_sum + factors.m1 * last_sum;
    sum = __fmaf_rn(__fmul_rn(factors.m, scale.x), static_cast<float>(offset), sum);
  } else if constexpr (kHasOffset<type>) {
    sum = __fmaf_rn(factors.m, scale.y, sum);
  }
  return sum;
}

// Which part of a unit of 512 columns a lane has.
struct LanePart {
  int chunk, j, row, other;  // `other`: the second row

  __device__ __forceinline__ explicit LanePart(int lane)
      : chunk(lane / 16), j(lane / 4 % 4), row(lane % 4 + lane / 4 % 2 * 4), other(row ^ 4) {}
};

// Adds the lane's products to sums, [token][row, other]. `blocks`: of this chunk; `quants`, `scales`: of its first
// block, in the first token's activations; `stride` bytes from a token to the next.
template <DType type, int kTokens>
__device__ __forceinline__ void chunk_dot(const std::byte* chunk, int blocks, const LanePart& part,
                                          const std::byte* quants, const std::byte* scales, int stride,
                                          float (&sums)[kTokens][2]) {
  BlockFactors factors[2][2];
  chunk_factors<type>(chunk, blocks, part.j, part.row, factors[0]);
  chunk_factors<type>(chunk, blocks, part.j, part.other, factors[1]);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int block = part.j + 4 * h;
    if (panel_type(type).source_elements == 32 && block >= blocks) break;
    uint32_t words[2][8];
    dot_quants<type>(load_raw<type>(chunk, blocks, block, part.row), words[0]);
    dot_quants<type>(load_raw<type>(chunk, blocks, block, part.other), words[1]);
#pragma unroll
    for (int n = 0; n < kTokens; ++n) {
      const int4 low = load_as<int4>(quants + n * stride + block * 32);
      const int4 high = load_as<int4>(quants + n * stride + block * 32 + 16);
      const float2 scale = load_as<float2>(scales + n * stride + block * 8);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        sums[n][r] = block_dot<type>(words[r], factors[r][h], low, high, scale, sums[n][r]);
      }
    }
  }
}

}  // namespace minfer::cuda
