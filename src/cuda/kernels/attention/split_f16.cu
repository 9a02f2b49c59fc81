// The split kernel (split.cuh) with keys and values in f16. A unit of its own: they compile side by side.
#include "cuda/kernels/attention/split.cuh"

namespace minfer::cuda::attention {

void launch_split_f16(const Queue& queue, const AttentionParams& params, const SplitGrid& grid) {
  launch_split<KvFormat::f16>(queue, params, grid);
}
int64_t split_shared_bytes_f16(int64_t head_size) {
  return split_shared_bytes<KvFormat::f16>(head_size);
}

}  // namespace minfer::cuda::attention
