// The tile kernels (tile.cuh, tile_hopper.cuh) with keys and values in q8_0. A unit of its own: they compile side by
// side.
#include "cuda/kernels/attention/tile_hopper.cuh"

namespace minfer::cuda::attention {

bool launch_tile_q8(const Queue& queue, const AttentionParams& params, const TileGrid& grid) {
  return launch_tile<KvFormat::q8_0>(queue, params, grid);
}

}  // namespace minfer::cuda::attention
