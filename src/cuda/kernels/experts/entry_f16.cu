// Kernels of single entries of experts for F16.
// How they work: entry.cuh.
#include "cuda/kernels/experts/entry.cuh"

namespace minfer::cuda {

void launch_entry_f16(const Queue& queue, const EntryLaunch& launch) {
  launch_entry_pair<DType::f16, DType::f16>(queue, launch);
}

}  // namespace minfer::cuda
