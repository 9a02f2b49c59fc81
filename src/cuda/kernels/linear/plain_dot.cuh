// Dot products of 256 columns of plain panels (F32, F16, BF16) with f32 activations in shared memory. A lane has one
// row and every fourth piece of 16 bytes. Sums in f32, in the order of the columns that a lane has, the same for any
// number of tokens.
#pragma once

#include "cuda/kernels/common/panel_block.cuh"

namespace minfer::cuda {

// The values of a piece: 8 of F16 and BF16, 4 of F32.
template <DType type>
__device__ __forceinline__ void piece_values(const uint4& piece, float (&values)[128 / panel_type(type).bits]) {
  const uint32_t words[4] = {piece.x, piece.y, piece.z, piece.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (type == DType::f32) {
      values[i] = __uint_as_float(words[i]);
    } else if constexpr (type == DType::bf16) {
      values[2 * i] = __uint_as_float(words[i] << 16);
      values[2 * i + 1] = __uint_as_float(words[i] & 0xFFFF0000);
    } else {
      const float2 pair = __half22float2(*reinterpret_cast<const __half2*>(&words[i]));
      values[2 * i] = pair.x;
      values[2 * i + 1] = pair.y;
    }
  }
}

// As chunk_dot of block_dot.cuh. `pieces`: of this chunk; x: the chunk's first activation, zeros beyond the last.
template <DType type, int kTokens>
__device__ __forceinline__ void plain_chunk_dot(const std::byte* chunk, int pieces, int j, int row, const std::byte* x,
                                                int stride, float (&sums)[kTokens]) {
  constexpr int kColumns = 128 / panel_type(type).bits, kPieces = 256 / kColumns;
#pragma unroll 4
  for (int i = 0; i < kPieces / 4; ++i) {
    const int piece = 4 * i + j;
    if (piece >= pieces) break;
    float values[kColumns];
    piece_values<type>(load_as<uint4>(chunk + (piece * 8 + row) * 16), values);
#pragma unroll
    for (int n = 0; n < kTokens; ++n) {
      const std::byte* at = x + n * stride + piece * kColumns * 4;
#pragma unroll
      for (int part = 0; part < kColumns / 4; ++part) {
        const float4 four = load_as<float4>(at + part * 16);
        sums[n] = __fmaf_rn(values[4 * part], four.x, sums[n]);
        sums[n] = __fmaf_rn(values[4 * part + 1], four.y, sums[n]);
        sums[n] = __fmaf_rn(values[4 * part + 2], four.z, sums[n]);
        sums[n] = __fmaf_rn(values[4 * part + 3], four.w, sums[n]);
      }
    }
  }
}

}  // namespace minfer::cuda
