// Kernels of single entries of experts for MXFP4.
// How they work: entry.cuh.
#include "cuda/kernels/experts/entry.cuh"

namespace minfer::cuda {

void launch_entry_mxfp4(const Queue& queue, const EntryLaunch& launch) {
  launch_entry_pair<DType::mxfp4, DType::mxfp4>(queue, launch);
}

}  // namespace minfer::cuda
