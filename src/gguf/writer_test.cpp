// Round trips through the writer and the reader (every value type, tensors under several alignments), and what the
// writer refuses. A file that could not be finished leaves nothing behind: each such test counts the entries of its
// folder.
#include "gguf/writer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "gguf/test_support.hpp"

namespace minfer::gguf {
namespace {

using minfer::error_of;
using tensor::DType;
using test::Folder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class T>
void add_list(Writer& writer, std::string_view key, std::vector<T> values) {
  writer.add_array(key, std::span<const T>(values));
}

TEST(Writer, RoundTripOfEveryType) {
  const Folder folder("round_trip");
  const std::string path = folder.file("m.gguf");
  Writer writer(path);
  writer.add("u8", uint8_t{255});
  writer.add("i8", int8_t{-128});
  writer.add("u16", uint16_t{65535});
  writer.add("i16", int16_t{-32768});
  writer.add("u32", uint32_t{4294967295});
  writer.add("i32", std::numeric_limits<int32_t>::min());
  writer.add("u64", uint64_t{1} << 62);
  writer.add("i64", std::numeric_limits<int64_t>::min());
  writer.add("f32", 0.1f);
  writer.add("f64", 0.25);
  writer.add("yes", true);
  writer.add_string("text", "gr\xC3\xBC\xC3\x9F");
  writer.add_strings("words", std::vector<std::string>{"a", "", std::string("x\0y", 3)});
  add_list<int32_t>(writer, "numbers", {1, -2, 3});
  add_list<double>(writer, "scores", {0.5, -8});
  const std::array<bool, 3> flags = {true, false, true};
  writer.add_array("flags", std::span<const bool>(flags));
  writer.finish();

  const File file(path);
  const Metadata& m = file.metadata();
  EXPECT_EQ(file.version(), 3u);
  EXPECT_EQ(m.values().size(), 16u);
  EXPECT_EQ(m.find_u32("u8"), 255u);
  EXPECT_EQ(m.require_i64("i8"), -128);
  EXPECT_EQ(m.find_u32("u16"), 65535u);
  EXPECT_EQ(m.require_i64("i16"), -32768);
  EXPECT_EQ(m.find_u32("u32"), 4294967295u);
  EXPECT_EQ(m.require_i64("i32"), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(m.require_i64("u64"), int64_t{1} << 62);
  EXPECT_EQ(m.require_i64("i64"), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(m.require_f32("f32"), 0.1f);
  EXPECT_EQ(m.require_f32("f64"), 0.25f);
  EXPECT_TRUE(m.find_bool("yes").value());
  EXPECT_EQ(m.require_string("text"), "gr\xC3\xBC\xC3\x9F");
  const StringArray words = m.require_strings("words");
  EXPECT_THAT(std::vector<std::string>(words.begin(), words.end()), ElementsAre("a", "", std::string("x\0y", 3)));
  EXPECT_THAT(m.find_i32_array("numbers").value(), ElementsAre(1, -2, 3));
  EXPECT_THAT(m.find_f32_array("scores").value(), ElementsAre(0.5f, -8.0f));
  EXPECT_EQ(describe_type(*m.find("flags")), "array of 3 bool");
  EXPECT_THAT(m.find("flags")->payload, ElementsAre(std::byte{1}, std::byte{0}, std::byte{1}));
}

TEST(Writer, RoundTripOfTensors) {
  const Folder folder("tensors");
  const std::string path = folder.file("m.gguf");
  for (const uint32_t alignment : {32u, 8u, 4096u}) {
    std::vector<float> data(6);
    std::iota(data.begin(), data.end(), 1.0f);
    Writer writer(path, alignment);
    writer.add_tensor("first", DType::f32, std::array<int64_t, 2>{3, 2}, std::as_bytes(std::span(data)));
    // 3 rows of 2 Q8_0 blocks, handed over in pieces of a block.
    writer.add_tensor("second", DType::q8_0, std::array<int64_t, 2>{64, 3}, [](const Writer::Sink& sink) {
      std::array<std::byte, 34> block{};
      for (int i = 0; i < 6; ++i) {
        block.fill(static_cast<std::byte>(i));
        sink(block);
      }
    });
    writer.add_tensor("third", DType::i8, std::array<int64_t, 1>{1}, std::as_bytes(std::span("x", 1)));
    writer.finish();

    const File file(path);
    EXPECT_EQ(file.metadata().find_u32("general.alignment"),
              alignment == 32 ? std::nullopt : std::optional<uint32_t>(alignment));
    ASSERT_EQ(file.tensors().size(), 3u);
    const TensorInfo& first = file.tensors()[0];
    const TensorInfo& second = file.tensors()[1];
    EXPECT_EQ(first.name, "first");
    EXPECT_EQ(first.shape, (std::array<int64_t, 4>{3, 2, 1, 1}));
    EXPECT_EQ(first.offset_bytes % alignment, 0u);
    EXPECT_EQ(std::memcmp(first.data, data.data(), first.bytes), 0);
    EXPECT_EQ(second.dtype, DType::q8_0);
    ASSERT_EQ(second.bytes, 6u * 34);
    EXPECT_EQ(second.data[33], std::byte{0});
    EXPECT_EQ(second.data[34], std::byte{1});
    EXPECT_EQ(second.data[203], std::byte{5});
    EXPECT_EQ(file.tensors()[2].data[0], std::byte{'x'});
    EXPECT_EQ(std::filesystem::file_size(path) % alignment, 0u);
  }
  EXPECT_EQ(folder.entries(), 1u);
}

TEST(Writer, RefusesBadNamesShapesAndAlignments) {
  const std::string path = "never.gguf";
  Writer writer(path);
  writer.add("twin", uint8_t{1});
  EXPECT_THAT(error_of([&] { writer.add("twin", uint8_t{2}); }),
              HasSubstr("never.gguf: the metadata key 'twin' is already there"));
  EXPECT_THAT(error_of([&] { writer.add("", 1.0f); }), HasSubstr("a metadata key is empty"));
  EXPECT_THAT(error_of([&] { writer.add("general.alignment", uint32_t{64}); }), HasSubstr("is already there"));
  const std::array<int64_t, 2> good = {32, 2};
  writer.add_tensor("w", DType::q8_0, good, [](const Writer::Sink&) {});
  EXPECT_THAT(error_of([&] { writer.add_tensor("w", DType::f32, good, [](const Writer::Sink&) {}); }),
              HasSubstr("the tensor 'w' is already there"));
  const auto shape_error = [&](std::vector<int64_t> shape) {
    return error_of([&] { writer.add_tensor("v", DType::q8_0, shape, [](const Writer::Sink&) {}); });
  };
  EXPECT_THAT(shape_error({33}), HasSubstr("the tensor 'v' has rows of 33 elements"));
  EXPECT_THAT(shape_error({32, -1}), HasSubstr("in dimension 1"));
  EXPECT_THAT(shape_error({}), HasSubstr("has 0 dimensions"));
  EXPECT_EQ(shape_error({int64_t{1} << 62}), "no error");
  EXPECT_THAT(shape_error({int64_t{1} << 62}), HasSubstr("can't add the tensor 'v' of 4899916394579099648 bytes"));
  EXPECT_THAT(error_of([&] { writer.add_tensor("", DType::f32, good, [](const Writer::Sink&) {}); }),
              HasSubstr("a tensor name is empty"));
  EXPECT_THAT(error_of([&] { Writer(path, 48); }),
              HasSubstr("never.gguf: the alignment is 48, expected a power of two"));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Writer, RefusesTheWrongAmountOfDataAndLeavesNothing) {
  const Folder folder("amount");
  const std::string path = folder.file("m.gguf");
  for (const size_t bytes : {7u, 9u}) {
    Writer writer(path);
    const std::vector<std::byte> data(bytes);
    writer.add_tensor("w", DType::f32, std::array<int64_t, 1>{2}, data);
    EXPECT_THAT(error_of([&] { writer.finish(); }),
                HasSubstr(bytes == 7 ? "the tensor 'w' got 7 bytes of data, expected 8"
                                     : "the tensor 'w' got more than its 8 bytes of data"));
    EXPECT_EQ(folder.entries(), 0u);
  }
}

TEST(Writer, FailureKeepsTheFileThatWasThere) {
  const Folder folder("keep");
  const std::string path = folder.write("m.gguf", std::as_bytes(std::span("old", 3)));
  Writer writer(path);
  writer.add_tensor("w", DType::f32, std::array<int64_t, 1>{2},
                    [](const Writer::Sink&) { fail(ErrorCode::cancelled, "the caller asked to stop"); });
  EXPECT_THAT(error_of([&] { writer.finish(); }), HasSubstr("cancelled: "));
  EXPECT_EQ(std::filesystem::file_size(path), 3u);
  EXPECT_EQ(folder.entries(), 1u);
}

TEST(Writer, MissingFolderIsAnIoError) {
  const Folder folder("absent");
  Writer writer(folder.file("no/such/m.gguf"));
  EXPECT_THAT(error_of([&] { writer.finish(); }), HasSubstr("io: "));
}

}  // namespace
}  // namespace minfer::gguf
