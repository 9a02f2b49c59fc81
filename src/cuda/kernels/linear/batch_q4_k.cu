// Small-batch kernels for Q4_K and Q6_K, which share products in files.
// How they work: batch.cuh; how launches are cut: launch/linear_batch.hpp.
#include "cuda/kernels/linear/batch.cuh"

namespace minfer::cuda {

void launch_batch_q4_k(const Queue& queue, const BatchLaunch& launch) {
  launch_batch_pair<DType::q4_k, DType::q6_k>(queue, launch);
}

}  // namespace minfer::cuda
