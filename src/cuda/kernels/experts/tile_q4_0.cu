// Tile kernels of experts for Q4_0, Q4_1.
// How they work: tile.cuh.
#include "cuda/kernels/experts/tile.cuh"

namespace minfer::cuda {

void launch_tile_q4_0(const Queue& queue, const TileLaunch& launch) {
  launch_tile_of<DType::q4_0>(queue, launch);
}

void launch_tile_q4_1(const Queue& queue, const TileLaunch& launch) {
  launch_tile_of<DType::q4_1>(queue, launch);
}

}  // namespace minfer::cuda
