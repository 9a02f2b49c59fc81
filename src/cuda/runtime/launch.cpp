// The guard before a launch. See launch.hpp.
#include "cuda/runtime/launch.hpp"

#include "base/error.hpp"

namespace minfer::cuda {

void guard_call(const Queue& queue, const char* site) {
  const cudaError_t before = cudaPeekAtLastError();
  if (before != cudaSuccess) {
    if (!is_sticky(before)) cudaGetLastError();
    fail(ErrorCode::device, "CUDA had failed before {}: {} ({})", site, cudaGetErrorString(before),
         cudaGetErrorName(before));
  }
  if (queue.faults != nullptr && queue.faults->trips(site)) {
    fail(ErrorCode::device, "CUDA failed at {}: a fault that a test asked for", site);
  }
}

}  // namespace minfer::cuda
