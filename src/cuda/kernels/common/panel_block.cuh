// One row's block of 32 columns of a panel, decoded: as integers and scales, or as floats that equal the oracle's
// (tensor/quant) bit for bit. For every kernel that reads panels (linear, embedding, prefill tiles). Pointers may be to
// global or shared memory; a panel begins at a multiple of 16 bytes. Runs on the host as well, for tests.
// Planes: launch/panel.hpp, launch/panel_types.hpp. Oracle: tensor::dtype_info().dequantize.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>

#include "cuda/launch/panel.hpp"
#include "cuda/launch/panel_types.hpp"

namespace minfer::cuda {

using tensor::DType;

// The 16 values of 4-bit indices, as bytes of 4 words.
struct IndexTable {
  uint32_t words[4];
};
template <DType type>
inline constexpr IndexTable kIndexTable = {};
template <>
inline constexpr IndexTable kIndexTable<DType::iq4_nl> = {{0xBFAD9881, 0xF6EADDCF, 0x26190D01, 0x71594535}};
template <>
inline constexpr IndexTable kIndexTable<DType::iq4_xs> = kIndexTable<DType::iq4_nl>;
template <>
inline constexpr IndexTable kIndexTable<DType::mxfp4> = {{0x03020100, 0x0C080604, 0xFDFEFF00, 0xF4F8FAFC}};

template <DType type>
inline constexpr bool kIndexed = type == DType::iq4_nl || type == DType::iq4_xs || type == DType::mxfp4;

// x = scale[h] * q + offset[h] for the block's first 16 elements (h 0) and last (h 1); the product is rounded first.
struct BlockScales {
  float scale[2];
  float offset[2];
};

__host__ __device__ inline float rounded_product(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}
__host__ __device__ inline float rounded_sum(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}

__host__ __device__ inline float float_of_bits(uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  float value = 0;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
#endif
}

template <class T>
__host__ __device__ inline T load_as(const std::byte* at) {
  return *reinterpret_cast<const T*>(at);
}
__host__ __device__ inline float load_half(const std::byte* at) {
  return __half2float(load_as<__half>(at));
}

// Bytes 0 .. 15 of `table` by the low 4 bits of each byte of `indices`.
__host__ __device__ inline uint32_t look_up(const IndexTable& table, uint32_t indices) {
#ifdef __CUDA_ARCH__
  // Selectors are nibbles: byte j of indices to nibble j; bit 3 of each chooses between the table's halves.
  const uint32_t nibbles = __byte_perm(indices | indices >> 4, 0, 0x4420);
  const uint32_t selector = nibbles & 0x7777;
  const uint32_t low = __byte_perm(table.words[0], table.words[1], selector);
  const uint32_t high = __byte_perm(table.words[2], table.words[3], selector);
  return __byte_perm(low, high, 0x3210 + ((nibbles & 0x8888) >> 1));
#else
  uint32_t values = 0;
  for (int j = 0; j < 4; ++j) {
    const uint32_t index = indices >> (8 * j) & 15;
    values |= (table.words[index / 4] >> (index % 4 * 8) & 0xFF) << (8 * j);
  }
  return values;
#endif
}

// Bytes of `bits` bits whose top bit is the sign, to whole bytes.
template <int bits>
__host__ __device__ inline uint32_t extend_signs(uint32_t word) {
  constexpr uint32_t kSign = 0x01010101u << (bits - 1);
  return word | (word & kSign) * (256 / (1 << (bits - 1)) - 2);
}

// The 32 integers of a quantized block in element order, 4 a word, signed bytes: q of BlockScales.
template <DType type>
__host__ __device__ inline void panel_quants(const std::byte* chunk, int blocks, int block, int row,
                                             uint32_t (&quants)[8]) {
  constexpr PanelType kType = panel_type(type);
  static_assert(kType.bits >= 2 && kType.bits <= 8);
  if constexpr (kType.bits == 8) {
    const uint4 low = load_as<uint4>(chunk + (block * 16 + row) * 16);
    const uint4 high = load_as<uint4>(chunk + (block * 16 + 8 + row) * 16);
    const uint32_t words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    for (int i = 0; i < 8; ++i) quants[i] = words[i];
  } else if constexpr (kType.bits >= 4) {
    const uint4 nibbles = load_as<uint4>(chunk + (block * 8 + row) * 16);
    const uint32_t words[4] = {nibbles.x, nibbles.y, nibbles.z, nibbles.w};
    for (int i = 0; i < 4; ++i) {
      quants[i] = words[i] & 0x0F0F0F0F;
      quants[i + 4] = words[i] >> 4 & 0x0F0F0F0F;
    }
  } else {
    const uint2 pairs = load_as<uint2>(chunk + (block * 8 + row) * 8);
    for (int i = 0; i < 8; ++i) quants[i] = (i < 4 ? pairs.x : pairs.y) >> (i % 4 * 2) & 0x03030303;
  }
  const std::byte* high = chunk + kType.high_offset(blocks) + (block * 8 + row) * kType.high_bytes();
  if constexpr (kType.bits == 5 || kType.bits == 3) {
    const uint32_t bits = load_as<uint32_t>(high);
    for (int i = 0; i < 8; ++i) quants[i] |= (bits >> i & 0x01010101) << (kType.bits - 1);
  }
  if constexpr (kType.bits == 6) {
    const uint2 pairs = load_as<uint2>(high);
    for (int i = 0; i < 8; ++i) quants[i] |= ((i < 4 ? pairs.x : pairs.y) >> (i % 4 * 2) & 0x03030303) << 4;
  }
  if constexpr (kType.flip != 0) {
    for (int i = 0; i < 8; ++i) quants[i] = extend_signs<kType.bits>(quants[i]);
  }
  if constexpr (kIndexed<type>) {
    constexpr IndexTable kTable = kIndexTable<type>;  // a namespace's variable has no address in device code
    for (int i = 0; i < 8; ++i) quants[i] = look_up(kTable, quants[i]);
  }
}

// The 6-bit scale and minimum of group 0 .. 7 of the 16-byte row part of Q4_K and Q5_K.
__host__ __device__ inline void packed_scale_min(uint4 part, int group, uint32_t& scale, uint32_t& minimum) {
  const int shift = group % 4 * 8;
  const uint32_t s = part.y >> shift, m = part.z >> shift, both = part.w >> shift;
  scale = group < 4 ? s & 0x3F : (both & 0x0F) | (s >> 2 & 0x30);
  minimum = group < 4 ? m & 0x3F : (both >> 4 & 0x0F) | (m >> 2 & 0x30);
}

// 2^(exponent - 128): half an E8M0 scale; belongs to the doubled values of MXFP4.
__host__ __device__ inline float e8m0_half(uint32_t exponent) {
  const uint32_t bits = exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23;
  return float_of_bits(bits);
}

// The 6-bit scale of group 0 .. 15 of Q3_K's 12 bytes at `part`, -32 .. 31.
__host__ __device__ inline int q3_k_scale(const std::byte* part, int group) {
  const auto low = static_cast<uint32_t>(part[group % 8]) >> (group / 8 * 4) & 15;
  const auto high = static_cast<uint32_t>(part[8 + group % 4]) >> (group / 4 * 2) & 3;
  return static_cast<int>(low | high << 4) - 32;
}

// The scales of a quantized block.
template <DType type>
__host__ __device__ inline BlockScales panel_scales(const std::byte* chunk, int blocks, int block, int row) {
  constexpr PanelType kType = panel_type(type);
  const std::byte* scale = chunk + kType.scale_offset(blocks) + (block * 8 + row) * kType.scale_bytes;
  const std::byte* part = chunk + kType.row_offset(blocks) + row * kType.row_bytes;
  const std::byte* tail = chunk + kType.tail_offset(blocks) + row * kType.tail_bytes;
  if constexpr (type == DType::mxfp4) {
    const float d = e8m0_half(static_cast<uint32_t>(*scale));
    return {{d, d}, {0, 0}};
  } else if constexpr (kType.scale_bytes == 2) {
    const float d = load_half(scale);
    return {{d, d}, {0, 0}};
  } else if constexpr (kType.scale_bytes == 4) {
    const float d = load_half(scale), m = load_half(scale + 2);
    return {{d, d}, {m, m}};
  } else if constexpr (type == DType::q4_k || type == DType::q5_k) {
    const uint4 words = load_as<uint4>(part);
    uint32_t s = 0, m = 0;
    packed_scale_min(words, block, s, m);
    const float d = rounded_product(load_half(part), static_cast<float>(s));
    const float offset = -rounded_product(load_half(part + 2), static_cast<float>(m));
    return {{d, d}, {offset, offset}};
  } else if constexpr (type == DType::q6_k) {
    const float d = load_half(tail);
    const auto* s = reinterpret_cast<const int8_t*>(part + block * 2);
    return {{rounded_product(d, s[0]), rounded_product(d, s[1])}, {0, 0}};
  } else if constexpr (type == DType::iq4_xs) {
    const uint2 words = load_as<uint2>(part);
    const uint32_t low = words.y >> (block * 4) & 15, high = words.x >> (16 + block * 2) & 3;
    const float d = rounded_product(load_half(part), static_cast<float>(static_cast<int>(low | high << 4) - 32));
    return {{d, d}, {0, 0}};
  } else if constexpr (type == DType::q2_k) {
    const float d = load_half(tail), dmin = load_half(tail + 2);
    BlockScales scales{};
    for (int h = 0; h < 2; ++h) {
      const auto both = static_cast<uint32_t>(part[block * 2 + h]);
      scales.scale[h] = rounded_product(d, static_cast<float>(both & 15));
      scales.offset[h] = -rounded_product(dmin, static_cast<float>(both >> 4));
    }
    return scales;
  } else {
    static_assert(type == DType::q3_k);
    const float d = load_half(tail);
    return {{rounded_product(d, static_cast<float>(q3_k_scale(part, block * 2))),
             rounded_product(d, static_cast<float>(q3_k_scale(part, block * 2 + 1)))},
            {0, 0}};
  }
}

template <DType type>
inline constexpr bool kHasOffset =
    type == DType::q4_1 || type == DType::q5_1 || type == DType::q4_k || type == DType::q5_k || type == DType::q2_k;

// Columns 32 block .. 32 block + 31 of a row of a plain panel; those beyond cols are zeros.
template <DType type>
__host__ __device__ inline void decode_plain_block(const std::byte* panel, int64_t cols, int64_t block, int row,
                                                   float (&values)[32]) {
  constexpr int kPieceColumns = 128 / panel_type(type).bits;
  const int64_t pieces = (cols + kPieceColumns - 1) / kPieceColumns;
  for (int i = 0; i < 32 / kPieceColumns; ++i) {
    const int64_t piece = block * (32 / kPieceColumns) + i;
    uint4 words = {0, 0, 0, 0};
    if (piece < pieces) words = load_as<uint4>(panel + (piece * 8 + row) * 16);
    const uint32_t word[4] = {words.x, words.y, words.z, words.w};
    for (int j = 0; j < kPieceColumns; ++j) {
      float& value = values[i * kPieceColumns + j];
      if constexpr (type == DType::f32) {
        value = float_of_bits(word[j]);
      } else {
        const auto bits = static_cast<uint16_t>(word[j / 2] >> (j % 2 * 16));
        if constexpr (type == DType::f16) value = __half2float(__half(__half_raw{bits}));
        if constexpr (type == DType::bf16) value = __bfloat162float(__nv_bfloat16(__nv_bfloat16_raw{bits}));
      }
    }
  }
}

// Columns 32 block .. 32 block + 31 of row 0 .. 7 of a panel, equal to the oracle's bit for bit; columns beyond cols
// are zeros.
template <DType type>
__host__ __device__ inline void decode_panel_block(const std::byte* panel, int64_t cols, int64_t block, int row,
                                                   float (&values)[32]) {
  constexpr PanelType kType = panel_type(type);
  if constexpr (kType.plain()) {
    decode_plain_block<type>(panel, cols, block, row, values);
  } else {
    const int64_t all = cols / kPanelBlock, first = block / kPanelChunkBlocks * kPanelChunkBlocks;
    const int blocks = static_cast<int>(all - first < kPanelChunkBlocks ? all - first : kPanelChunkBlocks);
    const std::byte* chunk = panel + block / kPanelChunkBlocks * kType.chunk_bytes(kPanelChunkBlocks);
    uint32_t quants[8];
    panel_quants<type>(chunk, blocks, static_cast<int>(block - first), row, quants);
    const BlockScales scales = panel_scales<type>(chunk, blocks, static_cast<int>(block - first), row);
    for (int i = 0; i < 32; ++i) {
      const auto q = static_cast<int8_t>(quants[i / 4] >> (i % 4 * 8));
      values[i] = rounded_product(scales.scale[i / 16], static_cast<float>(q));
      if constexpr (kHasOffset<type>) values[i] = rounded_sum(values[i], scales.offset[i / 16]);
    }
  }
}

// Calls f.operator()<type>() for a type that has panels; for host code that chooses a kernel, and for kernels that
// serve all types. Returns false for others.
template <class F>
__host__ __device__ inline bool with_panel_type(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f32:
      f.template operator()<DType::f32>();
      return true;
    case DType::f16:
      f.template operator()<DType::f16>();
      return true;
    case DType::bf16:
      f.template operator()<DType::bf16>();
      return true;
    case DType::q4_0:
      f.template operator()<DType::q4_0>();
      return true;
    case DType::q4_1:
      f.template operator()<DType::q4_1>();
      return true;
    case DType::q5_0:
      f.template operator()<DType::q5_0>();
      return true;
    case DType::q5_1:
      f.template operator()<DType::q5_1>();
      return true;
    case DType::q8_0:
      f.template operator()<DType::q8_0>();
      return true;
    case DType::q2_k:
      f.template operator()<DType::q2_k>();
      return true;
    case DType::q3_k:
      f.template operator()<DType::q3_k>();
      return true;
    case DType::q4_k:
      f.template operator()<DType::q4_k>();
      return true;
    case DType::q5_k:
      f.template operator()<DType::q5_k>();
      return true;
    case DType::q6_k:
      f.template operator()<DType::q6_k>();
      return true;
    case DType::iq4_nl:
      f.template operator()<DType::iq4_nl>();
      return true;
    case DType::iq4_xs:
      f.template operator()<DType::iq4_xs>();
      return true;
    case DType::mxfp4:
      f.template operator()<DType::mxfp4>();
      return true;
    default:
      return false;
  }
}

}  // namespace minfer::cuda
