// The tile kernels (tile.cuh, tile_hopper.cuh) with keys and values in f16. A unit of its own: they compile side by
// side.
#include "cuda/kernels/attention/tile_hopper.cuh"

namespace minfer::cuda::attention {

bool launch_tile_f16(const Queue& queue, const AttentionParams& params, const TileGrid& grid) {
  return launch_tile<KvFormat::f16>(queue, params, grid);
}

}  // namespace minfer::cuda::attention
