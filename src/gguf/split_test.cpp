// Split sets on disk: opened by part 1 as one file, and every way in which a set can be wrong. The parts are written by
// Writer with the keys split.no, split.count and split.tensors.count; part names follow the pattern
// NAME-00001-of-00003.gguf.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "gguf/test_support.hpp"
#include "gguf/writer.hpp"

namespace minfer::gguf {
namespace {

using minfer::error_of;
using test::Folder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::array<int64_t, 1> kShape = {2};

std::string part_name(int part, int count) {
  return fmt::format("m-{:05}-of-{:05}.gguf", part, count);
}

struct PartOptions {
  int number = 0;  // 0-based
  int count = 3;
  int total_tensors = 3;
  std::string tensor = "t";
};

// Writes one part with one tensor whose two floats tell the part.
void write_part(const std::string& path, const PartOptions& options) {
  Writer writer(path);
  if (options.number == 0) writer.add_string("general.architecture", "llama");
  writer.add("split.no", static_cast<uint16_t>(options.number));
  writer.add("split.count", static_cast<uint16_t>(options.count));
  writer.add("split.tensors.count", static_cast<int32_t>(options.total_tensors));
  const std::array<float, 2> data = {static_cast<float>(options.number), 0.5f};
  writer.add_tensor(options.tensor, tensor::DType::f32, kShape, std::as_bytes(std::span(data)));
  writer.finish();
}

// A valid set of three in the folder.
void write_set(const Folder& folder) {
  for (int i = 0; i < 3; ++i)
    write_part(folder.file(part_name(i + 1, 3)), {.number = i, .tensor = fmt::format("t{}", i)});
}

TEST(Split, OpensAllPartsByTheFirst) {
  const Folder folder("split_open");
  write_set(folder);
  const File file(folder.file(part_name(1, 3)));
  EXPECT_EQ(file.part_names().size(), 3u);
  EXPECT_EQ(file.part_names()[2], folder.file(part_name(3, 3)));
  EXPECT_EQ(file.metadata().require_string("general.architecture"), "llama");
  ASSERT_EQ(file.tensors().size(), 3u);
  const TensorInfo* last = file.find_tensor("t2");
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(last->part, 2);
  EXPECT_EQ(last->map->path(), folder.file(part_name(3, 3)));
  EXPECT_EQ(last->map->bytes().data() + last->offset_bytes, last->data);
  EXPECT_EQ(reinterpret_cast<const float*>(last->data)[0], 2.0f);
  last->map->will_need(last->offset_bytes, last->bytes);
  last->map->drop(last->offset_bytes, last->bytes);
  EXPECT_EQ(reinterpret_cast<const float*>(last->data)[1], 0.5f);
}

TEST(Split, LaterPartNamesPartOne) {
  const Folder folder("split_later");
  write_set(folder);
  EXPECT_THAT(
      error_of([&] { File(folder.file(part_name(2, 3))); }),
      AllOf(StartsWith("invalid_input"),
            HasSubstr("found part 2 of a split set of 3, expected its part 1: open " + folder.file(part_name(1, 3)))));
  std::filesystem::rename(folder.file(part_name(2, 3)), folder.file("other.gguf"));
  EXPECT_THAT(error_of([&] { File(folder.file("other.gguf")); }), HasSubstr("ends with '-00001-of-00003.gguf'"));
}

TEST(Split, MissingPartIsNamed) {
  const Folder folder("split_missing");
  write_set(folder);
  std::filesystem::remove(folder.file(part_name(3, 3)));
  EXPECT_THAT(
      error_of([&] { File(folder.file(part_name(1, 3))); }),
      AllOf(StartsWith("io: "), HasSubstr("part 3 of 3 is missing or can't be read (" + folder.file(part_name(3, 3)))));
}

TEST(Split, DoubledPartIsNamed) {
  const Folder folder("split_doubled");
  write_set(folder);
  std::filesystem::copy_file(folder.file(part_name(2, 3)), folder.file(part_name(3, 3)),
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(error_of([&] { File(folder.file(part_name(1, 3))); }),
              AllOf(HasSubstr(part_name(3, 3) + ": the metadata key 'split.no' (value at byte "),
                    HasSubstr("is 1, expected 2 (part 3 of 3): the same part as " + folder.file(part_name(2, 3)))));
}

TEST(Split, MisnumberedAndForeignParts) {
  const Folder folder("split_misnumbered");
  write_set(folder);
  write_part(folder.file(part_name(2, 3)), {.number = 2, .tensor = "t1"});
  EXPECT_THAT(error_of([&] { File(folder.file(part_name(1, 3))); }),
              HasSubstr("is 2, expected 1 (part 2 of 3): the file has "
                        "a wrong name"));
  write_part(folder.file(part_name(2, 3)), {.number = 1, .count = 4, .tensor = "t1"});
  EXPECT_THAT(error_of([&] { File(folder.file(part_name(1, 3))); }),
              AllOf(HasSubstr("'split.count'"), HasSubstr("is 4, expected 3 as in part 1")));
  Writer plain(folder.file(part_name(2, 3)));
  plain.finish();
  EXPECT_THAT(error_of([&] { File(folder.file(part_name(1, 3))); }), HasSubstr("has no key 'split.count'"));
}

TEST(Split, FirstPartUnderAnotherName) {
  const Folder folder("split_renamed");
  write_part(folder.file("model.gguf"), {});
  EXPECT_THAT(error_of([&] { File(folder.file("model.gguf")); }),
              HasSubstr("found part 1 of a split set of 3, expected a name that ends with '-00001-of-00003.gguf'"));
}

TEST(Split, CountsAndNames) {
  const Folder folder("split_counts");
  write_set(folder);
  write_part(folder.file(part_name(3, 3)), {.number = 2, .tensor = "t1"});
  EXPECT_THAT(error_of([&] { File(folder.file(part_name(1, 3))); }),
              AllOf(HasSubstr(part_name(3, 3) + ": found the tensor 't1' a second time"), HasSubstr(part_name(2, 3))));
  write_part(folder.file(part_name(1, 3)), {.number = 0, .total_tensors = 4, .tensor = "t0"});
  EXPECT_THAT(error_of([&] { File(folder.file(part_name(1, 3))); }),
              HasSubstr("the 3 parts hold 3 tensors, expected 4"));
}

TEST(Split, NumbersOutOfRange) {
  const Folder folder("split_range");
  const auto open_with = [&](int64_t number, int64_t count) {
    Writer writer(folder.file("m.gguf"));
    writer.add("split.no", number);
    writer.add("split.count", count);
    writer.finish();
    return error_of([&] { File(folder.file("m.gguf")); });
  };
  EXPECT_THAT(open_with(0, -1), HasSubstr("is -1, expected 0 to 4096"));
  EXPECT_THAT(open_with(0, 4097), HasSubstr("is 4097, expected 0 to 4096"));
  EXPECT_THAT(open_with(-1, 2), HasSubstr("is -1, expected 0 to 1"));
  EXPECT_THAT(open_with(2, 2), HasSubstr("is 2, expected 0 to 1"));
  EXPECT_EQ(open_with(0, 1), "no error");
  EXPECT_EQ(open_with(0, 0), "no error");
}

TEST(Split, InMemoryNeedsEveryPart) {
  const Folder folder("split_memory");
  write_set(folder);
  std::vector<std::vector<std::byte>> bytes;
  std::vector<MemoryPart> parts;
  for (int i = 1; i <= 3; ++i) bytes.push_back(test::read_bytes(folder.file(part_name(i, 3))));
  for (const auto& part : bytes) parts.push_back({"part", part});
  EXPECT_EQ(File::from_memory(parts).tensors().size(), 3u);
  EXPECT_THAT(error_of([&] { File::from_memory(std::span(parts).first(2)); }), HasSubstr("found 2 parts, expected 3"));
  parts.push_back(parts[0]);
  EXPECT_THAT(error_of([&] { File::from_memory(parts); }), HasSubstr("found 4 parts, expected 3"));
}

}  // namespace
}  // namespace minfer::gguf
