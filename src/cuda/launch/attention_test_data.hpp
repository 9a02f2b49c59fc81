// What the device tests of attention share: device memory, a cache with pages in random order that is written and read
// by plain code of its own (the layout as kv_layout.hpp tells it, not by the kernels' functions), and random numbers.
// Everything that is not written is 0xFF: NaN in every format.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "cuda/launch/attention.hpp"
#include "cuda/launch/test_rows.hpp"
#include "tensor/dtype.hpp"

namespace minfer::cuda {

// Device memory of `count` elements, filled with 0xFF.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t count) : count_(std::max<size_t>(count, 1)) {
    EXPECT_EQ(cudaMalloc(&data_, count_ * sizeof(T)), cudaSuccess);
    poison();
  }
  explicit DeviceArray(const std::vector<T>& host) : DeviceArray(host.size()) { upload(host); }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() const { return data_; }
  // Waits: the streams of the tests don't wait for the default one.
  void upload(const std::vector<T>& host) {
    EXPECT_EQ(cudaMemcpy(data_, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  void poison() {
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaMemset(data_, 0xFF, count_ * sizeof(T)), cudaSuccess);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  // After all work on the device.
  std::vector<T> download() const {
    std::vector<T> host(count_);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(host.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
    return host;
  }

 private:
  T* data_ = nullptr;
  size_t count_;
};

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  float normal() { return normal_(engine_); }
  std::vector<float> normals(size_t count) {
    std::vector<float> out(count);
    for (float& x : out) x = normal();
    return out;
  }
  std::vector<int32_t> shuffled(int32_t count) {
    std::vector<int32_t> out(static_cast<size_t>(count));
    std::iota(out.begin(), out.end(), 0);
    std::shuffle(out.begin(), out.end(), engine_);
    return out;
  }

 private:
  std::mt19937 engine_;
  std::normal_distribution<float> normal_;
};

struct CacheSpec {
  graph::KvFormat key_format, value_format;
  int64_t kv_heads, key_size, value_size;
};

// One layer's pages on the host, with room before and after as other layers have it.
class HostCache {
 public:
  HostCache(const CacheSpec& spec, int64_t pages)
      : spec_(spec),
        key_at_(256),
        value_at_(key_at_ + kv_part_bytes(spec.key_format, spec.kv_heads, spec.key_size)),
        stride_(value_at_ + kv_part_bytes(spec.value_format, spec.kv_heads, spec.value_size) + 512),
        bytes_(static_cast<size_t>(stride_ * pages), std::byte{0xFF}) {}

  std::vector<std::byte>& bytes() { return bytes_; }
  KvLayerView view(std::byte* device) const {
    return {device + key_at_,   device + value_at_, stride_,        spec_.key_format,
            spec_.value_format, spec_.kv_heads,     spec_.key_size, spec_.value_size};
  }
  void write(bool key, int64_t page, int64_t token, int64_t head, const float* x) {
    const int64_t size = key ? spec_.key_size : spec_.value_size;
    const graph::KvFormat format = key ? spec_.key_format : spec_.value_format;
    for (int64_t i = 0; i < size; ++i) {
      std::byte* at = element(key, page, token, head, i);
      if (format == graph::KvFormat::f32) {
        std::memcpy(at, x + i, 4);
      } else if (format == graph::KvFormat::q8_0) {
        float top = 0;
        for (int64_t k = i / 32 * 32; k < i / 32 * 32 + 32; ++k) top = std::max(top, std::fabs(x[k]));
        const float d = top / 127.0F;
        const uint16_t half = tensor::float_to_half(d);
        std::memcpy(scale(key, page, token, head, i / 32), &half, 2);
        *at = static_cast<std::byte>(static_cast<int8_t>(std::nearbyint(x[i] / d)));
      } else {
        const uint16_t bits =
            format == graph::KvFormat::f16 ? tensor::float_to_half(x[i]) : tensor::float_to_bfloat16(x[i]);
        std::memcpy(at, &bits, 2);
      }
    }
  }
  float read(bool key, int64_t page, int64_t token, int64_t head, int64_t i) {
    const graph::KvFormat format = key ? spec_.key_format : spec_.value_format;
    const std::byte* at = element(key, page, token, head, i);
    if (format == graph::KvFormat::f32) {
      float x = 0;
      std::memcpy(&x, at, 4);
      return x;
    }
    uint16_t half = 0;
    std::memcpy(&half, format == graph::KvFormat::q8_0 ? scale(key, page, token, head, i / 32) : at, 2);
    if (format == graph::KvFormat::q8_0)
      return static_cast<float>(static_cast<int8_t>(*at)) * tensor::half_to_float(half);
    return format == graph::KvFormat::f16 ? tensor::half_to_float(half) : tensor::bfloat16_to_float(half);
  }
  // Where an element's bytes, and a q8_0 block's scale, are.
  std::byte* element(bool key, int64_t page, int64_t token, int64_t head, int64_t i) {
    const int64_t size = key ? spec_.key_size : spec_.value_size;
    const graph::KvFormat format = key ? spec_.key_format : spec_.value_format;
    const int64_t width = format == graph::KvFormat::f32 ? 4 : format == graph::KvFormat::q8_0 ? 1 : 2;
    return part(key, page) + ((head * 64 + token) * size + i) * width;
  }
  std::byte* scale(bool key, int64_t page, int64_t token, int64_t head, int64_t block) {
    const int64_t size = key ? spec_.key_size : spec_.value_size;
    return part(key, page) + spec_.kv_heads * 64 * size + ((head * 64 + token) * (size / 32) + block) * 2;
  }

 private:
  std::byte* part(bool key, int64_t page) { return bytes_.data() + page * stride_ + (key ? key_at_ : value_at_); }

  CacheSpec spec_;
  int64_t key_at_, value_at_, stride_;
  std::vector<std::byte> bytes_;
};

// The device of the tests. Chained, as the executor's is.
class TestQueue {
 public:
  TestQueue() {
    EXPECT_EQ(cudaStreamCreateWithFlags(&queue_.stream, cudaStreamNonBlocking), cudaSuccess);
    int device = 0;
    EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
    cudaDeviceProp properties{};
    EXPECT_EQ(cudaGetDeviceProperties(&properties, device), cudaSuccess);
    capabilities_.major = properties.major;
    capabilities_.multiprocessors = properties.multiProcessorCount;
    capabilities_.shared_bytes_per_block = static_cast<int64_t>(properties.sharedMemPerBlockOptin);
    capabilities_.shared_bytes_per_multiprocessor = static_cast<int64_t>(properties.sharedMemPerMultiprocessor);
    queue_.capabilities = &capabilities_;
    queue_.chained = properties.major >= 9;
  }
  ~TestQueue() { cudaStreamDestroy(queue_.stream); }
  TestQueue(const TestQueue&) = delete;
  TestQueue& operator=(const TestQueue&) = delete;
  const Queue& get() const { return queue_; }
  void pretend_multiprocessors(int count) { capabilities_.multiprocessors = count; }

 private:
  Capabilities capabilities_;
  Queue queue_;
};

}  // namespace minfer::cuda
