// Valid files, and one targeted bad file for every class of error: each must be refused with a message that names the
// file, the key or tensor, the byte offset, what was found and what was expected.
#include "gguf/parse.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "gguf/test_support.hpp"

namespace minfer::gguf {
namespace {

using test::Bytes;
using test::open_bytes;
using test::open_error;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr uint32_t kF32 = 0;
constexpr uint32_t kQ80 = 8;

// A file of one key and three tensors; `version` 2 and 3 look alike.
Bytes small_file(uint32_t version = 3) {
  Bytes b;
  b.header(3, 1, version).key("general.architecture", ValueType::string).string("llama");
  b.tensor("a", {4}, kF32, 0).tensor("b", {64, 2}, kQ80, 32).tensor("c", {2, 3, 1, 2}, 1, 192);
  return b.pad().zeros(192 + 24);
}

TEST(Parse, ReadsTensors) {
  for (const uint32_t version : {2u, 3u}) {
    const Bytes bytes = small_file(version);
    const File file = open_bytes(bytes.data());
    EXPECT_EQ(file.version(), version);
    ASSERT_EQ(file.tensors().size(), 3u);
    const TensorInfo* b = file.find_tensor("b");
    ASSERT_NE(b, nullptr);
    EXPECT_EQ(b->dtype, tensor::DType::q8_0);
    EXPECT_EQ(b->dims, 2);
    EXPECT_EQ(b->shape, (std::array<int64_t, 4>{64, 2, 1, 1}));
    EXPECT_EQ(b->bytes, 4u * 34);
    EXPECT_EQ(b->offset_bytes, bytes.size() - 24 - 192 + 32);
    EXPECT_EQ(b->data, bytes.data().data() + b->offset_bytes);
    EXPECT_EQ(b->part, 0);
    EXPECT_EQ(b->map, nullptr);
    EXPECT_EQ(file.find_tensor("c")->bytes, 24u);
    EXPECT_EQ(file.find_tensor("d"), nullptr);
  }
}

TEST(Parse, FileWithoutTensorsMayEndAtItsMetadata) {
  Bytes b;
  b.header(0, 1).key("k", ValueType::u8).number<uint8_t>(1);
  EXPECT_EQ(open_bytes(b.data()).tensors().size(), 0u);
}

TEST(Parse, ViewsSurviveAMove) {
  const Bytes bytes = small_file();
  File first = open_bytes(bytes.data());
  const File second = std::move(first);
  EXPECT_EQ(second.metadata().require_string("general.architecture"), "llama");
  EXPECT_EQ(second.find_tensor("a")->bytes, 16u);
}

TEST(Parse, EveryKnownElementTypeOpens) {
  for (uint32_t id = 0; id < 64; ++id) {
    const auto dtype = tensor::dtype_from_id(id);
    if (!dtype) continue;
    const tensor::DTypeInfo& info = tensor::dtype_info(*dtype);
    Bytes b;
    b.header(1, 0).tensor("t", {static_cast<uint64_t>(info.block_elements) * 2, 3}, id, 0).pad();
    b.zeros(static_cast<size_t>(info.block_bytes) * 6);
    const File file = open_bytes(b.data());
    EXPECT_EQ(file.tensors()[0].dtype, *dtype);
    EXPECT_EQ(file.tensors()[0].bytes, static_cast<size_t>(info.block_bytes) * 6) << info.name;
  }
}

TEST(Parse, AlignmentIsTheFiles) {
  Bytes b;
  b.header(2, 1).key("general.alignment", ValueType::u32).u32(128);
  b.tensor("a", {1}, kF32, 0).tensor("b", {1}, kF32, 128).pad(128).zeros(132);
  const File file = open_bytes(b.data());
  EXPECT_EQ(file.tensors()[1].offset_bytes, b.size() - 4);
}

TEST(Header, WrongMagicAndShortFiles) {
  EXPECT_THAT(open_error(Bytes()),
              AllOf(StartsWith("invalid_input: bad.gguf"), HasSubstr("found 0 bytes in all, expected a "
                                                                     "GGUF header of 24 bytes")));
  EXPECT_THAT(open_error(Bytes().raw("GGUF").zeros(19)), HasSubstr("found 23 bytes"));
  EXPECT_THAT(open_error(Bytes().raw("GGUX").zeros(20)), HasSubstr("found the bytes 47 47 55 58, expected 'GGUF'"));
  EXPECT_THAT(open_error(Bytes().raw("tjgg").zeros(20)), HasSubstr("older ggml format"));
  EXPECT_THAT(open_error(Bytes().raw("version https://git-lfs.github.com")), HasSubstr("Git LFS pointer"));
  EXPECT_THAT(open_error(Bytes().raw("<!DOCTYPE html><html></html>")), HasSubstr("a web page"));
  EXPECT_THAT(open_error(Bytes().raw("PK\3\4").zeros(30)), HasSubstr("PyTorch checkpoint"));
}

TEST(Header, VersionsAndByteOrder) {
  EXPECT_THAT(open_error(Bytes().header(0, 0, 1)), AllOf(StartsWith("unsupported: bad.gguf: the header at byte 4"),
                                                         HasSubstr("GGUF version 1, expected 2 or 3")));
  EXPECT_THAT(open_error(Bytes().header(0, 0, 0)), HasSubstr("GGUF version 0, expected 2 or 3"));
  EXPECT_THAT(open_error(Bytes().header(0, 0, 4)),
              HasSubstr("unsupported: bad.gguf: the header at byte 4: found GGUF version 4"));
  EXPECT_THAT(open_error(Bytes().header(0, 0, 0x03000000)),
              AllOf(StartsWith("unsupported"), HasSubstr("big-endian file (version 3 with its bytes swapped)")));
}

TEST(Header, AbsurdCounts) {
  EXPECT_THAT(open_error(Bytes().header(uint64_t{1} << 60, 0)),
              HasSubstr("at byte 8: the tensor count is 1152921504606846976, expected at most 1048576"));
  EXPECT_THAT(open_error(Bytes().header(0, uint64_t{1} << 60)), HasSubstr("at byte 16: the metadata key count is"));
  EXPECT_THAT(open_error(Bytes().header(~uint64_t{0}, 0)), HasSubstr("18446744073709551615, expected at most"));
  EXPECT_THAT(open_error(Bytes().header(1000, 0).zeros(100)),
              HasSubstr("the tensor count is 1000, which needs at least 33000 bytes, and the file has 108 left"));
  EXPECT_THAT(open_error(Bytes().header(0, 1000).zeros(100)), HasSubstr("needs at least 14000 bytes"));
}

TEST(Keys, EmptyLongInvalidAndDoubled) {
  EXPECT_THAT(open_error(Bytes().header(0, 1).key("", ValueType::u32).u64(0)),
              HasSubstr("metadata entry 0 at byte 24: the key is empty"));
  EXPECT_THAT(open_error(Bytes().header(0, 1).key(std::string(65536, 'k'), ValueType::u32).u64(0)),
              HasSubstr("the key has 65536 bytes, expected at most 65535"));
  EXPECT_THAT(open_error(Bytes().header(0, 1).key("a\xFFz", ValueType::u32).u64(0)),
              HasSubstr("the key has the byte 0xff at its index 1, expected valid UTF-8"));
  EXPECT_THAT(open_error(Bytes().header(0, 2).key("twin", ValueType::u8).raw("x").key("twin", ValueType::u8).raw("y")),
              HasSubstr("metadata key 'twin' at byte 41: found the key a second time (first at byte 24)"));
  EXPECT_THAT(open_error(Bytes().header(0, 1).u64(uint64_t{1} << 62).raw("abcdefgh")),
              HasSubstr("at byte 32: the key needs 4611686018427387904 bytes, and the file has 8 left of its 40"));
}

TEST(Values, UnknownTypesAndBools) {
  EXPECT_THAT(open_error(Bytes().header(0, 1).string("k").u32(13).u64(0)),
              HasSubstr("metadata key 'k' at byte 33: the value's type is 13, expected a value type from 0 to 12"));
  EXPECT_THAT(open_error(Bytes().header(0, 1).key("k", ValueType::boolean).raw("\2")),
              HasSubstr("metadata key 'k' at byte 37: found the bool 2, expected 0 or 1"));
  EXPECT_THAT(open_error(Bytes()
                             .header(0, 1)
                             .key("k", ValueType::array)
                             .type(ValueType::boolean)
                             .u64(3)
                             .raw(std::string_view("\0\1\xFF", 3))),
              HasSubstr("at byte 51: found the bool 255"));
}

TEST(Values, CutAndAbsurdLengths) {
  EXPECT_THAT(open_error(Bytes().header(0, 1).key("key", ValueType::u64).u32(0)),
              HasSubstr("metadata key 'key' at byte 39: the value needs 8 bytes, and the file has 4 left"));
  EXPECT_THAT(open_error(Bytes().header(0, 1).key("k", ValueType::string).u64(~uint64_t{0}).raw("x")),
              HasSubstr("a string needs 18446744073709551615 bytes, and the file has 1 left"));
  EXPECT_THAT(open_error(Bytes().header(0, 1).key("k", ValueType::string).u64(2).raw("x")),
              HasSubstr("a string needs 2"));
}

TEST(Arrays, CountsAndTypes) {
  const auto array = [](ValueType type, uint64_t count) {
    return Bytes().header(0, 1).key("k", ValueType::array).type(type).u64(count);
  };
  EXPECT_THAT(open_error(array(ValueType::u32, 3).u32(1).u32(2)),
              HasSubstr("metadata key 'k' at byte 41: the array's element count is 3, which needs at least 12 bytes"));
  // 2^62 elements of 8 bytes wrap around to 0 bytes.
  EXPECT_THAT(open_error(array(ValueType::u64, uint64_t{1} << 61)), HasSubstr("expected at most 268435456"));
  EXPECT_THAT(open_error(array(ValueType::string, 3).string("a").string("b")),
              HasSubstr("which needs at least 24 bytes"));
  EXPECT_THAT(open_error(array(ValueType::string, 2).string("long enough").u64(100)),
              HasSubstr("a string needs 100 bytes"));
  EXPECT_THAT(open_error(Bytes().header(0, 1).key("k", ValueType::array).u32(99).u64(0)),
              HasSubstr("at byte 37: the array's element type is 99, expected a value type from 0 to 12"));
}

TEST(Arrays, NestedDepthIsLimited) {
  const auto nested = [](int depth) {
    Bytes b;
    b.header(0, 1).key("deep", ValueType::array);
    for (int i = 1; i < depth; ++i) b.type(ValueType::array).u64(1);
    return b.type(ValueType::u8).u64(1).raw("x");
  };
  const Bytes deepest = nested(4);
  EXPECT_EQ(open_bytes(deepest.data()).metadata().find("deep")->count, 1u);
  EXPECT_THAT(open_error(nested(5)), AllOf(StartsWith("unsupported: bad.gguf: metadata key 'deep' at byte 88"),
                                           HasSubstr("arrays nested 5 deep, expected at most 4")));
  EXPECT_THAT(open_error(nested(100000)), HasSubstr("nested 5 deep"));
}

TEST(AlignmentKey, TypeAndValue) {
  const auto with = [](ValueType type, auto value) {
    return open_error(Bytes().header(0, 1).key("general.alignment", type).number(value));
  };
  EXPECT_THAT(with(ValueType::u64, uint64_t{32}),
              HasSubstr("metadata key 'general.alignment' at byte 53: has the type u64, expected u32"));
  EXPECT_THAT(with(ValueType::i32, int32_t{32}), HasSubstr("has the type i32, expected u32"));
  EXPECT_THAT(with(ValueType::u32, uint32_t{0}), HasSubstr("is 0, expected a power of two from 8 to 1048576"));
  EXPECT_THAT(with(ValueType::u32, uint32_t{24}), HasSubstr("is 24, expected a power of two"));
  EXPECT_THAT(with(ValueType::u32, uint32_t{1} << 31), HasSubstr("is 2147483648, expected a power of two"));
}

// A file with one tensor info and `data` bytes of data.
std::string tensor_error(const std::string& name, const std::vector<uint64_t>& shape, uint32_t dtype, uint64_t offset,
                         size_t data = 64) {
  return open_error(Bytes().header(1, 0).tensor(name, shape, dtype, offset).pad().zeros(data));
}

TEST(Tensors, Names) {
  EXPECT_THAT(tensor_error("", {1}, kF32, 0), HasSubstr("tensor 0 at byte 24: the name is empty"));
  EXPECT_THAT(tensor_error(std::string(128, 'n'), {1}, kF32, 0),
              HasSubstr("the name has 128 bytes, expected at most 127"));
  EXPECT_THAT(tensor_error("a\x1B[2J", {1}, kF32, 0), HasSubstr("control character 0x1b"));
  EXPECT_THAT(open_error(Bytes().header(2, 0).tensor("w", {1}, kF32, 0).tensor("w", {1}, kF32, 32).pad().zeros(64)),
              HasSubstr("found the tensor 'w' a second time (data at byte 128; first in bad.gguf, data at byte 96)"));
}

TEST(Tensors, Shapes) {
  EXPECT_THAT(tensor_error("w", {}, kF32, 0, 128),
              HasSubstr("tensor 'w' at byte 33: has 0 dimensions, expected 1 to 4"));
  EXPECT_THAT(tensor_error("w", {1, 1, 1, 1, 1}, kF32, 0), HasSubstr("has 5 dimensions, expected 1 to 4"));
  EXPECT_THAT(tensor_error("w", {4, 0}, kF32, 0), HasSubstr("has the size 0 in dimension 1"));
  EXPECT_THAT(tensor_error("w", {~uint64_t{0}}, kF32, 0),
              HasSubstr("has the size 18446744073709551615 in dimension 0"));
  EXPECT_THAT(tensor_error("w", {uint64_t{1} << 32, uint64_t{1} << 32}, kF32, 0),
              HasSubstr("has the shape [4294967296, 4294967296], expected at most 9223372036854775807 elements"));
  EXPECT_THAT(tensor_error("w", {uint64_t{1} << 62}, kF32, 0), HasSubstr("expected at most 9223372036854775807 bytes"));
  EXPECT_THAT(tensor_error("w", {33}, kQ80, 0),
              HasSubstr("has rows of 33 elements, expected a multiple of Q8_0's block of 32"));
}

TEST(Tensors, UnknownElementTypes) {
  EXPECT_THAT(tensor_error("w", {4}, 4, 0),
              AllOf(StartsWith("unsupported: bad.gguf: tensor 'w' at byte 45"),
                    HasSubstr("found the element type 4, which this version does not know")));
  EXPECT_THAT(tensor_error("w", {4}, 4000000000, 0), HasSubstr("element type 4000000000"));
}

TEST(Tensors, Offsets) {
  EXPECT_THAT(tensor_error("w", {4}, kF32, 16),
              HasSubstr("tensor 'w' at byte 49: has the data offset 16, expected a multiple of the alignment 32"));
  EXPECT_THAT(tensor_error("w", {4}, kF32, 64),
              HasSubstr("has 16 bytes of data at the offset 64 of the data section, which "
                        "has 64 bytes"));
  EXPECT_THAT(tensor_error("w", {17}, kF32, 0), HasSubstr("has 68 bytes of data at the offset 0"));
  EXPECT_THAT(tensor_error("w", {4}, kF32, ~uint64_t{31}), HasSubstr("at the offset 18446744073709551584"));
  EXPECT_THAT(tensor_error("w", {uint64_t{1} << 60}, kF32, 32), HasSubstr("the file is cut or damaged"));
  EXPECT_EQ(tensor_error("w", {16}, kF32, 0), "no error");
  EXPECT_EQ(tensor_error("w", {8}, kF32, 32), "no error");
}

TEST(Tensors, Overlap) {
  EXPECT_THAT(open_error(Bytes().header(2, 0).tensor("one", {9}, kF32, 0).tensor("two", {4}, kF32, 32).pad().zeros(64)),
              HasSubstr("tensor 'two' at byte 128: its data overlaps that of 'one' (bytes 96 to 132)"));
  EXPECT_THAT(
      open_error(Bytes().header(2, 0).tensor("one", {4}, kF32, 32).tensor("two", {4}, kF32, 32).pad().zeros(64)),
      HasSubstr("its data overlaps that of"));
  // Out of order in the file, but apart.
  EXPECT_EQ(open_error(Bytes().header(2, 0).tensor("one", {8}, kF32, 32).tensor("two", {8}, kF32, 0).pad().zeros(64)),
            "no error");
}

}  // namespace
}  // namespace minfer::gguf
