// Kernels of single entries of experts for Q5_1 and Q8_0.
// How they work: entry.cuh.
#include "cuda/kernels/experts/entry.cuh"

namespace minfer::cuda {

void launch_entry_q5_1(const Queue& queue, const EntryLaunch& launch) {
  launch_entry_pair<DType::q5_1, DType::q8_0>(queue, launch);
}

}  // namespace minfer::cuda
