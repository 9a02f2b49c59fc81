// Panels to rows, at memory speed. A warp takes a chunk of a panel (8 rows, up to 8 blocks of 32 columns): lane 8 b + r
// decodes blocks b and b + 4 of row r (so that a warp's loads are contiguous), and the 8 x 256 values pass through
// shared memory, so that a warp writes whole lines: 512 bytes of a row at once. Weights are loaded before the kernel
// before this one has ended; the scratch, which that one reads, is written after.
#pragma once

#include "cuda/kernels/common/chain.cuh"
#include "cuda/kernels/common/panel_block.cuh"
#include "cuda/kernels/common/row_io.cuh"

namespace minfer::cuda {

inline constexpr int kDecodeWarps = 4;  // a block
inline constexpr int kChunkBlocks = static_cast<int>(kPanelChunkBlocks);
inline constexpr int kChunkUnits = kChunkBlocks * 4;  // of 16 bytes of bf16, a row
inline constexpr int kHalfBlocks = kChunkBlocks / 2;

// Panels of one or two matrices of one type and width. Block (x, y) has kDecodeWarps warps' parts of a panel; y numbers
// the first matrix's panels, then the second's.
struct DecodeJob {
  const std::byte* panels[2];  // the first to decode
  std::byte* out[2];           // its rows
  uint32_t first_panels;       // of the first matrix
  int64_t panel_bytes;
  int64_t out_stride;  // bytes
  int32_t cols;
};

struct DecodePanel {
  const std::byte* panel;
  std::byte* out;  // its row 0
};

__device__ __forceinline__ DecodePanel decode_panel(const DecodeJob& job) {
  const bool second = blockIdx.y >= job.first_panels;
  const uint32_t local = second ? blockIdx.y - job.first_panels : blockIdx.y;
  // Chosen, not indexed: an indexed parameter would be copied to local memory.
  const std::byte* panels = second ? job.panels[1] : job.panels[0];
  std::byte* out = second ? job.out[1] : job.out[0];
  return {panels + local * job.panel_bytes, out + local * kPanelRows * job.out_stride};
}

// Whether all of a type's integers are in -64 .. 63: then q + 64 fits under the exponent of 2^7.
template <DType type>
inline constexpr bool kSmallQuants = panel_type(type).bits <= 6 && type != DType::iq4_nl && type != DType::iq4_xs;

// The block's 32 values as bf16 pairs. A byte becomes a float by being put into the mantissa of a power of two, faster
// than a conversion: 2^7 + q + 64, whose excess the offset takes back (it is rounded to 2^-16 of the scale: far less
// than bf16's rounding), or 2^23 + q + 128, from which the excess is subtracted.
template <DType type>
__device__ __forceinline__ void to_bf16(const uint32_t (&quants)[8], const BlockScales& scales, uint32_t (&pairs)[16]) {
  constexpr bool kSmall = kSmallQuants<type>;
  // Types with an offset have no sign.
  constexpr float kExcess = kSmall ? (kHasOffset<type> ? 128.0F : 192.0F) : 8388736.0F;
  float offset[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) offset[h] = kSmall ? fmaf(-kExcess, scales.scale[h], scales.offset[h]) : 0.0F;
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    uint32_t word = quants[i / 2];
    if constexpr (!kSmall) {
      word ^= 0x80808080U;
    } else if constexpr (!kHasOffset<type>) {
      word = (word & 0x7F7F7F7FU) ^ 0x40404040U;
    }
    float pair[2];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const uint32_t byte = i % 2 * 2 + j;
      if constexpr (kSmall) {
        const float excessive = __uint_as_float(__byte_perm(word, 0x43000000U, 0x7044U + (byte << 8)));
        pair[j] = fmaf(scales.scale[i / 8], excessive, offset[i / 8]);
      } else {
        const float excessive = __uint_as_float(__byte_perm(word, 0x4B000000U, 0x7440U + byte));
        pair[j] = scales.scale[i / 8] * (excessive - kExcess);
      }
    }
    pairs[i] = pack_bf16(pair[0], pair[1]);
  }
}

template <DType type>
__global__ void __launch_bounds__(kDecodeWarps * 32) decode_kernel(DecodeJob job) {
  __shared__ uint4 tiles[kDecodeWarps][kPanelRows * kChunkUnits];
  allow_dependents();
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int number = static_cast<int>(blockIdx.x) * kDecodeWarps + warp;
  const int blocks = min(kChunkBlocks, job.cols / static_cast<int>(kPanelBlock) - number * kChunkBlocks);
  if (blocks <= 0) {
    wait_for_dependencies();
    return;
  }
  const DecodePanel panel = decode_panel(job);
  const std::byte* chunk = panel.panel + number * panel_type(type).chunk_bytes(kChunkBlocks);
  const int row = lane % 8;
  uint32_t quants[2][8] = {};
  BlockScales scales[2] = {};
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int block = h * kHalfBlocks + lane / 8;
    if (block < blocks) {
      panel_quants<type>(chunk, blocks, block, row, quants[h]);
      scales[h] = panel_scales<type>(chunk, blocks, block, row);
    }
  }
  wait_for_dependencies();
  // Unit u of row r lies at u ^ r: no bank conflicts, written or read.
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    uint32_t pairs[16];
    to_bf16<type>(quants[h], scales[h], pairs);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int unit = (h * kHalfBlocks + lane / 8) * 4 + i;
      tiles[warp][row * kChunkUnits + (unit ^ row)] =
          make_uint4(pairs[4 * i], pairs[4 * i + 1], pairs[4 * i + 2], pairs[4 * i + 3]);
    }
  }
  __syncwarp();
  if (lane >= blocks * 4) return;
  std::byte* out = panel.out + (number * kChunkUnits + lane) * 16;
#pragma unroll
  for (int r = 0; r < static_cast<int>(kPanelRows); ++r) {
    *reinterpret_cast<uint4*>(out) = tiles[warp][r * kChunkUnits + (lane ^ r)];
    out += job.out_stride;
  }
}

// 8 halves as floats.
__device__ __forceinline__ void halves_to_f32(uint4 halves, uint4 (&floats)[2]) {
  const uint32_t word[4] = {halves.x, halves.y, halves.z, halves.w};
  uint32_t bits[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    bits[i] = __float_as_uint(__half2float(__half(__half_raw{static_cast<uint16_t>(word[i / 2] >> (i % 2 * 16))})));
  }
  floats[0] = make_uint4(bits[0], bits[1], bits[2], bits[3]);
  floats[1] = make_uint4(bits[4], bits[5], bits[6], bits[7]);
}

// Plain types: BF16 and F32 are copied, F16 becomes f32. A warp takes kChunkUnits units of 16 decoded bytes of 8 rows:
// lane 8 p + r loads pieces p, p + 4 ... of row r; from there as above.
template <DType type>
inline constexpr int kPieceUnits = type == DType::f16 ? 2 : 1;  // decoded, of a piece
template <DType type>
inline constexpr int kPlainColumns = kChunkUnits / kPieceUnits<type> * (128 / panel_type(type).bits);  // of a warp

template <DType type>
__global__ void __launch_bounds__(kDecodeWarps * 32) decode_plain_kernel(DecodeJob job) {
  __shared__ uint4 tiles[kDecodeWarps][kPanelRows * kChunkUnits];
  allow_dependents();
  constexpr int kPieceColumns = 128 / panel_type(type).bits;
  constexpr int kPieces = kChunkUnits / kPieceUnits<type>;  // of a warp and row
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int row = lane % 8;
  const int first = (static_cast<int>(blockIdx.x) * kDecodeWarps + warp) * kPieces;
  const int pieces = min(kPieces, (job.cols + kPieceColumns - 1) / kPieceColumns - first);
  const DecodePanel panel = decode_panel(job);
  const std::byte* from = panel.panel + static_cast<int64_t>(first) * kPanelRows * 16 + lane * 16;
  uint4 words[kPieces / 4];
#pragma unroll
  for (int i = 0; i < kPieces / 4; ++i) {
    words[i] = make_uint4(0, 0, 0, 0);
    if (i * 4 + lane / 8 < pieces) words[i] = load_as<uint4>(from + i * 512);
  }
  wait_for_dependencies();
  if (pieces <= 0) return;
#pragma unroll
  for (int i = 0; i < kPieces / 4; ++i) {
    const int unit = (i * 4 + lane / 8) * kPieceUnits<type>;
    if constexpr (type == DType::f16) {
      uint4 floats[2];
      halves_to_f32(words[i], floats);
      tiles[warp][row * kChunkUnits + (unit ^ row)] = floats[0];
      tiles[warp][row * kChunkUnits + ((unit + 1) ^ row)] = floats[1];
    } else {
      tiles[warp][row * kChunkUnits + (unit ^ row)] = words[i];
    }
  }
  __syncwarp();
  // A row's stride has room for whole units only: 8 columns of bf16, 4 of f32.
  constexpr int kUnitColumns = kPieceColumns / kPieceUnits<type>;
  const int64_t unit = static_cast<int64_t>(first) * kPieceUnits<type> + lane;
  if (unit * kUnitColumns >= job.cols) return;
  std::byte* out = panel.out + unit * 16;
#pragma unroll
  for (int r = 0; r < static_cast<int>(kPanelRows); ++r) {
    *reinterpret_cast<uint4*>(out) = tiles[warp][r * kChunkUnits + (lane ^ r)];
    out += job.out_stride;
  }
}

}  // namespace minfer::cuda
