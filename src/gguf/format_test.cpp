// The rules for names, shapes and alignments, which reader and writer share.
#include "gguf/format.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace minfer::gguf {
namespace {

using tensor::DType;
using ::testing::HasSubstr;

TensorExtent extent(DType dtype, std::vector<uint64_t> shape) {
  return tensor_extent(dtype, shape);
}

TEST(Names, AcceptUtf8Text) {
  EXPECT_EQ(key_problem("general.architecture"), "");
  EXPECT_EQ(key_problem("Command-R.x"), "");
  EXPECT_EQ(key_problem("gr\xC3\xB6\xC3\x9F"
                        "e"),
            "");
  EXPECT_EQ(key_problem("\xE2\x82\xAC\xF0\x9F\x98\x80\xED\x9F\xBF\xF4\x8F\xBF\xBF"), "");
  EXPECT_EQ(key_problem(std::string(65535, 'k')), "");
  EXPECT_EQ(tensor_name_problem(std::string(127, 't')), "");
}

TEST(Names, RefuseEmptyLongAndControl) {
  EXPECT_THAT(key_problem(""), HasSubstr("is empty"));
  EXPECT_THAT(key_problem(std::string(65536, 'k')), HasSubstr("has 65536 bytes, expected at most 65535"));
  EXPECT_THAT(tensor_name_problem(std::string(128, 't')), HasSubstr("has 128 bytes, expected at most 127"));
  EXPECT_THAT(key_problem("a\nb"), HasSubstr("control character 0x0a at its index 1"));
  EXPECT_THAT(key_problem(std::string_view("ab\0c", 4)), HasSubstr("control character 0x00 at its index 2"));
  EXPECT_THAT(key_problem("ab\x7F"), HasSubstr("control character 0x7f"));
}

TEST(Names, RefuseMalformedUtf8) {
  // A lone continuation, overlong forms, a surrogate, past U+10FFFF, an invalid lead, cut sequences.
  for (const std::string bad :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80",
        "\xF5\x80\x80\x80", "\xFF", "\xC3", "\xE2\x82", "\xF0\x9F\x98", "\xE2\x28\xA1", "\xF0\x9F\x28\x80"}) {
    EXPECT_THAT(key_problem("x" + bad), HasSubstr("at its index 1, expected valid UTF-8"))
        << testing::PrintToString(bad);
  }
}

TEST(Extent, CountsBytes) {
  EXPECT_EQ(extent(DType::f32, {3}).bytes, 12u);
  EXPECT_EQ(extent(DType::f16, {3, 5, 7, 2}).bytes, 420u);
  EXPECT_EQ(extent(DType::q4_k, {512, 3}).bytes, 2u * 144 * 3);
  EXPECT_EQ(extent(DType::q8_0, {32}).bytes, 34u);
  EXPECT_EQ(extent(DType::i8, {(uint64_t{1} << 63) - 1}).bytes, (uint64_t{1} << 63) - 1);
}

TEST(Extent, RefusesBadShapes) {
  EXPECT_THAT(extent(DType::f32, {}).problem, HasSubstr("has 0 dimensions, expected 1 to 4"));
  EXPECT_THAT(extent(DType::f32, {1, 1, 1, 1, 1}).problem, HasSubstr("has 5 dimensions"));
  EXPECT_THAT(extent(DType::f32, {4, 0}).problem, HasSubstr("has the size 0 in dimension 1"));
  EXPECT_THAT(extent(DType::f32, {uint64_t{1} << 63}).problem, HasSubstr("in dimension 0"));
  EXPECT_THAT(extent(DType::q4_k, {128}).problem,
              HasSubstr("has rows of 128 elements, expected a multiple of Q4_K's block"));
}

TEST(Extent, RefusesOverflow) {
  const uint64_t big = uint64_t{1} << 32;
  // The product wraps around to 0, to a small number, and to one over 2^63.
  EXPECT_THAT(extent(DType::f32, {big, big}).problem, HasSubstr("expected at most 9223372036854775807 elements"));
  EXPECT_THAT(extent(DType::f32, {big, big + 1}).problem, HasSubstr("elements"));
  EXPECT_THAT(extent(DType::f32, {big, big / 2}).problem, HasSubstr("elements"));
  // The element count fits, the bytes do not.
  EXPECT_THAT(extent(DType::f32, {uint64_t{1} << 61}).problem, HasSubstr("expected at most 9223372036854775807 bytes"));
  EXPECT_THAT(extent(DType::f64, {uint64_t{1} << 62}).problem, HasSubstr("bytes"));
}

TEST(Alignment, IsAPowerOfTwoInRange) {
  for (const uint32_t good : {8u, 32u, 4096u, 1u << 20}) EXPECT_EQ(alignment_problem(good), "") << good;
  for (const uint32_t bad : {0u, 1u, 4u, 12u, 33u, 1u << 21, 1u << 31, ~0u}) {
    EXPECT_THAT(alignment_problem(bad), HasSubstr("expected a power of two from 8 to 1048576")) << bad;
  }
}

TEST(ValueTypes, NamesAndSizes) {
  EXPECT_EQ(value_type_name(ValueType::boolean), "bool");
  EXPECT_EQ(value_type_name(ValueType::f64), "f64");
  EXPECT_EQ(value_type_bytes(ValueType::u16), 2u);
  EXPECT_EQ(value_type_bytes(ValueType::i64), 8u);
  EXPECT_EQ(value_type_bytes(ValueType::string), 0u);
}

}  // namespace
}  // namespace minfer::gguf
