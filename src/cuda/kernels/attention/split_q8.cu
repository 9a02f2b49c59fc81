// The split kernel (split.cuh) with keys and values in q8_0. A unit of its own: they compile side by side.
#include "cuda/kernels/attention/split.cuh"

namespace minfer::cuda::attention {

bool launch_split_q8(const Queue& queue, const AttentionParams& params, const SplitGrid& grid) {
  return launch_split<KvFormat::q8_0, KvFormat::q8_0>(queue, params, grid);
}

}  // namespace minfer::cuda::attention
