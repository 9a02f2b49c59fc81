// Kernels of single entries of experts for Q2_K and Q3_K.
// How they work: entry.cuh.
#include "cuda/kernels/experts/entry.cuh"

namespace minfer::cuda {

void launch_entry_q2_k(const Queue& queue, const EntryLaunch& launch) {
  launch_entry_pair<DType::q2_k, DType::q3_k>(queue, launch);
}

}  // namespace minfer::cuda
