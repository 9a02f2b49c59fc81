// Dependent launches: the two sides of a chain of kernels. Called by every thread of a block. On cards before 9.0 they
// do nothing: there a kernel starts when the one before it has ended.
#pragma once

namespace minfer::cuda {

// The kernel after this one may start now (its blocks take what room is left).
__device__ __forceinline__ void allow_dependents() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Until all kernels before have ended, their writes visible. Before it only weights and earlier steps' pages are read.
__device__ __forceinline__ void wait_for_dependencies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace minfer::cuda
