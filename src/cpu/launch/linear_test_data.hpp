// Weights and activations for the tests and the benchmark of the linear family: random rows of every type in the file's
// form, with scales of ordinary size, and q8 rows.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "cpu/launch/activation.hpp"
#include "tensor/dtype.hpp"

namespace minfer::cpu::testing {

using tensor::DType;

struct LinearType {
  DType dtype;
  int scale_at;  // offset in a block of the half d; -1: none
  int min_at;    // of the half m or dmin; -1: none
};
inline constexpr LinearType kLinearTypes[] = {
    {DType::f32, -1, -1},   {DType::f16, -1, -1},   {DType::bf16, -1, -1},  {DType::q4_0, 0, -1},
    {DType::q4_1, 0, 2},    {DType::q5_0, 0, -1},   {DType::q5_1, 0, 2},    {DType::q8_0, 0, -1},
    {DType::q2_k, 80, 82},  {DType::q3_k, 108, -1}, {DType::q4_k, 0, 2},    {DType::q5_k, 0, 2},
    {DType::q6_k, 208, -1}, {DType::iq4_nl, 0, -1}, {DType::iq4_xs, 0, -1}, {DType::mxfp4, -1, -1},
};

inline void put_half(std::byte* at, float value) {
  const uint16_t bits = tensor::float_to_half(value);
  std::memcpy(at, &bits, sizeof(bits));
}

// Random bits for the quants and packed scales; d and m of either sign.
inline std::vector<std::byte> random_rows(const LinearType& type, int64_t rows, int64_t k, std::mt19937& random) {
  const tensor::DTypeInfo& info = tensor::dtype_info(type.dtype);
  std::vector<std::byte> data(static_cast<size_t>(rows * tensor::row_bytes(type.dtype, k)));
  std::uniform_real_distribution<float> value(-1.0f, 1.0f);
  std::uniform_int_distribution<int> byte(0, 255);
  for (std::byte& b : data) b = static_cast<std::byte>(byte(random));
  for (size_t at = 0; at < data.size(); at += static_cast<size_t>(info.block_bytes)) {
    std::byte* block = data.data() + at;
    const float plain = value(random);
    if (type.dtype == DType::f32) std::memcpy(block, &plain, sizeof(plain));
    if (type.dtype == DType::f16) put_half(block, plain);
    if (type.dtype == DType::bf16) {
      const uint16_t bits = tensor::float_to_bfloat16(plain);
      std::memcpy(block, &bits, sizeof(bits));
    }
    if (type.dtype == DType::mxfp4) *block = static_cast<std::byte>(120 + byte(random) % 8);
    if (type.scale_at >= 0) put_half(block + type.scale_at, 0.01f * plain);
    if (type.min_at >= 0) put_half(block + type.min_at, 0.05f * value(random));
  }
  return data;
}

// q8 rows of activation.hpp, in 64-byte aligned memory.
struct Q8Rows {
  std::vector<std::byte> storage;
  std::byte* data = nullptr;
};

inline Q8Rows quantize_rows(std::span<const float> x, int64_t k) {
  const int64_t rows = static_cast<int64_t>(x.size()) / k;
  Q8Rows q8;
  q8.storage.resize(static_cast<size_t>(rows * q8_row_bytes(k) + 64));
  q8.data = q8.storage.data() + (64 - reinterpret_cast<uintptr_t>(q8.storage.data()) % 64) % 64;
  for (int64_t r = 0; r < rows; ++r) {
    std::byte* row = q8.data + r * q8_row_bytes(k);
    auto* quants = reinterpret_cast<int8_t*>(row);
    auto* scales = reinterpret_cast<float*>(row + q8_quants_bytes(k));
    float* sums = scales + k / kQ8BlockElements;
    for (int64_t b = 0; b < k / kQ8BlockElements; ++b) {
      const float* in = x.data() + r * k + b * kQ8BlockElements;
      float largest = 0;
      for (int64_t i = 0; i < kQ8BlockElements; ++i) largest = std::max(largest, std::abs(in[i]));
      scales[b] = largest / 127.0f;
      int sum = 0;
      for (int64_t i = 0; i < kQ8BlockElements; ++i) {
        const int q = largest == 0.0f ? 0 : static_cast<int>(std::nearbyint(in[i] / scales[b]));
        quants[b * kQ8BlockElements + i] = static_cast<int8_t>(q);
        sum += q;
      }
      sums[b] = scales[b] * static_cast<float>(sum);
    }
  }
  return q8;
}

// The floats that q8 rows stand for.
inline std::vector<float> dequantize_rows(const Q8Rows& q8, int64_t rows, int64_t k) {
  std::vector<float> x(static_cast<size_t>(rows * k));
  for (int64_t r = 0; r < rows; ++r) {
    const Q8Row row = q8_row(q8.data, r, k);
    for (int64_t i = 0; i < k; ++i) {
      x[static_cast<size_t>(r * k + i)] = row.scales[i / kQ8BlockElements] * static_cast<float>(row.quants[i]);
    }
  }
  return x;
}

}  // namespace minfer::cpu::testing
