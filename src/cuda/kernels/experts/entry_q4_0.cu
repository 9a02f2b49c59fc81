// Kernels of single entries of experts for Q4_0 and Q4_1.
// How they work: entry.cuh.
#include "cuda/kernels/experts/entry.cuh"

namespace minfer::cuda {

void launch_entry_q4_0(const Queue& queue, const EntryLaunch& launch) {
  launch_entry_pair<DType::q4_0, DType::q4_1>(queue, launch);
}

}  // namespace minfer::cuda
