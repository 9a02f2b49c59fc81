// Dot products of 512 columns of plain panels (F32, F16, BF16) with f32 activations in shared memory. A lane has two
// rows and every eighth piece of 16 bytes; rows are taken as in block_dot.cuh. Sums in f32, in the order of the columns
// that a lane has, the same for any number of tokens.
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

// Adds the lane's products to sums, [token][row, other]. `pieces`: of this unit; x: its first activation.
template <DType type, int kTokens>
__device__ __forceinline__ void plain_dot(const std::byte* unit, int pieces, int lane, const std::byte* x, int stride,
                                          float (&sums)[kTokens][2]) {
  constexpr int kColumns = 128 / panel_type(type).bits, kPieces = 512 / kColumns;
  const int first = lane / 4, row = lane % 4 + lane / 4 % 2 * 4, other = row ^ 4;
#pragma unroll 2
  for (int i = 0; i < kPieces / 8; ++i) {
    const int piece = 8 * i + first;
    if (piece >= pieces) break;
    float values[2][kColumns];
    piece_values<type>(load_as<uint4>(unit + (piece * 8 + row) * 16), values[0]);
    piece_values<type>(load_as<uint4>(unit + (piece * 8 + other) * 16), values[1]);
#pragma unroll
    for (int n = 0; n < kTokens; ++n) {
      const std::byte* at = x + n * stride + piece * kColumns * 4;
#pragma unroll
      for (int part = 0; part < kColumns / 4; ++part) {
        const float4 four = load_as<float4>(at + part * 16);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          sums[n][r] = __fmaf_rn(values[r][4 * part], four.x, sums[n][r]);
          sums[n][r] = __fmaf_rn(values[r][4 * part + 1], four.y, sums[n][r]);
          sums[n][r] = __fmaf_rn(values[r][4 * part + 2], four.z, sums[n][r]);
          sums[n][r] = __fmaf_rn(values[r][4 * part + 3], four.w, sums[n][r]);
        }
      }
    }
  }
}

}  // namespace minfer::cuda
