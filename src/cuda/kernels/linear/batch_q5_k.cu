// Small-batch kernels for Q5_K and Q6_K, which share products in files.
// How they work: batch.cuh; how launches are cut: launch/linear_batch.hpp.
#include "cuda/kernels/linear/batch.cuh"

namespace minfer::cuda {

void launch_batch_q5_k(const Queue& queue, const BatchLaunch& launch) {
  launch_batch_pair<DType::q5_k, DType::q6_k>(queue, launch);
}

}  // namespace minfer::cuda
