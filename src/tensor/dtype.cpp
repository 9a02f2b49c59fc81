// The table of element types and the scalar half and bfloat16 conversions. See dtype.hpp.
// Sizes are those of ggml's block structs (ggml-common.h). They equal the gguf Python package's GGML_QUANT_SIZES but
// for Q8_1, where that package keeps an older size (40); and it does not know Q2_0 yet. Conversions use integer
// arithmetic only, so that no floating-point mode (flush to zero) can change them; NaNs come out quiet with their
// payload kept, as the x86 conversion instructions do.
#include "tensor/dtype.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "base/error.hpp"
#include "tensor/quant/iq4_nl.hpp"
#include "tensor/quant/iq4_xs.hpp"
#include "tensor/quant/mxfp4.hpp"
#include "tensor/quant/plain.hpp"
#include "tensor/quant/q2_k.hpp"
#include "tensor/quant/q3_k.hpp"
#include "tensor/quant/q4_0.hpp"
#include "tensor/quant/q4_1.hpp"
#include "tensor/quant/q4_k.hpp"
#include "tensor/quant/q5_0.hpp"
#include "tensor/quant/q5_1.hpp"
#include "tensor/quant/q5_k.hpp"
#include "tensor/quant/q6_k.hpp"
#include "tensor/quant/q8_0.hpp"
#include "tensor/quant/q8_k.hpp"

namespace minfer::tensor {
namespace {

constexpr std::array kTypes = {
    DTypeInfo{DType::f32, "F32", 1, 4, dequantize_f32},
    DTypeInfo{DType::f16, "F16", 1, 2, dequantize_f16},
    DTypeInfo{DType::q4_0, "Q4_0", 32, sizeof(BlockQ4_0), dequantize_q4_0},
    DTypeInfo{DType::q4_1, "Q4_1", 32, sizeof(BlockQ4_1), dequantize_q4_1},
    DTypeInfo{DType::q5_0, "Q5_0", 32, sizeof(BlockQ5_0), dequantize_q5_0},
    DTypeInfo{DType::q5_1, "Q5_1", 32, sizeof(BlockQ5_1), dequantize_q5_1},
    DTypeInfo{DType::q8_0, "Q8_0", 32, sizeof(BlockQ8_0), dequantize_q8_0},
    DTypeInfo{DType::q8_1, "Q8_1", 32, 36, nullptr},
    DTypeInfo{DType::q2_k, "Q2_K", 256, sizeof(BlockQ2_K), dequantize_q2_k},
    DTypeInfo{DType::q3_k, "Q3_K", 256, sizeof(BlockQ3_K), dequantize_q3_k},
    DTypeInfo{DType::q4_k, "Q4_K", 256, sizeof(BlockQ4_K), dequantize_q4_k},
    DTypeInfo{DType::q5_k, "Q5_K", 256, sizeof(BlockQ5_K), dequantize_q5_k},
    DTypeInfo{DType::q6_k, "Q6_K", 256, sizeof(BlockQ6_K), dequantize_q6_k},
    DTypeInfo{DType::q8_k, "Q8_K", 256, sizeof(BlockQ8_K), dequantize_q8_k},
    DTypeInfo{DType::iq2_xxs, "IQ2_XXS", 256, 66, nullptr},
    DTypeInfo{DType::iq2_xs, "IQ2_XS", 256, 74, nullptr},
    DTypeInfo{DType::iq3_xxs, "IQ3_XXS", 256, 98, nullptr},
    DTypeInfo{DType::iq1_s, "IQ1_S", 256, 50, nullptr},
    DTypeInfo{DType::iq4_nl, "IQ4_NL", 32, sizeof(BlockIQ4_NL), dequantize_iq4_nl},
    DTypeInfo{DType::iq3_s, "IQ3_S", 256, 110, nullptr},
    DTypeInfo{DType::iq2_s, "IQ2_S", 256, 82, nullptr},
    DTypeInfo{DType::iq4_xs, "IQ4_XS", 256, sizeof(BlockIQ4_XS), dequantize_iq4_xs},
    DTypeInfo{DType::i8, "I8", 1, 1, nullptr},
    DTypeInfo{DType::i16, "I16", 1, 2, nullptr},
    DTypeInfo{DType::i32, "I32", 1, 4, nullptr},
    DTypeInfo{DType::i64, "I64", 1, 8, nullptr},
    DTypeInfo{DType::f64, "F64", 1, 8, nullptr},
    DTypeInfo{DType::iq1_m, "IQ1_M", 256, 56, nullptr},
    DTypeInfo{DType::bf16, "BF16", 1, 2, dequantize_bf16},
    DTypeInfo{DType::tq1_0, "TQ1_0", 256, 54, nullptr},
    DTypeInfo{DType::tq2_0, "TQ2_0", 256, 66, nullptr},
    DTypeInfo{DType::mxfp4, "MXFP4", 32, sizeof(BlockMXFP4), dequantize_mxfp4},
    DTypeInfo{DType::nvfp4, "NVFP4", 64, 36, nullptr},
    DTypeInfo{DType::q1_0, "Q1_0", 128, 18, nullptr},
    DTypeInfo{DType::q2_0, "Q2_0", 64, 18, nullptr},
};

constexpr uint32_t kIdCount = 43;  // ids are below this
constexpr int8_t kNoRow = -1;

// Row of the table by id; kNoRow where the format names no type.
constexpr std::array<int8_t, kIdCount> kRowOfId = [] {
  std::array<int8_t, kIdCount> rows{};
  rows.fill(kNoRow);
  for (size_t row = 0; row < kTypes.size(); ++row) {
    rows[static_cast<uint32_t>(kTypes[row].dtype)] = static_cast<int8_t>(row);
  }
  return rows;
}();

}  // namespace

const DTypeInfo& dtype_info(DType dtype) {
  const auto id = static_cast<uint32_t>(dtype);
  check(id < kIdCount && kRowOfId[id] != kNoRow, "a DType that is not in the table");
  return kTypes[static_cast<size_t>(kRowOfId[id])];
}

std::optional<DType> dtype_from_id(uint32_t id) {
  if (id >= kIdCount || kRowOfId[id] == kNoRow) return std::nullopt;
  return static_cast<DType>(id);
}

int64_t row_bytes(DType dtype, int64_t elements) {
  const DTypeInfo& info = dtype_info(dtype);
  check(elements >= 0 && elements % info.block_elements == 0, "a row that is not a whole number of blocks");
  const int64_t blocks = elements / info.block_elements;
  check(blocks <= std::numeric_limits<int64_t>::max() / info.block_bytes, "a row of more than 2^63 bytes");
  return blocks * info.block_bytes;
}

float half_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = bits >> 10 & 0x1Fu;
  uint32_t mantissa = bits & 0x3FFu;
  if (exponent == 0x1F) {
    const uint32_t quiet = mantissa != 0 ? 0x00400000u : 0u;
    return std::bit_cast<float>(sign | 0x7F800000u | quiet | mantissa << 13);
  }
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  if (mantissa == 0) return std::bit_cast<float>(sign);
  // Denormal, mantissa * 2^-24: shift its leading one to bit 10, where a normal number has its hidden one.
  const auto shift = static_cast<uint32_t>(std::countl_zero(mantissa)) - 21;
  mantissa = mantissa << shift & 0x3FFu;
  return std::bit_cast<float>(sign | (113 - shift) << 23 | mantissa << 13);
}

uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return static_cast<uint16_t>(sign | 0x7E00u | (magnitude >> 13 & 0x3FFu));
  // 65520 lies halfway between the largest half and 2^16, and rounds up: to infinity.
  if (magnitude >= 0x477FF000u) return static_cast<uint16_t>(sign | 0x7C00u);
  const uint32_t exponent = magnitude >> 23;
  if (exponent >= 113) {  // a normal half; a carry out of the mantissa correctly increments the exponent
    const uint32_t odd = magnitude >> 13 & 1u;
    return static_cast<uint16_t>(sign | ((magnitude - (112u << 23) + 0xFFFu + odd) >> 13));
  }
  if (exponent < 102) return static_cast<uint16_t>(sign);  // below half of the smallest denormal
  // Denormal half: the mantissa with its hidden one, in units of 2^-24, rounded to nearest even.
  const uint32_t mantissa = (magnitude & 0x7FFFFFu) | 0x800000u;
  const uint32_t shift = 126 - exponent;  // 14..24
  const uint32_t odd = mantissa >> shift & 1u;
  return static_cast<uint16_t>(sign | ((mantissa + (1u << (shift - 1)) - 1u + odd) >> shift));
}

float bfloat16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

uint16_t float_to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

}  // namespace minfer::tensor
