// Kernels of single entries of experts for Q4_K and Q6_K.
// How they work: entry.cuh.
#include "cuda/kernels/experts/entry.cuh"

namespace minfer::cuda {

void launch_entry_q4_k(const Queue& queue, const EntryLaunch& launch) {
  launch_entry_pair<DType::q4_k, DType::q6_k>(queue, launch);
}

}  // namespace minfer::cuda
