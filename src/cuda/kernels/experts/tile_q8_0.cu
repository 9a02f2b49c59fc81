// Tile kernels of experts for Q8_0, Q5_0, Q5_1.
// How they work: tile.cuh.
#include "cuda/kernels/experts/tile.cuh"

namespace minfer::cuda {

void launch_tile_q8_0(const Queue& queue, const TileLaunch& launch) {
  launch_tile_of<DType::q8_0>(queue, launch);
}

void launch_tile_q5_0(const Queue& queue, const TileLaunch& launch) {
  launch_tile_of<DType::q5_0>(queue, launch);
}

void launch_tile_q5_1(const Queue& queue, const TileLaunch& launch) {
  launch_tile_of<DType::q5_1>(queue, launch);
}

}  // namespace minfer::cuda
