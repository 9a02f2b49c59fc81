// HugeBuffer: alignment, zeroed contents, moves and the error of an impossible size.
#include "cpu/runtime/memory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

#include "base/error.hpp"

namespace minfer::cpu {
namespace {

TEST(HugeBuffer, IsAlignedZeroedAndWritableToItsEnd) {
  for (const size_t size : {size_t{1}, size_t{4096}, kHugePageBytes - 1, kHugePageBytes, kHugePageBytes * 3 + 17}) {
    HugeBuffer buffer(size, "test");
    ASSERT_EQ(buffer.size_bytes(), size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % kHugePageBytes, 0u);
    EXPECT_EQ(buffer.data()[0], std::byte{0});
    EXPECT_EQ(buffer.data()[size - 1], std::byte{0});
    buffer.data()[0] = std::byte{1};
    buffer.data()[size - 1] = std::byte{2};
    EXPECT_EQ(buffer.data()[size - 1], std::byte{2});
  }
}

TEST(HugeBuffer, EmptyAndMoved) {
  HugeBuffer empty(0, "test");
  EXPECT_EQ(empty.data(), nullptr);
  EXPECT_EQ(empty.size_bytes(), 0u);
  HugeBuffer first(100, "test");
  first.data()[7] = std::byte{42};
  HugeBuffer second(std::move(first));
  EXPECT_EQ(second.data()[7], std::byte{42});
  empty = std::move(second);
  EXPECT_EQ(empty.size_bytes(), 100u);
  EXPECT_EQ(empty.data()[7], std::byte{42});
}

TEST(HugeBuffer, ImpossibleSizesNameThePurposeAndTheSize) {
  for (const size_t size : {size_t{1} << 60, SIZE_MAX}) {
    try {
      HugeBuffer buffer(size, "KV pages");
      FAIL() << "no error for " << size;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
      EXPECT_THAT(error.what(), testing::HasSubstr("KV pages"));
      EXPECT_THAT(error.what(), testing::HasSubstr(std::to_string(size)));
    }
  }
}

}  // namespace
}  // namespace minfer::cpu
