// What tests on a card share: a queue of their own, arrays on the device, poisoned before use, random data with fixed
// seeds, rows in every format and back. Every CUDA call is checked. Tests only.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "cuda/kernels/linear/device_test_support.hpp"
#include "cuda/launch/activation.hpp"
#include "cuda/launch/test_rows.hpp"
#include "cuda/runtime/launch.hpp"
#include "graph/enums.hpp"
#include "tensor/dtype.hpp"

namespace minfer::cuda {

// A stream with the card's capabilities.
class TestQueue {
 public:
  explicit TestQueue(bool chained) : capabilities_(testing::test_capabilities()) {
    check_status(cudaStreamCreate(&queue_.stream), "test/stream");
    queue_.capabilities = &capabilities_;
    queue_.faults = &faults_;
    queue_.chained = chained && capabilities_.tier >= Tier::hopper;
  }
  ~TestQueue() { cudaStreamDestroy(queue_.stream); }
  TestQueue(const TestQueue&) = delete;
  TestQueue& operator=(const TestQueue&) = delete;

  const Queue& operator*() const { return queue_; }
  FaultLever& faults() { return faults_; }
  void finish() const { check_status(cudaStreamSynchronize(queue_.stream), "test/finish"); }

 private:
  Capabilities capabilities_;
  FaultLever faults_;
  Queue queue_;
};

// Bytes on the device: 0xFF each until written.
class TestArray {
 public:
  explicit TestArray(int64_t bytes) : bytes_(bytes) {
    check_status(cudaMalloc(&data_, static_cast<size_t>(std::max<int64_t>(bytes, 16))), "test/allocate");
    poison();
  }
  template <class T>
  explicit TestArray(const std::vector<T>& values) : TestArray(static_cast<int64_t>(values.size() * sizeof(T))) {
    check_status(cudaMemcpy(data_, values.data(), static_cast<size_t>(bytes_), cudaMemcpyHostToDevice), "test/upload");
    check_status(cudaDeviceSynchronize(), "test/upload");
  }
  ~TestArray() { cudaFree(data_); }
  TestArray(const TestArray&) = delete;
  TestArray& operator=(const TestArray&) = delete;

  // Whole before it returns: streams that don't wait for the default one read it next.
  void poison() {
    check_status(cudaMemset(data_, 0xFF, static_cast<size_t>(bytes_)), "test/poison");
    check_status(cudaDeviceSynchronize(), "test/poison");
  }
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  template <class T>
  const T* as() const {
    return static_cast<const T*>(data_);
  }
  int64_t bytes() const { return bytes_; }
  template <class T = std::byte>
  std::vector<T> download() const {
    std::vector<T> values(static_cast<size_t>(bytes_) / sizeof(T));
    check_status(cudaMemcpy(values.data(), data_, static_cast<size_t>(bytes_), cudaMemcpyDeviceToHost),
                 "test/download");
    return values;
  }

 private:
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

inline std::vector<float> random_floats(int64_t count, float deviation, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0F, deviation);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(generator);
  return values;
}

// Rows that own their memory.
class TestRows {
 public:
  TestRows(ActivationFormat format, int64_t rows, int64_t width)
      : format_(format), rows_(rows), width_(width), array_(rows * row_stride(format, width)) {}
  // f32 or bf16 (rounded) from [rows][width].
  TestRows(ActivationFormat format, int64_t rows, int64_t width, const std::vector<float>& values)
      : TestRows(format, rows, width) {
    const int64_t stride = row_stride(format, width);
    std::vector<std::byte> bytes(static_cast<size_t>(rows * stride), std::byte{0xFF});
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < width; ++c) {
        const float value = values[static_cast<size_t>(r * width + c)];
        std::byte* row = bytes.data() + r * stride;
        if (format == ActivationFormat::f32) {
          std::memcpy(row + c * 4, &value, 4);
        } else {
          const uint16_t rounded = tensor::float_to_bfloat16(value);
          std::memcpy(row + c * 2, &rounded, 2);
        }
      }
    }
    check_status(cudaMemcpy(array_.data(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice), "test/upload");
    check_status(cudaDeviceSynchronize(), "test/upload");
  }

  Rows view() const { return {format_, array_.data(), rows_, width_}; }
  const TestArray& array() const { return array_; }
  void poison() { array_.poison(); }
  std::vector<std::byte> bytes() const { return array_.download(); }

  // [rows][width] as floats (q8: quant * d).
  std::vector<float> values() const {
    const std::vector<std::byte> all = array_.download();
    const int64_t stride = row_stride(format_, width_);
    std::vector<float> values(static_cast<size_t>(rows_ * width_));
    for (int64_t r = 0; r < rows_; ++r) {
      const std::byte* row = all.data() + r * stride;
      for (int64_t c = 0; c < width_; ++c) values[static_cast<size_t>(r * width_ + c)] = element(row, c);
    }
    return values;
  }

 private:
  float element(const std::byte* row, int64_t column) const {
    float value = 0;
    if (format_ == ActivationFormat::f32) {
      std::memcpy(&value, row + column * 4, 4);
    } else if (format_ == ActivationFormat::bf16) {
      uint16_t bits = 0;
      std::memcpy(&bits, row + column * 2, 2);
      value = tensor::bfloat16_to_float(bits);
    } else {
      int8_t quant = 0;
      std::memcpy(&quant, row + column, 1);
      std::memcpy(&value, row + q8_quants_bytes(width_) + column / kQ8Block * 8, 4);
      value *= static_cast<float>(quant);
    }
    return value;
  }

  ActivationFormat format_;
  int64_t rows_;
  int64_t width_;
  TestArray array_;
};

// What a gated layer makes of the outputs of its two matrices, in double precision.
inline double gated_reference(graph::Activation activation, double gate, double up) {
  switch (activation) {
    case graph::Activation::silu:
      return gate / (1 + std::exp(-gate)) * up;
    case graph::Activation::gelu_tanh:
      return 0.5 * gate * (1 + std::tanh(0.7978845608028654 * (gate + 0.044715 * gate * gate * gate))) * up;
    case graph::Activation::swiglu_oai:
      gate = std::min(gate, 7.0);
      up = std::clamp(up, -7.0, 7.0);
      return gate / (1 + std::exp(-1.702 * gate)) * (up + 1);
    case graph::Activation::gelu_erf:
      break;
  }
  return 0;
}

// |values - expected| / |expected|; NaN where a value is.
inline double relative_error(const std::vector<float>& values, const std::vector<double>& expected) {
  EXPECT_EQ(values.size(), expected.size());
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    error += (values[i] - expected[i]) * (values[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(error / norm);
}

}  // namespace minfer::cuda
