// What the tile kernels of experts are given. See tile.cuh.
#pragma once

#include "cuda/launch/experts.hpp"
#include "cuda/runtime/launch.hpp"

namespace minfer::cuda {

inline constexpr int kTileTokens = 64, kNarrowTileTokens = 16;

struct TileParams {
  const int32_t* slices;
  const ExpertSlice* slice;
  const int32_t* source;  // [entries]: the row of x; null: the entry
  const std::byte* x;
  int64_t x_stride;
  int x_scales_at;              // in a row
  const std::byte* weights[2];  // expert 0's matrix; of a glu: gate's and up's
  const float* bias[2];
  int64_t stride;  // bytes from one expert to the next
  int panel_bytes;
  int panels;  // of a matrix
  int rows;
  int blocks;      // of 32 columns
  std::byte* out;  // of entry 0
  int64_t out_stride;
  ActivationFormat format;
  graph::Activation activation;
};

struct TileLaunch {
  TileParams params;
  bool glu = false;
  int tokens = 0;  // kTileTokens or kNarrowTileTokens
  int64_t slices = 0;
};

void launch_tile_q4_k(const Queue& queue, const TileLaunch& launch);
void launch_tile_q5_k(const Queue& queue, const TileLaunch& launch);
void launch_tile_q6_k(const Queue& queue, const TileLaunch& launch);
void launch_tile_q8_0(const Queue& queue, const TileLaunch& launch);
void launch_tile_q5_0(const Queue& queue, const TileLaunch& launch);
void launch_tile_q5_1(const Queue& queue, const TileLaunch& launch);
void launch_tile_q4_0(const Queue& queue, const TileLaunch& launch);
void launch_tile_q4_1(const Queue& queue, const TileLaunch& launch);
void launch_tile_q3_k(const Queue& queue, const TileLaunch& launch);
void launch_tile_iq4_nl(const Queue& queue, const TileLaunch& launch);
void launch_tile_iq4_xs(const Queue& queue, const TileLaunch& launch);
void launch_tile_mxfp4(const Queue& queue, const TileLaunch& launch);

}  // namespace minfer::cuda
