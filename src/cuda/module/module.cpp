// What libminfer-cuda.so exports. See interface.hpp.
#include "cuda/executor/cuda_backend.hpp"
#include "cuda/module/interface.hpp"

extern "C" __attribute__((visibility("default"))) const char* minfer_cuda_build() {
  return minfer::cuda::kModuleBuild;
}

extern "C" __attribute__((visibility("default"))) minfer::graph::Backend* minfer_cuda_create(
    const minfer::graph::BackendOptions* options) {
  return minfer::cuda::create_cuda_backend(*options).release();
}
