// The one way to launch a kernel. Every launch is guarded: an error that was there before is reported as such, a failed
// launch is an error of its site, never passed over. No other file launches (tests/tidy checks it).
//
// Kernels form a chain on one stream. A chained one may start while the one before it still runs: it must call
// wait_for_dependencies() (kernels/common/chain.cuh) before it touches anything but weights and earlier steps' pages.
#pragma once

#include <cuda_runtime.h>

#include "cuda/runtime/capabilities.hpp"
#include "cuda/runtime/status.hpp"

namespace minfer::cuda {

// Where launchers put their work. Owned by the device; one thread uses it.
struct Queue {
  cudaStream_t stream = nullptr;
  const Capabilities* capabilities = nullptr;
  FaultLever* faults = nullptr;  // tests only
  bool chained = false;          // programmatic dependent launch; needs Tier::hopper
};

struct LaunchShape {
  dim3 grid;
  dim3 block;
  int64_t shared_bytes = 0;  // dynamic
  // Whether it may start before the kernel before it has ended, where the queue is chained. It then holds its shared
  // memory while it waits: for kernels that have something to fetch meanwhile. All others lose, measured on steps.
  bool chained = false;
  int cluster = 1;  // blocks that share their memory; more than 1 needs Tier::hopper
};

// Shared memory beyond this has to be asked for.
inline constexpr int64_t kDefaultSharedBytes = 48 * 1024;

// Reports an error from before, or the lever's.
void guard_call(const Queue& queue, const char* site);

template <class... Params, class... Args>
void launch_kernel(const Queue& queue, const char* site, const LaunchShape& shape, void (*kernel)(Params...),
                   Args&&... args) {
  guard_call(queue, site);
  if (shape.shared_bytes > kDefaultSharedBytes) {
    check_status(
        cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(shape.shared_bytes)),
        site);
  }
  // A multiprocessor changes how it splits its memory only when it is empty: with one split for all kernels, the next
  // kernel's blocks may come while this one's are there.
  check_status(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                    cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared),
               site);
  cudaLaunchAttribute attributes[2] = {};
  unsigned count = 0;
  if (queue.chained && shape.chained) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (shape.cluster > 1) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count].val.clusterDim.x = static_cast<unsigned>(shape.cluster);
    attributes[count].val.clusterDim.y = 1;
    attributes[count++].val.clusterDim.z = 1;
  }
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = static_cast<size_t>(shape.shared_bytes);
  config.stream = queue.stream;
  config.attrs = attributes;
  config.numAttrs = count;
  check_status(cudaLaunchKernelEx(&config, kernel, static_cast<Params>(args)...), site);
}

}  // namespace minfer::cuda
