// Kernels of single entries of experts for IQ4_NL and IQ4_XS.
// How they work: entry.cuh.
#include "cuda/kernels/experts/entry.cuh"

namespace minfer::cuda {

void launch_entry_iq4(const Queue& queue, const EntryLaunch& launch) {
  launch_entry_pair<DType::iq4_nl, DType::iq4_xs>(queue, launch);
}

}  // namespace minfer::cuda
