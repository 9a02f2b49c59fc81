// Small-batch kernels for Q8_0 and Q5_0, which share products in files.
// How they work: batch.cuh; how launches are cut: launch/linear_batch.hpp.
#include "cuda/kernels/linear/batch.cuh"

namespace minfer::cuda {

void launch_batch_q8_0(const Queue& queue, const BatchLaunch& launch) {
  launch_batch_pair<DType::q8_0, DType::q5_0>(queue, launch);
}

}  // namespace minfer::cuda
