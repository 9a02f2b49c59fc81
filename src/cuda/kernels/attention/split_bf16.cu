// The split kernel (split.cuh) with keys and values in bf16. A unit of its own: they compile side by side.
#include "cuda/kernels/attention/split.cuh"

namespace minfer::cuda::attention {

void launch_split_bf16(const Queue& queue, const AttentionParams& params, const SplitGrid& grid) {
  launch_split<KvFormat::bf16>(queue, params, grid);
}
int64_t split_shared_bytes_bf16(int64_t head_size) {
  return split_shared_bytes<KvFormat::bf16>(head_size);
}

}  // namespace minfer::cuda::attention
