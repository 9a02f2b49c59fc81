// One row's block of 32 columns from the file's layout into the planes of its panel. Packing copies bits and flips the
// sign bits that launch/panel_types.hpp names; nothing is computed. The caller has zeroed no memory: every byte of the
// block's places is written, rows beyond the matrix as zeros. Runs on the host as well, for tests.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/launch/panel.hpp"
#include "cuda/launch/panel_types.hpp"
#include "tensor/dtype.hpp"

namespace minfer::cuda {

using tensor::DType;

__host__ __device__ inline uint32_t byte_at(const std::byte* source, int at) {
  return static_cast<uint32_t>(source[at]);
}

// The bits of element i of a file's block as panels hold them, before flipping; blocks of 256: i = 0 .. 255.
template <DType type>
__host__ __device__ inline uint32_t source_quant(const std::byte* source, int i) {
  const int half = i % 32 / 16 * 4;  // types of 32: elements 16 .. 31 lie in the high halves
  const int pair_half = i / 32 % 2 * 4;
  if constexpr (type == DType::q4_0 || type == DType::iq4_nl) return byte_at(source, 2 + i % 16) >> half & 15;
  if constexpr (type == DType::q4_1) return byte_at(source, 4 + i % 16) >> half & 15;
  if constexpr (type == DType::mxfp4) return byte_at(source, 1 + i % 16) >> half & 15;
  if constexpr (type == DType::q5_0 || type == DType::q5_1) {
    const int at = type == DType::q5_0 ? 2 : 4;
    return (byte_at(source, at + 4 + i % 16) >> half & 15) | (byte_at(source, at + i / 8) >> (i % 8) & 1) << 4;
  }
  if constexpr (type == DType::q8_0) return byte_at(source, 2 + i);
  if constexpr (type == DType::q4_k) return byte_at(source, 16 + i / 64 * 32 + i % 32) >> pair_half & 15;
  if constexpr (type == DType::q5_k) {
    return (byte_at(source, 48 + i / 64 * 32 + i % 32) >> pair_half & 15) |
           (byte_at(source, 16 + i % 32) >> (i / 32) & 1) << 4;
  }
  if constexpr (type == DType::q6_k) {
    return (byte_at(source, i / 128 * 64 + i % 64) >> (i / 64 % 2 * 4) & 15) |
           (byte_at(source, 128 + i / 128 * 32 + i % 32) >> (i / 32 % 4 * 2) & 3) << 4;
  }
  if constexpr (type == DType::iq4_xs) return byte_at(source, 8 + i / 32 * 16 + i % 16) >> half & 15;
  if constexpr (type == DType::q2_k) return byte_at(source, 16 + i / 128 * 32 + i % 32) >> (i / 32 % 4 * 2) & 3;
  if constexpr (type == DType::q3_k) {
    return (byte_at(source, 32 + i / 128 * 32 + i % 32) >> (i / 32 % 4 * 2) & 3) |
           (byte_at(source, i % 32) >> (i / 32) & 1) << 2;
  }
  return 0;
}

// Stores the planes of quants and of high bits of one block and row.
template <DType type, class Quant>
__host__ __device__ inline void store_quants(std::byte* chunk, int blocks, int block, int row, Quant quant) {
  constexpr PanelType kType = panel_type(type);
  std::byte* high = chunk + kType.high_offset(blocks) + (block * 8 + row) * kType.high_bytes();
  uint32_t words[8] = {};
  if constexpr (kType.bits == 8) {
    for (int i = 0; i < 32; ++i) words[i / 4] |= quant(i) << (i % 4 * 8);
    for (int h = 0; h < 2; ++h) {
      *reinterpret_cast<uint4*>(chunk + (block * 16 + h * 8 + row) * 16) =
          uint4{words[4 * h], words[4 * h + 1], words[4 * h + 2], words[4 * h + 3]};
    }
  } else if constexpr (kType.bits >= 4) {
    for (int i = 0; i < 32; ++i) words[i % 16 / 4] |= (quant(i) & 15) << (i % 4 * 8 + i / 16 * 4);
    *reinterpret_cast<uint4*>(chunk + (block * 8 + row) * 16) = uint4{words[0], words[1], words[2], words[3]};
  } else {
    for (int i = 0; i < 32; ++i) words[i / 16] |= (quant(i) & 3) << (i % 4 * 8 + i % 16 / 4 * 2);
    *reinterpret_cast<uint2*>(chunk + (block * 8 + row) * 8) = uint2{words[0], words[1]};
  }
  if constexpr (kType.bits == 5 || kType.bits == 3) {
    uint32_t bits = 0;
    for (int i = 0; i < 32; ++i) bits |= (quant(i) >> (kType.bits - 1) & 1) << (i % 4 * 8 + i / 4);
    *reinterpret_cast<uint32_t*>(high) = bits;
  }
  if constexpr (kType.bits == 6) {
    uint32_t pairs[2] = {};
    for (int i = 0; i < 32; ++i) pairs[i / 16] |= (quant(i) >> 4 & 3) << (i % 4 * 8 + i % 16 / 4 * 2);
    *reinterpret_cast<uint2*>(high) = uint2{pairs[0], pairs[1]};
  }
}

__host__ __device__ inline void copy_bytes(std::byte* to, const std::byte* from, int bytes) {
  for (int i = 0; i < bytes; ++i) to[i] = from == nullptr ? std::byte{0} : from[i];
}

// Packs block `block` of row `row` (0 .. 7) of a panel of `cols` columns. `source`: the row in the file's layout, or
// nullptr for a row that the matrix lacks. The block 0 of a chunk also carries the chunk's row parts.
template <DType type>
__host__ __device__ inline void pack_block(std::byte* panel, const std::byte* source, int64_t cols, int64_t block,
                                           int row) {
  constexpr PanelType kType = panel_type(type);
  const int64_t all = (cols + kPanelBlock - 1) / kPanelBlock;
  if constexpr (kType.plain()) {
    constexpr int kBytes = kType.bits / 8, kPieces = kType.bits * 4 / 16;
    const int64_t pieces = (cols * kBytes + 15) / 16;
    for (int64_t piece = block * kPieces; piece < pieces && piece < (block + 1) * kPieces; ++piece) {
      const int64_t left = cols * kBytes - piece * 16;
      const int bytes = source == nullptr ? 0 : static_cast<int>(left < 16 ? left : 16);
      std::byte* to = panel + (piece * 8 + row) * 16;
      copy_bytes(to, source + piece * 16, bytes);
      copy_bytes(to + bytes, nullptr, 16 - bytes);
    }
  } else {
    const int64_t first = block / kPanelChunkBlocks * kPanelChunkBlocks;
    const int blocks = static_cast<int>(all - first < kPanelChunkBlocks ? all - first : kPanelChunkBlocks);
    const int in_chunk = static_cast<int>(block - first);
    std::byte* chunk = panel + block / kPanelChunkBlocks * kType.chunk_bytes(kPanelChunkBlocks);
    const std::byte* from = source;
    int base = 0;
    if (source != nullptr) {
      from += block * kPanelBlock / kType.source_elements * kType.source_bytes;
      base = static_cast<int>(block * kPanelBlock % kType.source_elements);
    }
    store_quants<type>(chunk, blocks, in_chunk, row, [&](int i) -> uint32_t {
      return from == nullptr ? 0 : source_quant<type>(from, base + i) ^ static_cast<uint32_t>(kType.flip);
    });
    copy_bytes(chunk + kType.scale_offset(blocks) + (in_chunk * 8 + row) * kType.scale_bytes,
               from == nullptr ? nullptr : from + kType.scale_at, kType.scale_bytes);
    if (in_chunk == 0) {
      copy_bytes(chunk + kType.row_offset(blocks) + row * kType.row_bytes,
                 from == nullptr ? nullptr : from + kType.row_at, kType.row_bytes);
      copy_bytes(chunk + kType.tail_offset(blocks) + row * kType.tail_bytes,
                 from == nullptr ? nullptr : from + kType.tail_at, kType.tail_bytes);
    }
    // What rounds a panel up to 16 bytes.
    const int64_t end = panel_type_bytes(kType, cols), used = chunk - panel + kType.chunk_bytes(blocks);
    if (block == all - 1 && row == 7) copy_bytes(panel + used, nullptr, static_cast<int>(end - used));
  }
}

}  // namespace minfer::cuda
