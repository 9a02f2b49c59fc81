// Small-batch kernels for Q4_0 and Q4_1, which share products in files.
// How they work: batch.cuh; how launches are cut: launch/linear_batch.hpp.
#include "cuda/kernels/linear/batch.cuh"

namespace minfer::cuda {

void launch_batch_q4_0(const Queue& queue, const BatchLaunch& launch) {
  launch_batch_pair<DType::q4_0, DType::q4_1>(queue, launch);
}

}  // namespace minfer::cuda
