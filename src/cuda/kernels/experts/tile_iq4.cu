// Tile kernels of experts for types whose quants are indices: IQ4_NL, IQ4_XS, MXFP4.
// How they work: tile.cuh.
#include "cuda/kernels/experts/tile.cuh"

namespace minfer::cuda {

void launch_tile_iq4_nl(const Queue& queue, const TileLaunch& launch) {
  launch_tile_of<DType::iq4_nl>(queue, launch);
}

void launch_tile_iq4_xs(const Queue& queue, const TileLaunch& launch) {
  launch_tile_of<DType::iq4_xs>(queue, launch);
}

void launch_tile_mxfp4(const Queue& queue, const TileLaunch& launch) {
  launch_tile_of<DType::mxfp4>(queue, launch);
}

}  // namespace minfer::cuda
