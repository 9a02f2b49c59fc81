// Systematic damage to a small valid file: every byte of its header region overwritten with several values, every
// aligned and unaligned 4- and 8-byte field set to edge values, and every cut. Each result either opens and can be read
// in full, or throws minfer::Error that is not internal; with sanitizers on, reading outside the bytes fails the test.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "gguf/test_support.hpp"

namespace minfer::gguf {
namespace {

using test::Bytes;

// Every value type, nested arrays, three tensors.
Bytes rich_file() {
  Bytes b;
  b.header(3, 8);
  b.key("general.architecture", ValueType::string).string("llama");
  b.key("general.alignment", ValueType::u32).u32(64);
  b.key("x.f", ValueType::f64).number(2.5);
  b.key("x.b", ValueType::boolean).raw("\1");
  b.key("x.words", ValueType::array).type(ValueType::string).u64(3).string("a").string("").string("bcd");
  b.key("x.numbers", ValueType::array)
      .type(ValueType::i16)
      .u64(3)
      .number<int16_t>(1)
      .number<int16_t>(2)
      .number<int16_t>(3);
  b.key("x.flags", ValueType::array).type(ValueType::boolean).u64(2).raw(std::string_view("\0\1", 2));
  b.key("x.nested", ValueType::array).type(ValueType::array).u64(2);
  b.type(ValueType::u8).u64(1).raw("z").type(ValueType::string).u64(1).string("q");
  b.tensor("blk.0.weight", {64, 2}, 8, 0).tensor("blk.0.bias", {3}, 0, 192).tensor("cube", {2, 2, 2, 2}, 1, 256);
  return b.pad(64);
}

struct Outcomes {
  int opened = 0;
  int refused = 0;
};

// Reads every view; the copy has exactly the file's size, so that a sanitizer sees a step past its end.
void open_and_read(std::span<const std::byte> bytes, Outcomes& outcomes) {
  const auto copy = std::make_unique<std::byte[]>(bytes.size());
  if (!bytes.empty()) std::memcpy(copy.get(), bytes.data(), bytes.size());
  uint64_t sum = 0;
  try {
    const File file = test::open_bytes({copy.get(), bytes.size()});
    for (const Value& value : file.metadata().values()) {
      for (const std::byte byte : value.payload) sum += static_cast<uint8_t>(byte);
      if (value.type != ValueType::array || value.element_type != ValueType::string) continue;
      size_t strings = 0;
      for (const std::string_view text : file.metadata().require_strings(value.key)) {
        for (const char c : text) sum += static_cast<uint8_t>(c);
        ++strings;
      }
      EXPECT_EQ(strings, value.count);
    }
    for (const TensorInfo& tensor : file.tensors()) {
      for (size_t i = 0; i < tensor.bytes; ++i) sum += static_cast<uint8_t>(tensor.data[i]);
    }
    ++outcomes.opened;
    EXPECT_LT(sum, uint64_t{1} << 32);
  } catch (const Error& error) {
    EXPECT_NE(error.code(), ErrorCode::internal) << error.what();
    EXPECT_EQ(std::string_view(error.what()).substr(0, 10), "bad.gguf: ") << error.what();
    ++outcomes.refused;
  }
}

TEST(Corruption, EveryByte) {
  Bytes file = rich_file();
  const size_t header = file.size();
  file.zeros(256 + 32);
  Outcomes outcomes;
  open_and_read(file.data(), outcomes);
  ASSERT_EQ(outcomes.opened, 1);
  for (size_t at = 0; at < header; ++at) {
    std::vector<std::byte> damaged = file.data();
    for (int value = 0; value < 256; ++value) {
      damaged[at] = static_cast<std::byte>(value);
      open_and_read(damaged, outcomes);
    }
  }
  EXPECT_EQ(static_cast<size_t>(outcomes.opened + outcomes.refused), 256 * header + 1);
  EXPECT_GT(outcomes.opened, 0);
  EXPECT_GT(outcomes.refused, 0);
}

TEST(Corruption, EveryFieldAtEdgeValues) {
  Bytes file = rich_file();
  const size_t header = file.size();
  file.zeros(256 + 32);
  const uint64_t top = uint64_t{1} << 63;
  Outcomes outcomes;
  for (const uint64_t value :
       {uint64_t{0}, uint64_t{1}, top - 1, top, ~uint64_t{0}, ~uint64_t{31}, uint64_t{1} << 60, uint64_t{1} << 32,
        (uint64_t{1} << 32) - 1, uint64_t{1} << 31, uint64_t{9}, uint64_t{64}}) {
    for (const size_t width : {4u, 8u}) {
      for (size_t at = 0; at + width <= header; ++at) {
        std::vector<std::byte> damaged = file.data();
        std::memcpy(damaged.data() + at, &value, width);
        open_and_read(damaged, outcomes);
      }
    }
  }
  EXPECT_GT(outcomes.opened, 0);
  EXPECT_GT(outcomes.refused, 0);
}

TEST(Corruption, EveryCut) {
  Bytes file = rich_file();
  file.zeros(256 + 32);
  Outcomes outcomes;
  for (size_t size = 0; size < file.size(); ++size) open_and_read(std::span(file.data()).first(size), outcomes);
  // The last tensor's data ends with the file: no cut may open.
  EXPECT_EQ(outcomes.opened, 0);
}

}  // namespace
}  // namespace minfer::gguf
