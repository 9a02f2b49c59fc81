// Tile kernels of experts for Q3_K, Q4_K, Q5_K, Q6_K.
// How they work: tile.cuh.
#include "cuda/kernels/experts/tile.cuh"

namespace minfer::cuda {

void launch_tile_q3_k(const Queue& queue, const TileLaunch& launch) {
  launch_tile_of<DType::q3_k>(queue, launch);
}

void launch_tile_q4_k(const Queue& queue, const TileLaunch& launch) {
  launch_tile_of<DType::q4_k>(queue, launch);
}

void launch_tile_q5_k(const Queue& queue, const TileLaunch& launch) {
  launch_tile_of<DType::q5_k>(queue, launch);
}

void launch_tile_q6_k(const Queue& queue, const TileLaunch& launch) {
  launch_tile_of<DType::q6_k>(queue, launch);
}

}  // namespace minfer::cuda
