// Kernels of single entries of experts for Q8_0 and Q5_0.
// How they work: entry.cuh.
#include "cuda/kernels/experts/entry.cuh"

namespace minfer::cuda {

void launch_entry_q8_0(const Queue& queue, const EntryLaunch& launch) {
  launch_entry_pair<DType::q8_0, DType::q5_0>(queue, launch);
}

}  // namespace minfer::cuda
