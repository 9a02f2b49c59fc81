// Tests of the type table and of the half and bfloat16 conversions.
// Conversions are checked by the definition of rounding, without another converter: round trips over all
// 65536 patterns, and nearest-even at the midpoints between neighbours.
#include "tensor/dtype.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string_view>

#include "base/error.hpp"

namespace minfer::tensor {
namespace {

TEST(DTypeTable, KnowsEveryIdOfTheFormatAndNoOther) {
  const std::set<uint32_t> removed = {4, 5, 31, 32, 33, 36, 37, 38};
  for (uint32_t id = 0; id < 200; ++id) {
    const auto dtype = dtype_from_id(id);
    ASSERT_EQ(dtype.has_value(), id <= 42 && !removed.contains(id)) << id;
    if (dtype) {
      EXPECT_EQ(static_cast<uint32_t>(dtype_info(*dtype).dtype), id);
    }
  }
  EXPECT_FALSE(dtype_from_id(std::numeric_limits<uint32_t>::max()));
  EXPECT_THROW(dtype_info(static_cast<DType>(4)), Error);
  EXPECT_THROW(dtype_info(static_cast<DType>(43)), Error);
}

TEST(DTypeTable, SizesOfBlocks) {
  struct Row {
    const char* name;
    int elements, bytes;
  };
  const Row rows[] = {
      {"F32", 1, 4},        {"F16", 1, 2},       {"BF16", 1, 2},       {"Q4_0", 32, 18},   {"Q4_1", 32, 20},
      {"Q5_0", 32, 22},     {"Q5_1", 32, 24},    {"Q8_0", 32, 34},     {"Q8_1", 32, 36},   {"Q2_K", 256, 84},
      {"Q3_K", 256, 110},   {"Q4_K", 256, 144},  {"Q5_K", 256, 176},   {"Q6_K", 256, 210}, {"Q8_K", 256, 292},
      {"IQ2_XXS", 256, 66}, {"IQ2_XS", 256, 74}, {"IQ3_XXS", 256, 98}, {"IQ1_S", 256, 50}, {"IQ4_NL", 32, 18},
      {"IQ3_S", 256, 110},  {"IQ2_S", 256, 82},  {"IQ4_XS", 256, 136}, {"I8", 1, 1},       {"I16", 1, 2},
      {"I32", 1, 4},        {"I64", 1, 8},       {"F64", 1, 8},        {"IQ1_M", 256, 56}, {"TQ1_0", 256, 54},
      {"TQ2_0", 256, 66},   {"MXFP4", 32, 17},   {"NVFP4", 64, 36},    {"Q1_0", 128, 18},  {"Q2_0", 64, 18}};
  std::map<std::string_view, DTypeInfo> by_name;
  for (uint32_t id = 0; id < 200; ++id) {
    if (const auto dtype = dtype_from_id(id)) by_name.emplace(dtype_info(*dtype).name, dtype_info(*dtype));
  }
  for (const Row& row : rows) {
    ASSERT_TRUE(by_name.contains(row.name)) << row.name;
    EXPECT_EQ(by_name.at(row.name).block_elements, row.elements) << row.name;
    EXPECT_EQ(by_name.at(row.name).block_bytes, row.bytes) << row.name;
  }
  EXPECT_EQ(by_name.size(), std::size(rows));
  EXPECT_EQ(std::size(rows), 35u);
}

TEST(DTypeTable, RowBytes) {
  EXPECT_EQ(row_bytes(DType::f32, 7), 28);
  EXPECT_EQ(row_bytes(DType::q4_0, 64), 36);
  EXPECT_EQ(row_bytes(DType::q6_k, 0), 0);
  EXPECT_THROW(row_bytes(DType::q4_k, 255), Error);
  EXPECT_THROW(row_bytes(DType::f32, -4), Error);
  EXPECT_THROW(row_bytes(DType::f64, std::numeric_limits<int64_t>::max()), Error);
}

TEST(Half, KnownValues) {
  EXPECT_EQ(half_to_float(0x3C00), 1.0f);
  EXPECT_EQ(half_to_float(0xC000), -2.0f);
  EXPECT_EQ(half_to_float(0x7BFF), 65504.0f);
  EXPECT_EQ(half_to_float(0x0001), std::ldexp(1.0f, -24));
  EXPECT_EQ(half_to_float(0x03FF), std::ldexp(1023.0f, -24));
  EXPECT_EQ(half_to_float(0x0400), std::ldexp(1.0f, -14));
  EXPECT_EQ(half_to_float(0x7C00), std::numeric_limits<float>::infinity());
  EXPECT_EQ(half_to_float(0xFC00), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(std::bit_cast<uint32_t>(half_to_float(0x8000)), 0x80000000u);
  // A signalling NaN becomes quiet, the payload stays.
  EXPECT_EQ(std::bit_cast<uint32_t>(half_to_float(0xFC01)), 0xFFC02000u);
}

TEST(Half, EveryPatternSurvivesARoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const bool nan = (bits & 0x7FFF) > 0x7C00;
    const auto expected = static_cast<uint16_t>(nan ? bits | 0x200 : bits);
    ASSERT_EQ(float_to_half(half_to_float(static_cast<uint16_t>(bits))), expected) << bits;
  }
}

TEST(Half, RoundsToNearestEven) {
  // Between each two neighbours: the midpoint goes to the even one, the floats beside it to the nearer one.
  for (uint32_t bits = 0; bits < 0x7BFF; ++bits) {
    const float low = half_to_float(static_cast<uint16_t>(bits));
    const float high = half_to_float(static_cast<uint16_t>(bits + 1));
    const float middle = low + (high - low) / 2;
    ASSERT_EQ(float_to_half(middle), bits % 2 == 0 ? bits : bits + 1) << bits;
    ASSERT_EQ(float_to_half(std::nextafter(middle, low)), bits) << bits;
    ASSERT_EQ(float_to_half(std::nextafter(middle, high)), bits + 1) << bits;
    ASSERT_EQ(float_to_half(-middle), (bits % 2 == 0 ? bits : bits + 1) | 0x8000) << bits;
  }
  EXPECT_EQ(float_to_half(65519.996f), 0x7BFF);
  EXPECT_EQ(float_to_half(65520.0f), 0x7C00);
  EXPECT_EQ(float_to_half(-1e30f), 0xFC00);
  EXPECT_EQ(float_to_half(1e-30f), 0x0000);
  EXPECT_EQ(float_to_half(std::bit_cast<float>(0x7F800001u)), 0x7E00);
}

TEST(BFloat16, ConvertsAndRoundsToNearestEven) {
  EXPECT_EQ(bfloat16_to_float(0x3F80), 1.0f);
  EXPECT_EQ(float_to_bfloat16(1.0f), 0x3F80);
  for (uint32_t bits = 0; bits < 0x7F80; ++bits) {
    const uint32_t middle = bits << 16 | 0x8000u;
    ASSERT_EQ(float_to_bfloat16(bfloat16_to_float(static_cast<uint16_t>(bits))), bits);
    ASSERT_EQ(float_to_bfloat16(std::bit_cast<float>(middle)), bits % 2 == 0 ? bits : bits + 1);
    ASSERT_EQ(float_to_bfloat16(std::bit_cast<float>(middle - 1)), bits);
    ASSERT_EQ(float_to_bfloat16(std::bit_cast<float>(middle + 1)), bits + 1);
  }
  EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0x7F800001u)), 0x7FC0);
  EXPECT_EQ(float_to_bfloat16(-std::numeric_limits<float>::infinity()), 0xFF80);
}

}  // namespace
}  // namespace minfer::tensor
