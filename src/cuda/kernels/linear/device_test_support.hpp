// Device memory for the tests of the linear family that need a card: typed buffers, poisoned where they are outputs.
#pragma once

#include <cuda_runtime_api.h>

#include <cstring>
#include <vector>

#include "cuda/runtime/device.hpp"
#include "cuda/runtime/launch.hpp"
#include "cuda/runtime/status.hpp"

namespace minfer::cuda::testing {

// Memory on the device, freed at the end of the test.
template <class T>
class TestBuffer {
 public:
  // `count` elements, all bytes 0xFF: NaN where floats.
  explicit TestBuffer(size_t count) : count_(count) {
    check_status(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T) + 16), "test");
    poison();
  }
  explicit TestBuffer(const std::vector<T>& values) : TestBuffer(values.size()) {
    check_status(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), "test");
  }
  TestBuffer(const TestBuffer&) = delete;
  TestBuffer& operator=(const TestBuffer&) = delete;
  ~TestBuffer() { cudaFree(data_); }

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

// The card as the product sees it.
inline Capabilities test_capabilities() {
  return query_capabilities();
}

}  // namespace minfer::cuda::testing
