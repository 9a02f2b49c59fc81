// Small-batch kernels for Q5_1 and Q8_0, which share products in files.
// How they work: batch.cuh; how launches are cut: launch/linear_batch.hpp.
#include "cuda/kernels/linear/batch.cuh"

namespace minfer::cuda {

void launch_batch_q5_1(const Queue& queue, const BatchLaunch& launch) {
  launch_batch_pair<DType::q5_1, DType::q8_0>(queue, launch);
}

}  // namespace minfer::cuda
