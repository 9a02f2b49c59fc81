// Checked sizes: exact up to the largest number, an error that names the quantity beyond it.
#include "base/checked.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "base/error.hpp"
#include "base/test_support.hpp"

namespace minfer {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

TEST(Checked, IsExactUpToTheLargest) {
  EXPECT_EQ(checked_multiply(int64_t{1} << 31, int64_t{1} << 31, "x"), int64_t{1} << 62);
  EXPECT_EQ(checked_multiply(kMost, 1, "x"), kMost);
  EXPECT_EQ(checked_multiply(0, kMost, "x"), 0);
  EXPECT_EQ(checked_add(kMost - 7, 7, "x"), kMost);
  EXPECT_EQ(checked_round_up(0, 64, "x"), 0);
  EXPECT_EQ(checked_round_up(65, 64, "x"), 128);
  EXPECT_EQ(checked_round_up(kMost - 63, 64, "x"), kMost - 63);
}

TEST(Checked, NamesTheQuantityBeyondIt) {
  EXPECT_EQ(error_of([] { checked_multiply(int64_t{1} << 32, int64_t{1} << 31, "bytes of the cache"); }),
            "out_of_memory: bytes of the cache: 4294967296 * 2147483648 is more than a 64-bit size can be; take a "
            "smaller context or batch, or a smaller model");
  EXPECT_EQ(error_of([] { checked_add(kMost, 1, "bytes of the arena"); }),
            "out_of_memory: bytes of the arena: 9223372036854775807 + 1 is more than a 64-bit size can be; take a "
            "smaller context or batch, or a smaller model");
  EXPECT_NE(error_of([] { checked_round_up(kMost - 62, 64, "x"); }), "no error");
}

}  // namespace
}  // namespace minfer
