// Kernels of single entries of experts for BF16.
// How they work: entry.cuh.
#include "cuda/kernels/experts/entry.cuh"

namespace minfer::cuda {

void launch_entry_bf16(const Queue& queue, const EntryLaunch& launch) {
  launch_entry_pair<DType::bf16, DType::bf16>(queue, launch);
}

}  // namespace minfer::cuda
