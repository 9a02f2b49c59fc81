// The typed getters over every value type: what they return, what they refuse and how they say it. One file of raw
// bytes holds a key of each type, so that each getter meets each type; byte offsets in messages are counted by hand.
#include "gguf/metadata.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "gguf/test_support.hpp"

namespace minfer::gguf {
namespace {

using minfer::error_of;
using test::Bytes;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kInt64Max = std::numeric_limits<int64_t>::max();

// One key of each type; a few arrays.
Bytes all_types() {
  Bytes b;
  b.header(0, 20);
  b.key("u8", ValueType::u8).number<uint8_t>(200);
  b.key("i8", ValueType::i8).number<int8_t>(-5);
  b.key("u16", ValueType::u16).number<uint16_t>(60000);
  b.key("i16", ValueType::i16).number<int16_t>(-300);
  b.key("u32", ValueType::u32).number<uint32_t>(4000000000);
  b.key("i32", ValueType::i32).number<int32_t>(-70000);
  b.key("f32", ValueType::f32).number<float>(1.5f);
  b.key("yes", ValueType::boolean).number<uint8_t>(1);
  b.key("text", ValueType::string).string(std::string_view("a\0\xFF", 3));
  b.key("u64", ValueType::u64).number<uint64_t>(uint64_t{1} << 63);
  b.key("i64", ValueType::i64).number<int64_t>(-(int64_t{1} << 40));
  b.key("f64", ValueType::f64).number<double>(0.1);
  b.key("huge", ValueType::f64).number<double>(1e300);
  b.key("words", ValueType::array).type(ValueType::string).u64(3).string("one").string("").string("three");
  b.key("none", ValueType::array).type(ValueType::string).u64(0);
  b.key("shorts", ValueType::array).type(ValueType::i16).u64(2).number<int16_t>(-1).number<int16_t>(7);
  b.key("wide", ValueType::array).type(ValueType::u64).u64(2).u64(1).u64(uint64_t{1} << 31);
  b.key("scores", ValueType::array).type(ValueType::f32).u64(2).number(0.25f).number(-2.0f);
  b.key("flags", ValueType::array).type(ValueType::boolean).u64(3).raw(std::string_view("\1\0\1", 3));
  b.key("nested", ValueType::array).type(ValueType::array).u64(1).type(ValueType::u8).u64(2).raw("xy");
  return b;
}

class MetadataTest : public ::testing::Test {
 protected:
  const Bytes bytes_ = all_types();
  const File file_ = test::open_bytes(bytes_.data(), "all.gguf");
  const Metadata& metadata_ = file_.metadata();
};

TEST_F(MetadataTest, ListsEntriesInOrder) {
  ASSERT_EQ(metadata_.values().size(), 20u);
  EXPECT_EQ(metadata_.values()[0].key, "u8");
  EXPECT_EQ(metadata_.values()[0].offset_bytes, 24u + 8 + 2 + 4);
  EXPECT_EQ(metadata_.values()[8].type, ValueType::string);
  EXPECT_EQ(metadata_.source(), "all.gguf");
  EXPECT_EQ(metadata_.find("absent"), nullptr);
  EXPECT_EQ(describe_type(*metadata_.find("words")), "array of 3 string");
  EXPECT_EQ(describe_type(*metadata_.find("nested")), "array of 1 array");
  EXPECT_EQ(metadata_.find("nested")->payload.size(), 4u + 8 + 2);
  EXPECT_EQ(describe_type(*metadata_.find("u16")), "u16");
}

TEST_F(MetadataTest, IntegersOfEveryWidth) {
  EXPECT_EQ(metadata_.find_u32("u8"), 200u);
  EXPECT_EQ(metadata_.find_u32("u16"), 60000u);
  EXPECT_EQ(metadata_.find_u32("u32"), 4000000000u);
  EXPECT_EQ(metadata_.require_i64("u32"), 4000000000);
  EXPECT_EQ(metadata_.require_i64("i8"), -5);
  EXPECT_EQ(metadata_.require_i64("i16"), -300);
  EXPECT_EQ(metadata_.require_i64("i32"), -70000);
  EXPECT_EQ(metadata_.require_i64("i64"), -(int64_t{1} << 40));
  EXPECT_EQ(metadata_.find_u32("absent"), std::nullopt);
}

TEST_F(MetadataTest, IntegersThatDoNotFit) {
  EXPECT_THAT(error_of([&] { metadata_.find_u32("i8"); }),
              AllOf(HasSubstr("invalid_input: all.gguf"), HasSubstr("'i8' (value at byte 53) is -5"),
                    HasSubstr("expected an integer from 0 to 4294967295")));
  EXPECT_THAT(error_of([&] { metadata_.find_u32("i64"); }), HasSubstr("is -1099511627776, expected"));
  EXPECT_THAT(error_of([&] { metadata_.find_i64("u64"); }), HasSubstr("is 9223372036854775808, expected"));
  EXPECT_THAT(error_of([&] { metadata_.find_u32("text"); }), HasSubstr("has the type string, expected an integer"));
  EXPECT_THAT(error_of([&] { metadata_.find_u32("yes"); }), HasSubstr("has the type bool, expected an integer"));
  EXPECT_THAT(error_of([&] { metadata_.find_i64("words"); }), HasSubstr("has the type array of 3 string"));
}

TEST_F(MetadataTest, FloatsBoolsAndStrings) {
  EXPECT_EQ(metadata_.require_f32("f32"), 1.5f);
  EXPECT_EQ(metadata_.require_f32("f64"), 0.1f);
  EXPECT_THAT(error_of([&] { metadata_.find_f32("huge"); }), HasSubstr("is 1e+300, expected an f32, or an f64"));
  EXPECT_THAT(error_of([&] { metadata_.find_f32("u8"); }), HasSubstr("has the type u8, expected an f32"));
  EXPECT_EQ(metadata_.find_bool("yes"), true);
  EXPECT_THAT(error_of([&] { metadata_.find_bool("u8"); }), HasSubstr("has the type u8, expected a bool"));
  EXPECT_EQ(metadata_.require_string("text"), std::string_view("a\0\xFF", 3));
  EXPECT_THAT(error_of([&] { metadata_.find_string("f32"); }), HasSubstr("has the type f32, expected a string"));
}

TEST_F(MetadataTest, Arrays) {
  const StringArray words = metadata_.require_strings("words");
  EXPECT_EQ(words.size(), 3u);
  EXPECT_THAT(std::vector<std::string_view>(words.begin(), words.end()), ElementsAre("one", "", "three"));
  EXPECT_EQ(metadata_.require_strings("none").size(), 0u);
  EXPECT_TRUE(metadata_.require_strings("none").begin() == metadata_.require_strings("none").end());
  EXPECT_THAT(metadata_.find_i32_array("shorts").value(), ElementsAre(-1, 7));
  EXPECT_THAT(metadata_.find_f32_array("scores").value(), ElementsAre(0.25f, -2.0f));
  EXPECT_EQ(metadata_.find_strings("absent"), std::nullopt);
}

TEST_F(MetadataTest, ArraysOfAnotherType) {
  EXPECT_THAT(error_of([&] { metadata_.find_strings("shorts"); }),
              HasSubstr("has the type array of 2 i16, expected an array of strings"));
  EXPECT_THAT(error_of([&] { metadata_.find_strings("text"); }), HasSubstr("has the type string, expected an array"));
  EXPECT_THAT(error_of([&] { metadata_.find_i32_array("scores"); }),
              HasSubstr("array of 2 f32, expected an array of int"));
  EXPECT_THAT(error_of([&] { metadata_.find_i32_array("flags"); }), HasSubstr("array of 3 bool"));
  EXPECT_THAT(error_of([&] { metadata_.find_f32_array("shorts"); }), HasSubstr("expected an array of f32"));
  EXPECT_THAT(error_of([&] { metadata_.find_strings("nested"); }),
              HasSubstr("array of 1 array, expected an array of s"));
  EXPECT_THAT(error_of([&] { metadata_.find_i32_array("wide"); }), HasSubstr("holds 2147483648 at index 1, expected"));
}

TEST_F(MetadataTest, MissingKeysAreNamed) {
  EXPECT_EQ(
      error_of([&] { metadata_.require_i64("llama.block_count"); }),
      "invalid_input: all.gguf: the metadata has no key 'llama.block_count', expected an integer of at most 63 bits "
      "and a sign");
  EXPECT_THAT(error_of([&] { metadata_.require_f32("x"); }), HasSubstr("no key 'x', expected an f32"));
  EXPECT_THAT(error_of([&] { metadata_.require_string("x"); }), HasSubstr("no key 'x', expected a string"));
  EXPECT_THAT(error_of([&] { metadata_.require_strings("x"); }), HasSubstr("no key 'x', expected an array of strings"));
}

TEST(Metadata, IntegersAtTheEdges) {
  Bytes b;
  b.header(0, 3);
  b.key("low", ValueType::i64).number(std::numeric_limits<int64_t>::min());
  b.key("high", ValueType::u64).u64(static_cast<uint64_t>(kInt64Max));
  b.key("over", ValueType::u64).u64(uint64_t{1} << 32);
  const File file = test::open_bytes(b.data());
  EXPECT_EQ(file.metadata().require_i64("low"), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(file.metadata().require_i64("high"), kInt64Max);
  EXPECT_THAT(error_of([&] { file.metadata().find_u32("over"); }), HasSubstr("is 4294967296, expected"));
}

}  // namespace
}  // namespace minfer::gguf
