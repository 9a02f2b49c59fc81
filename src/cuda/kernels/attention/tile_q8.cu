// The tile kernels (tile.cuh, tile_hopper.cuh) with keys and values in q8_0. A unit of its own: they compile side by
// side.
#include "cuda/kernels/attention/tile_hopper.cuh"

namespace minfer::cuda::attention {

void launch_tile_q8(const Queue& queue, const AttentionParams& params, const TileGrid& grid) {
  launch_tile<KvFormat::q8_0>(queue, params, grid);
}
int64_t tile_shared_bytes_q8(int64_t head_size, int major) {
  return tile_shared_bytes<KvFormat::q8_0>(head_size, major);
}

}  // namespace minfer::cuda::attention
