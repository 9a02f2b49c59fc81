// Panels to rows, at memory speed. A warp takes 4 blocks of 32 columns of a panel's 8 rows: lane 8 b + r decodes block
// b of row r (so that a warp's loads are contiguous), and the 8 x 128 values pass through shared memory, so that a warp
// writes whole lines: 256 bytes of a row at once. Weights are loaded before the kernel before this one has ended; the
// scratch, which that one reads, is written after.
#pragma once

#include "cuda/kernels/common/chain.cuh"
#include "cuda/kernels/common/panel_block.cuh"
#include "cuda/kernels/common/row_io.cuh"

namespace minfer::cuda {

inline constexpr int kDecodeWarps = 8;
inline constexpr int kTileBlocks = 4;                  // of 32 columns
inline constexpr int kTileUnits = kTileBlocks * 4;     // of 16 bytes, a row
inline constexpr int kTileColumns = kTileBlocks * 32;  // 256 bytes of bf16

// Panels of one or two matrices of one type and width. A tile is numbered: panel by panel, the first matrix's before
// the second's.
struct DecodeJob {
  const std::byte* panels[2];  // the first to decode
  std::byte* out[2];           // its rows
  uint32_t first_panels;       // of the first matrix
  uint32_t tiles;              // of both
  uint32_t row_tiles;          // a panel
  int64_t panel_bytes;
  int64_t out_stride;  // bytes
  int64_t cols;
};

struct DecodeTile {
  const std::byte* panel;
  std::byte* out;  // row 0 of the panel
  uint32_t index;  // in the panel
};

__device__ __forceinline__ DecodeTile decode_tile(const DecodeJob& job, uint32_t tile) {
  const uint32_t panel = tile / job.row_tiles;
  const bool second = panel >= job.first_panels;
  const uint32_t local = second ? panel - job.first_panels : panel;
  return {job.panels[second] + local * job.panel_bytes, job.out[second] + local * kPanelRows * job.out_stride,
          tile % job.row_tiles};
}

// Byte `index` of a word as a float: the byte is put under the exponent of 2^23. Faster than a conversion.
template <bool kSigned>
__device__ __forceinline__ float byte_value(uint32_t word, int index) {
  const uint32_t bits = __byte_perm(kSigned ? word ^ 0x80808080U : word, 0x4B000000U, 0x7440U + index);
  return __uint_as_float(bits) - (kSigned ? 8388736.0F : 8388608.0F);
}

// The block's 32 values as bf16 pairs, each rounded once (the sum of product and offset is not rounded before).
template <DType type>
__device__ __forceinline__ void to_bf16(const uint32_t (&quants)[8], const BlockScales& scales, uint32_t (&pairs)[16]) {
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    float pair[2];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      // Types with an offset have no sign.
      const float q = byte_value<!kHasOffset<type>>(quants[i / 2], i % 2 * 2 + j);
      const float scale = scales.scale[i / 8];
      pair[j] = kHasOffset<type> ? fmaf(scale, q, scales.offset[i / 8]) : scale * q;
    }
    pairs[i] = pack_bf16(pair[0], pair[1]);
  }
}

template <DType type>
__global__ void __launch_bounds__(kDecodeWarps * 32) decode_kernel(DecodeJob job) {
  __shared__ uint4 tiles[kDecodeWarps][kPanelRows * kTileUnits];
  allow_dependents();
  const uint32_t warp = threadIdx.x / 32;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const uint32_t number = blockIdx.x * kDecodeWarps + warp;
  if (number >= job.tiles) {
    wait_for_dependencies();
    return;
  }
  const DecodeTile tile = decode_tile(job, number);
  const int row = lane % 8;
  const int first = static_cast<int>(tile.index) * kTileBlocks;  // block of the row
  const int chunk_first = first / static_cast<int>(kPanelChunkBlocks) * static_cast<int>(kPanelChunkBlocks);
  const int all = static_cast<int>(job.cols / kPanelBlock);
  const int chunk_blocks = min(static_cast<int>(kPanelChunkBlocks), all - chunk_first);
  const int tile_blocks = min(kTileBlocks, all - first);
  const std::byte* chunk = tile.panel + static_cast<int64_t>(chunk_first / kPanelChunkBlocks) *
                                            panel_type(type).chunk_bytes(static_cast<int>(kPanelChunkBlocks));
  uint32_t quants[8] = {};
  BlockScales scales = {};
  if (lane / 8 < tile_blocks) {
    panel_quants<type>(chunk, chunk_blocks, first - chunk_first + lane / 8, row, quants);
    scales = panel_scales<type>(chunk, chunk_blocks, first - chunk_first + lane / 8, row);
  }
  wait_for_dependencies();
  uint32_t pairs[16];
  to_bf16<type>(quants, scales, pairs);
  // Unit u of row r lies at u ^ r: no bank conflicts, written or read.
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    tiles[warp][row * kTileUnits + ((lane / 8 * 4 + i) ^ row)] =
        make_uint4(pairs[4 * i], pairs[4 * i + 1], pairs[4 * i + 2], pairs[4 * i + 3]);
  }
  __syncwarp();
  std::byte* out = tile.out + static_cast<int64_t>(tile.index) * kTileColumns * 2;
  const int unit = lane % kTileUnits;
  if (unit >= tile_blocks * 4) return;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int out_row = 2 * i + lane / kTileUnits;
    *reinterpret_cast<uint4*>(out + out_row * job.out_stride + unit * 16) =
        tiles[warp][out_row * kTileUnits + (unit ^ out_row)];
  }
}

// Plain types. Lane 8 p + r takes piece p (16 bytes) of row r: a tile is 4 pieces wide. BF16 and F32 are copied, F16
// becomes f32.
template <DType type>
__global__ void __launch_bounds__(kDecodeWarps * 32) decode_plain_kernel(DecodeJob job) {
  allow_dependents();
  constexpr int kPieceColumns = 128 / panel_type(type).bits;
  const uint32_t number = blockIdx.x * kDecodeWarps + threadIdx.x / 32;
  const uint32_t lane = threadIdx.x % 32;
  if (number >= job.tiles) {
    wait_for_dependencies();
    return;
  }
  const DecodeTile tile = decode_tile(job, number);
  const int64_t piece = static_cast<int64_t>(tile.index) * 4 + lane / 8;
  const bool there = piece * kPieceColumns < job.cols;
  uint4 words = make_uint4(0, 0, 0, 0);
  if (there) words = load_as<uint4>(tile.panel + (piece * kPanelRows + lane % 8) * 16);
  wait_for_dependencies();
  if (!there) return;
  std::byte* row = tile.out + lane % 8 * job.out_stride;
  if constexpr (type == DType::f16) {
    const uint32_t word[4] = {words.x, words.y, words.z, words.w};
    float4 values[2];
    float* value = &values[0].x;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      value[i] = __half2float(__half(__half_raw{static_cast<uint16_t>(word[i / 2] >> (i % 2 * 16))}));
    }
    float4* to = reinterpret_cast<float4*>(row + piece * 32);
    to[0] = values[0];
    // A row's stride has room for whole pieces of 4 columns only.
    if (piece * kPieceColumns + 4 < job.cols) to[1] = values[1];
  } else {
    *reinterpret_cast<uint4*>(row + piece * 16) = words;
  }
}

}  // namespace minfer::cuda
