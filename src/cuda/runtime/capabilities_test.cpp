// The tier follows from the compute capability alone.
#include "cuda/runtime/capabilities.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>

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

// The message of the refusal, "" where there is none.
std::string refusal(std::string_view built, int major, int minor) {
  try {
    check_built_for(built, major, minor);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    return error.what();
  }
}

TEST(Capabilities, CodeForTheCard) {
  EXPECT_EQ(refusal("90a-real", 9, 0), "");
  EXPECT_EQ(refusal("90a", 9, 0), "");
  EXPECT_EQ(refusal("80-real", 8, 0), "");
  EXPECT_EQ(refusal("80-real", 8, 9), "");  // of the same major number
  EXPECT_EQ(refusal("100f-real", 10, 3), "");
  EXPECT_EQ(refusal("100", 12, 1), "");  // compiled at start
  EXPECT_EQ(refusal("native", 8, 6), "");
  for (const auto& [major, minor] : {std::pair(8, 0), std::pair(8, 6), std::pair(8, 9), std::pair(9, 0),
                                     std::pair(10, 0), std::pair(10, 3), std::pair(12, 0)}) {
    EXPECT_EQ(refusal("80,86,89,90a,100,120", major, minor), "") << major << "." << minor;
  }
}

TEST(Capabilities, NoCodeForTheCard) {
  EXPECT_EQ(refusal("90a-real", 8, 6), "built for 9.0; this card is 8.6; build with -DMINFER_CUDA_ARCHITECTURES=86");
  EXPECT_EQ(refusal("80,86-real", 9, 0),
            "built for 8.0, 8.6; this card is 9.0; build with -DMINFER_CUDA_ARCHITECTURES=90a");
  EXPECT_NE(refusal("90", 9, 0), "");  // lacks what is 9.0a's alone
  EXPECT_NE(refusal("90a", 10, 0), "");
  EXPECT_NE(refusal("89-real", 8, 6), "");
  EXPECT_NE(refusal("80", 12, 0), "");  // kernels there need what code for 8.0 has not
  EXPECT_NE(refusal("100-real", 12, 0), "");
  EXPECT_NE(refusal("100f", 12, 0), "");
}

}  // namespace
}  // namespace minfer::cuda
