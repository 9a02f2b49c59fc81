// The split kernel (split.cuh) with keys and values in f16. A unit of its own: they compile side by side.
#include "cuda/kernels/attention/split.cuh"

namespace minfer::cuda::attention {

bool launch_split_f16(const Queue& queue, const AttentionParams& params, const SplitGrid& grid) {
  return launch_split<KvFormat::f16, KvFormat::f16>(queue, params, grid);
}

}  // namespace minfer::cuda::attention
