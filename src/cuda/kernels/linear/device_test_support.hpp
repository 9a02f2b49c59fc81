// Device memory for the tests of the linear family that need a card: typed buffers, poisoned where they are outputs.
#pragma once

#include <cuda_runtime_api.h>

#include <cstring>
#include <vector>

#include "cuda/runtime/capabilities.hpp"
#include "cuda/runtime/launch.hpp"
#include "cuda/runtime/status.hpp"

namespace minfer::cuda::testing {

// Memory on the device, freed at the end of the test.
template <class T>
class DeviceBuffer {
 public:
  // `count` elements, all bytes 0xFF: NaN where floats.
  explicit DeviceBuffer(size_t count) : count_(count) {
    check_status(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T) + 16), "test");
    poison();
  }
  explicit DeviceBuffer(const std::vector<T>& values) : DeviceBuffer(values.size()) {
    check_status(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), "test");
  }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer() { cudaFree(data_); }

  T* data() const { return data_; }
  size_t size() const { return count_; }
  void poison() { check_status(cudaMemset(data_, 0xFF, count_ * sizeof(T)), "test"); }
  std::vector<T> read() const {
    std::vector<T> values(count_);
    check_status(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost), "test");
    return values;
  }

 private:
  T* data_ = nullptr;
  size_t count_ = 0;
};

// The card as it is; the first one.
inline Capabilities test_capabilities() {
  cudaDeviceProp properties{};
  check_status(cudaGetDeviceProperties(&properties, 0), "test");
  Capabilities capabilities;
  capabilities.name = properties.name;
  capabilities.major = properties.major;
  capabilities.minor = properties.minor;
  capabilities.tier = choose_tier(properties.name, properties.major, properties.minor);
  capabilities.multiprocessors = properties.multiProcessorCount;
  capabilities.shared_bytes_per_block = static_cast<int64_t>(properties.sharedMemPerBlockOptin);
  capabilities.shared_bytes_per_multiprocessor = static_cast<int64_t>(properties.sharedMemPerMultiprocessor);
  capabilities.l2_bytes = properties.l2CacheSize;
  capabilities.memory_bytes = static_cast<int64_t>(properties.totalGlobalMem);
  return capabilities;
}

}  // namespace minfer::cuda::testing
