// Weights and activations for the tests and the benchmark of the linear family: random rows of every type in the file's
// form, with scales of ordinary size, and q8 rows.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "cuda/launch/activation.hpp"
#include "tensor/dtype.hpp"

namespace minfer::cuda::testing {

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
inline const LinearType& linear_type(DType dtype) {
  return *std::find_if(std::begin(kLinearTypes), std::end(kLinearTypes),
                       [&](const LinearType& type) { return type.dtype == dtype; });
}

inline void put_half(std::byte* at, float value) {
  const uint16_t bits = tensor::float_to_half(value);
  std::memcpy(at, &bits, sizeof(bits));
}

// Random bits for the quants and packed scales; d and m of either sign.
inline std::vector<std::byte> random_rows(DType dtype, int64_t rows, int64_t cols, std::mt19937& random) {
  const LinearType& type = linear_type(dtype);
  const tensor::DTypeInfo& info = tensor::dtype_info(dtype);
  std::vector<std::byte> data(static_cast<size_t>(rows * tensor::row_bytes(dtype, cols)));
  std::uniform_real_distribution<float> value(-1.0f, 1.0f);
  std::uniform_int_distribution<int> byte(0, 255);
  for (std::byte& b : data) b = static_cast<std::byte>(byte(random));
  for (size_t at = 0; at < data.size(); at += static_cast<size_t>(info.block_bytes)) {
    std::byte* block = data.data() + at;
    const float plain = value(random);
    if (dtype == DType::f32) std::memcpy(block, &plain, sizeof(plain));
    if (dtype == DType::f16) put_half(block, plain);
    if (dtype == DType::bf16) {
      const uint16_t bits = tensor::float_to_bfloat16(plain);
      std::memcpy(block, &bits, sizeof(bits));
    }
    if (dtype == DType::mxfp4) *block = static_cast<std::byte>(120 + byte(random) % 8);
    if (type.scale_at >= 0) put_half(block + type.scale_at, 0.01f * plain);
    if (type.min_at >= 0) put_half(block + type.min_at, 0.05f * value(random));
  }
  return data;
}

// Rows of a file's type as floats.
inline std::vector<float> decode_rows(DType dtype, const std::vector<std::byte>& data, int64_t rows, int64_t cols) {
  const tensor::DTypeInfo& info = tensor::dtype_info(dtype);
  std::vector<float> values(static_cast<size_t>(rows * cols));
  info.dequantize(data.data(), rows * cols / info.block_elements, values.data());
  return values;
}

// q8 rows of activation.hpp for [rows][width] floats.
inline std::vector<std::byte> quantize_rows(const std::vector<float>& x, int64_t width) {
  const int64_t rows = static_cast<int64_t>(x.size()) / width, stride = row_stride(ActivationFormat::q8, width);
  std::vector<std::byte> q8(static_cast<size_t>(rows * stride));
  for (int64_t r = 0; r < rows; ++r) {
    std::byte* row = q8.data() + r * stride;
    for (int64_t b = 0; b < q8_blocks(width); ++b) {
      float block[32] = {};
      for (int64_t i = 0; i < 32 && b * 32 + i < width; ++i) block[i] = x[static_cast<size_t>(r * width + b * 32 + i)];
      float largest = 0;
      for (const float value : block) largest = std::max(largest, std::abs(value));
      const float d = largest / 127.0f;
      int sum = 0;
      for (int64_t i = 0; i < 32; ++i) {
        const int q = largest == 0.0f ? 0 : static_cast<int>(std::nearbyint(block[i] / d));
        row[b * 32 + i] = static_cast<std::byte>(static_cast<int8_t>(q));
        sum += q;
      }
      const float scale[2] = {d, d * static_cast<float>(sum)};
      std::memcpy(row + q8_quants_bytes(width) + b * 8, scale, sizeof(scale));
    }
  }
  return q8;
}

// The floats that q8 rows stand for.
inline std::vector<float> dequantize_rows(const std::vector<std::byte>& q8, int64_t rows, int64_t width) {
  std::vector<float> x(static_cast<size_t>(rows * width));
  for (int64_t r = 0; r < rows; ++r) {
    const std::byte* row = q8.data() + r * row_stride(ActivationFormat::q8, width);
    for (int64_t i = 0; i < width; ++i) {
      float d = 0;
      std::memcpy(&d, row + q8_quants_bytes(width) + i / 32 * 8, sizeof(d));
      x[static_cast<size_t>(r * width + i)] = d * static_cast<float>(static_cast<int8_t>(row[i]));
    }
  }
  return x;
}

}  // namespace minfer::cuda::testing
