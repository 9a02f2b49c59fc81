// The split kernel (split.cuh) with keys and values in q8_0. A unit of its own: they compile side by side.
#include "cuda/kernels/attention/split.cuh"

namespace minfer::cuda::attention {

void launch_split_q8(const Queue& queue, const AttentionParams& params, const SplitGrid& grid) {
  launch_split<KvFormat::q8_0>(queue, params, grid);
}
int64_t split_shared_bytes_q8(int64_t head_size) {
  return split_shared_bytes<KvFormat::q8_0>(head_size);
}

}  // namespace minfer::cuda::attention
