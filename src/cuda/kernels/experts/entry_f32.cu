// Kernels of single entries of experts for F32.
// How they work: entry.cuh.
#include "cuda/kernels/experts/entry.cuh"

namespace minfer::cuda {

void launch_entry_f32(const Queue& queue, const EntryLaunch& launch) {
  launch_entry_pair<DType::f32, DType::f32>(queue, launch);
}

}  // namespace minfer::cuda
