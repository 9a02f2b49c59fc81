// Weights of panels as the tensor cores' operands. A warp has 16 rows: two panels' chunks in shared memory, whose rows
// g and g (lane / 4) are rows g and g + 8 of its operand; t is lane % 4.
//
// bf16: a block of 32 columns is two operands of 16. Integers become bf16 exactly: 7 bits under the exponent of 128
// (0x4300) are 128 + q; the product with the scale, and the sum with the offset, are rounded once.
// 8-bit: a block is one operand of 32 columns (or two of 16, where 16 share a scale): word t of the row's nibbles has
// both halves. Signed elements stay at the top of their bytes, which the scale undoes.
// Scales are decoded once a warp and chunk, into shared memory: 8 bytes a block and row, [block][16 rows].
#pragma once

#include <cuda_bf16.h>

#include "cuda/kernels/common/panel_block.cuh"

namespace minfer::cuda {

// 16 elements share a scale: else 32 do.
template <DType type>
inline constexpr bool kHalves = type == DType::q6_k || type == DType::q3_k;
// What an 8-bit operand's elements are multiplied with.
template <DType type>
inline constexpr float kElementUnit = type == DType::q4_0   ? 16.0F
                                      : type == DType::q5_0 ? 8.0F
                                      : type == DType::q6_k ? 4.0F
                                      : type == DType::q3_k ? 32.0F
                                                            : 1.0F;

__device__ __forceinline__ uint32_t pair_bits(__nv_bfloat162 pair) {
  return *reinterpret_cast<const uint32_t*>(&pair);
}
__device__ __forceinline__ __nv_bfloat162 pair_of(uint32_t bits) {
  return *reinterpret_cast<const __nv_bfloat162*>(&bits);
}

// (word & mask) | base, or, with `flip`, (word & mask) ^ base, in one instruction.
template <bool flip>
__device__ __forceinline__ uint32_t merge_bits(uint32_t word, uint32_t mask, uint32_t base) {
  uint32_t merged;
  asm("lop3.b32 %0, %1, %2, %3, %4;" : "=r"(merged) : "r"(word), "r"(mask), "r"(base), "n"(flip ? 0x6A : 0xEA));
  return merged;
}

// Bytes 0, 1 (of the word's low half; odd: of its high half) to the low bytes of two halves.
__device__ __forceinline__ uint32_t spread_bytes(uint32_t word, bool odd) {
  return __byte_perm(word, 0, odd ? 0x4342 : 0x4140);
}

// What a thread reads of a block: of both panels the words of row g, and the scales. Read while the products of the
// block before run.
template <DType type>
struct RawBlock {
  static constexpr int kWords = panel_type(type).bits == 8 ? 4 : 2;
  uint32_t words[2][kWords];  // 16 bits each: elements 2 t, 2 t + 1 of columns 0.., 8.. (8 bits: and 16.., 24..)
  uint2 high[2];
  uint2 scales[2];

  __device__ __forceinline__ void load(const std::byte* panels, int slot_bytes, int blocks, int block, int g, int t,
                                       const std::byte* warp_scales) {
    constexpr PanelType kType = panel_type(type);
#pragma unroll
    for (int p = 0; p < 2; ++p) {
      const std::byte* chunk = panels + p * slot_bytes;
      const std::byte* at = chunk + (block * 8 * kWords / 2 + g) * 16 + 2 * t;
#pragma unroll
      for (int i = 0; i < kWords; ++i) words[p][i] = load_as<uint16_t>(at + i / 2 * 128 + i % 2 * 8);
      const std::byte* bits = chunk + kType.high_offset(blocks) + (block * 8 + g) * kType.high_bytes();
      if constexpr (kType.bits == 5) high[p].x = load_as<uint32_t>(bits);
      if constexpr (kType.bits == 6) high[p] = load_as<uint2>(bits);
      scales[p] = load_as<uint2>(warp_scales + (block * 16 + p * 8 + g) * 8);
    }
  }
};

// Integers of a block as pairs of bf16, exact: elements 2 t, 2 t + 1 of columns 0.., 8.., 16.., 24.. of row g of panel
// p.
template <DType type>
__device__ __forceinline__ void integer_pairs(const RawBlock<type>& raw, int p, int t, uint32_t (&pairs)[4]) {
  constexpr PanelType kType = panel_type(type);
  constexpr uint32_t kOnes = 0x43004300;
  if constexpr (kType.bits == 8) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t bytes = spread_bytes(raw.words[p][i], false);
      // 7 bits, less 128 where the eighth is set.
      pairs[i] = pair_bits(__hsub2(pair_of(merge_bits<false>(bytes, 0x007F007F, kOnes)),
                                   pair_of(merge_bits<false>(bytes, 0x00800080, kOnes))));
    }
  } else {
    // Bytes: elements 2 t, 2 t + 8, 2 t + 1, 2 t + 9, and those 16 beyond in the high halves.
    const uint32_t nibbles = __byte_perm(raw.words[p][0], raw.words[p][1], 0x5140);
    constexpr uint32_t kBase = kOnes ^ static_cast<uint32_t>(kType.flip) * 0x00010001;
    uint32_t base[4] = {kBase, kBase, kBase, kBase};
    if constexpr (kType.bits == 5) {
      const uint32_t bits = spread_bytes(raw.high[p].x, (t & 1) != 0) >> (t / 2);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint32_t at_4 = i < 2 ? bits << (4 - 2 * i) : bits >> (2 * i - 4);
        base[i] = merge_bits<true>(at_4, 0x00100010, kBase);
      }
    }
    if constexpr (kType.bits == 6) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint32_t word = i < 2 ? raw.high[p].x : raw.high[p].y;
        const uint32_t bits = spread_bytes(word, (t & 1) != 0) >> (t / 2 * 2);
        base[i] = merge_bits<true>(i % 2 == 0 ? bits << 4 : bits, 0x00300030, kBase);
      }
    }
    const __nv_bfloat162 zero = __float2bfloat162_rn(128.0F + static_cast<float>(kType.flip));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t nibble = nibbles >> (i / 2 * 4 + i % 2 * 8);
      const uint32_t raised = merge_bits < kType.flip == 8 > (nibble, 0x000F000F, base[i]);
      pairs[i] = pair_bits(__hsub2(pair_of(raised), zero));
    }
  }
}

// Calls f(block, scale 0, offset or second half's scale) for the lane's four blocks of its row of a chunk: row lane %
// 16 of the warp's 16, blocks lane / 16 * 4 and so on. Zeros for blocks that aren't there.
template <DType type, class F>
__device__ __forceinline__ void for_each_scale(const std::byte* panels, int slot_bytes, int blocks, F&& f) {
  constexpr PanelType kType = panel_type(type);
  const int lane = static_cast<int>(threadIdx.x % 32), row = lane % 8, first = lane / 16 * 4;
  const std::byte* chunk = panels + lane % 16 / 8 * slot_bytes;
  if constexpr (type == DType::q4_k || type == DType::q5_k) {
    const uint4 part = load_as<uint4>(chunk + kType.row_offset(8) + row * 16);
    const float2 d = __half22float2(*reinterpret_cast<const __half2*>(&part.x));
    const bool high = first != 0;
    const uint32_t scales = high ? (part.w & 0x0F0F0F0F) | (part.y >> 2 & 0x30303030) : part.y & 0x3F3F3F3F;
    const uint32_t minima = high ? (part.w >> 4 & 0x0F0F0F0F) | (part.z >> 2 & 0x30303030) : part.z & 0x3F3F3F3F;
    // A byte under the exponent of 2^23 is 2^23 + byte: d times it, less d 2^23, is rounded once, and is exact.
    constexpr float kBig = 8388608.0F;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float s = __uint_as_float(__byte_perm(scales, 0x4B000000, 0x7440 + i));
      const float m = __uint_as_float(__byte_perm(minima, 0x4B000000, 0x7440 + i));
      f(first + i, __fmaf_rn(d.x, s, -d.x * kBig), __fmaf_rn(-d.y, m, d.y * kBig));
    }
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      BlockScales s{};
      if (first + i < blocks) s = panel_scales<type>(chunk, blocks, first + i, row);
      f(first + i, s.scale[0], kHalves<type> ? s.scale[1] : s.offset[0]);
    }
  }
}

// The warp's scales of a chunk as pairs of bf16: {scale, scale}, {offset, offset} or the second half's scale.
template <DType type>
__device__ __forceinline__ void prepare_pairs(const std::byte* panels, int slot_bytes, int blocks, std::byte* scales) {
  std::byte* to = scales + threadIdx.x % 16 * 8;
  for_each_scale<type>(panels, slot_bytes, blocks, [&](int block, float scale, float second) {
    const uint2 words = {pair_bits(__float2bfloat162_rn(scale)), pair_bits(__float2bfloat162_rn(second))};
    *reinterpret_cast<uint2*>(to + block * 128) = words;
  });
}

// The operands of a block: [16 columns][4 registers].
template <DType type>
__device__ __forceinline__ void bf16_operands(const RawBlock<type>& raw, int t, uint32_t (&a)[2][4]) {
#pragma unroll
  for (int p = 0; p < 2; ++p) {
    uint32_t pairs[4];
    integer_pairs<type>(raw, p, t, pairs);
    const uint2 words = raw.scales[p];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      uint32_t& to = a[i / 2][i % 2 * 2 + p];
      if constexpr (kHasOffset<type>) {
        to = pair_bits(__hfma2(pair_of(pairs[i]), pair_of(words.x), pair_of(words.y)));
      } else {
        to = pair_bits(__hmul2(pair_of(pairs[i]), pair_of(kHalves<type> && i >= 2 ? words.y : words.x)));
      }
    }
  }
}

// The same as floats: {scale / kElementUnit, offset or the second half's scale / kElementUnit}.
template <DType type>
__device__ __forceinline__ void prepare_floats(const std::byte* panels, int slot_bytes, int blocks, std::byte* scales) {
  constexpr float kUnit = 1.0F / kElementUnit<type>;
  std::byte* to = scales + threadIdx.x % 16 * 8;
  for_each_scale<type>(panels, slot_bytes, blocks, [&](int block, float scale, float second) {
    *reinterpret_cast<float2*>(to + block * 128) = {scale * kUnit, kHalves<type> ? second * kUnit : second};
  });
}

// Words t of a block's first and last 16 elements of row g, elements times kElementUnit.
template <DType type>
__device__ __forceinline__ void byte_operands(const std::byte* chunk, int blocks, int block, int g, int t,
                                              uint32_t& first, uint32_t& last) {
  constexpr PanelType kType = panel_type(type);
  if constexpr (kType.bits == 8) {
    first = load_as<uint32_t>(chunk + (block * 16 + g) * 16 + 4 * t);
    last = load_as<uint32_t>(chunk + (block * 16 + 8 + g) * 16 + 4 * t);
  } else if constexpr (type == DType::q3_k) {
    const uint2 pairs = load_as<uint2>(chunk + (block * 8 + g) * 8);
    const uint32_t bits = load_as<uint32_t>(chunk + kType.high_offset(blocks) + (block * 8 + g) * 4) >> t;
    first = (pairs.x >> (2 * t) << 5 & 0x60606060) | (bits << 7 & 0x80808080);
    last = (pairs.y >> (2 * t) << 5 & 0x60606060) | (bits << 3 & 0x80808080);
  } else {
    const uint32_t nibbles = load_as<uint32_t>(chunk + (block * 8 + g) * 16 + 4 * t);
    const std::byte* high = chunk + kType.high_offset(blocks) + (block * 8 + g) * kType.high_bytes();
    if constexpr (type == DType::q4_0) {
      first = nibbles << 4 & 0xF0F0F0F0;
      last = nibbles & 0xF0F0F0F0;
    } else if constexpr (kIndexed<type>) {
      constexpr IndexTable kTable = kIndexTable<type>;  // a namespace's variable has no address in device code
      first = look_up(kTable, nibbles & 0x0F0F0F0F);
      last = look_up(kTable, nibbles >> 4 & 0x0F0F0F0F);
    } else if constexpr (kType.bits == 4) {
      first = nibbles & 0x0F0F0F0F;
      last = nibbles >> 4 & 0x0F0F0F0F;
    } else if constexpr (type == DType::q5_0) {
      const uint32_t bits = load_as<uint32_t>(high) >> t;
      first = (nibbles << 3 & 0x78787878) | (bits << 7 & 0x80808080);
      last = (nibbles >> 1 & 0x78787878) | (bits << 3 & 0x80808080);
    } else if constexpr (kType.bits == 5) {
      const uint32_t bits = load_as<uint32_t>(high) >> t;
      first = (nibbles & 0x0F0F0F0F) | (bits << 4 & 0x10101010);
      last = (nibbles >> 4 & 0x0F0F0F0F) | (bits & 0x10101010);
    } else {
      static_assert(type == DType::q6_k);
      const uint2 pairs = load_as<uint2>(high);
      first = (nibbles << 2 & 0x3C3C3C3C) | (pairs.x >> (2 * t) << 6 & 0xC0C0C0C0);
      last = (nibbles >> 2 & 0x3C3C3C3C) | (pairs.y >> (2 * t) << 6 & 0xC0C0C0C0);
    }
  }
}

}  // namespace minfer::cuda
