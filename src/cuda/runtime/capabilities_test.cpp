// The tier follows from the compute capability alone.
#include "cuda/runtime/capabilities.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace minfer::cuda {
namespace {

TEST(Capabilities, TierOfEachGeneration) {
  EXPECT_EQ(choose_tier("A100", 8, 0), Tier::ampere);
  EXPECT_EQ(choose_tier("L4", 8, 9), Tier::ampere);
  EXPECT_EQ(choose_tier("H200", 9, 0), Tier::hopper);
  EXPECT_EQ(choose_tier("B200", 10, 0), Tier::hopper);
}

TEST(Capabilities, OldCardsAreRefusedByName) {
  try {
    choose_tier("Tesla T4", 7, 5);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_STREQ(error.what(), "Tesla T4 has compute capability 7.5; minfer's kernels need 8.0 or newer");
  }
}

}  // namespace
}  // namespace minfer::cuda
