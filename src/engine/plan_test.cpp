// The budget decision, by its numbers.
#include "engine/plan.hpp"

#include <gtest/gtest.h>

namespace minfer::engine {
namespace {

using Answer = graph::DeviceMemory::Answer;
using Verdict = Budget::Verdict;

const graph::MemoryUse kUse{600, 300, 70, 30};  // 1000 in all

TEST(DecideBudget, TakesWhatTheDeviceHasAvailable) {
  const Budget fits = decide_budget(kUse, {Answer::reported, 9000, 1000, {}}, std::nullopt);
  EXPECT_EQ(fits.verdict, Verdict::fits);
  EXPECT_EQ(fits.needed_bytes, 1000);
  EXPECT_EQ(fits.budget_bytes, 1000);
  EXPECT_FALSE(fits.limited);
  const Budget lacks = decide_budget(kUse, {Answer::reported, 9000, 999, {}}, std::nullopt);
  EXPECT_EQ(lacks.verdict, Verdict::too_large);
  EXPECT_EQ(lacks.budget_bytes, 999);
}

TEST(DecideBudget, ALimitOnlyLowersIt) {
  const Budget lower = decide_budget(kUse, {Answer::reported, 9000, 5000, {}}, 999);
  EXPECT_EQ(lower.verdict, Verdict::too_large);
  EXPECT_EQ(lower.budget_bytes, 999);
  EXPECT_TRUE(lower.limited);
  const Budget higher = decide_budget(kUse, {Answer::reported, 9000, 900, {}}, 5000);
  EXPECT_EQ(higher.verdict, Verdict::too_large);
  EXPECT_EQ(higher.budget_bytes, 900);
  EXPECT_FALSE(higher.limited);
}

TEST(DecideBudget, SaysWhereItDoesNotKnow) {
  const graph::DeviceMemory failed{Answer::query_failed, 0, 0, "no answer"};
  EXPECT_EQ(decide_budget(kUse, failed, std::nullopt).verdict, Verdict::unknown);
  EXPECT_EQ(decide_budget(kUse, failed, 1000).verdict, Verdict::fits);
  EXPECT_EQ(decide_budget(kUse, failed, 999).verdict, Verdict::too_large);
  EXPECT_EQ(decide_budget(kUse, {}, std::nullopt).verdict, Verdict::too_large) << "no device";
}

}  // namespace
}  // namespace minfer::engine
