// The cost of rows as learnt from noisy steps, and the depth on simulated texts: what drafting costs where nothing
// repeats, and how near it comes to the best fixed depth where much does. Time is simulated: a step of r rows takes
// 1 + slope * (r - 1), give or take 5%; or it has a kink, as where reading the weights hides the first rows.
#include "engine/speculation/depth.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "base/error.hpp"

namespace minfer::engine {
namespace {

// Whether the next token of the text is as drafted.
using Text = std::function<bool()>;

struct Chance {
  std::mt19937_64 random;
  double operator()() { return static_cast<double>(random() >> 11) * 0x1.0p-53; }
};

Text independent(double probability, uint64_t seed) {
  return [probability, chance = Chance{std::mt19937_64(seed)}]() mutable { return chance() < probability; };
}

// Stretches that repeat what was said, of 100 tokens in the mean, and as long ones that don't.
Text mixed(uint64_t seed) {
  return [copies = false, chance = Chance{std::mt19937_64(seed)}]() mutable {
    if (chance() < 0.01) copies = !copies;
    return chance() < (copies ? 0.97 : 0.03);
  };
}

// Seconds of a step of so many rows.
using Steps = std::function<double(int64_t rows)>;

Steps line(double slope) {
  return [slope](int64_t rows) { return 1 + slope * static_cast<double>(rows - 1); };
}

// As measured of a 1.5b model on two cores.
double kinked(int64_t rows) {
  const double r = static_cast<double>(rows);
  return std::max(1.0, 0.55 + 0.17 * r);
}

// Seconds a token.
double run(DepthPolicy policy, Text text, const Steps& steps, int64_t tokens, uint64_t noise_seed = 5) {
  StepCost cost;
  Chance noise{std::mt19937_64(noise_seed)};
  double total = 0;
  int64_t done = 0;
  while (done < tokens) {
    const int64_t drafted = policy.next(cost, 0);
    int64_t accepted = 0;
    while (accepted < drafted && text()) ++accepted;
    if (accepted == drafted) text();
    const int64_t rows = 1 + drafted;
    const double seconds = steps(rows);
    cost.record(rows, seconds * (0.95 + 0.1 * noise()));
    policy.record(cost, 0, drafted, accepted);
    total += seconds;
    done += 1 + accepted;
  }
  return total / static_cast<double>(done);
}

// Likewise with a draft model, which runs a guess in `guess` seconds and reads a token in `read` seconds; `prompt`
// tokens come before. What it has read begins anywhere and grows with what it runs.
double run_draft_model(DepthPolicy policy, Text text, double guess, double read, int64_t prompt, int64_t tokens) {
  StepCost cost;
  Chance noise{std::mt19937_64(5)};
  double total = 0;
  int64_t left_out = 0, end = 0;  // of what it has read
  int64_t done = 0;
  while (done < tokens) {
    int64_t drafted = policy.next(cost, 0);
    const int64_t length = prompt + done;
    double reading = 0;
    if (drafted > 0) {
      const auto to_read = policy.tokens_to_read(cost, 0, {left_out, end - left_out, length - 1 - end});
      if (!to_read || *to_read > 0) drafted = 0;
      if (to_read && *to_read > 0) {
        if (*to_read != length - 1 - end) left_out = length - 1 - *to_read;
        end = length - 1;
        reading = read * static_cast<double>(*to_read);
        cost.record_catch_up(*to_read, reading * (0.95 + 0.1 * noise()));
        policy.pay_reading(cost, 0, *to_read);
      }
    }
    int64_t accepted = 0;
    while (accepted < drafted && text()) ++accepted;
    if (drafted > 0) end = length + std::min(accepted, drafted - 1);
    const double seconds = line(0.1)(1 + drafted) + guess * static_cast<double>(drafted);
    cost.record(1 + drafted, seconds * (0.95 + 0.1 * noise()));
    policy.record(cost, 0, drafted, accepted);
    total += seconds + reading;
    done += 1 + accepted;
  }
  return total / static_cast<double>(done);
}

double best_fixed(const std::function<Text()>& text, double slope, int64_t tokens) {
  double best = 1;
  for (int64_t depth = 1; depth <= kMaxDepth; ++depth) {
    best = std::min(best, run(DepthPolicy::fixed(depth), text(), line(slope), tokens));
  }
  return best;
}

// --- the cost of rows ---

TEST(StepCost, LearnsALineFromNoisySteps) {
  StepCost cost;
  Chance noise{std::mt19937_64(1)};
  for (int i = 0; i < 400; ++i) {
    for (const int64_t rows : {1, 2, 5, 9}) {
      cost.record(rows, (0.010 + 0.002 * static_cast<double>(rows - 1)) * (0.95 + 0.1 * noise()));
    }
  }
  for (const int64_t rows : {1, 2, 3, 5, 7, 9, 17, 40, 2000}) {
    const double expected = 0.010 + 0.002 * static_cast<double>(rows - 1);
    EXPECT_NEAR(cost.seconds(rows), expected, 0.1 * expected) << rows;
  }
}

TEST(StepCost, LeavesOutTheFirstStepOfASize) {
  StepCost cost;
  cost.record(1, 50);
  cost.record(1, 1);
  cost.record(2, 50);
  EXPECT_DOUBLE_EQ(cost.seconds(1), 1);
  EXPECT_DOUBLE_EQ(cost.seconds(2), 1.25) << "unknown: a guess";
  cost.record(2, 1.1);
  EXPECT_DOUBLE_EQ(cost.seconds(2), 1.1);
  EXPECT_NEAR(cost.seconds(9), 1.1 + 7 * 0.25 * 0.55, 1e-9) << "a share of what a row took, as the line may not go on";
  cost.record(3, 50);
  cost.record(3, 2);
  EXPECT_NEAR(cost.seconds(9), 2 + 6 * 0.5, 1e-9) << "the line goes on";
}

TEST(StepCost, IsNotLedAstrayByAStall) {
  StepCost cost;
  for (int i = 0; i < 5; ++i) cost.record(1, 1);
  cost.record(1, 1000);
  EXPECT_LE(cost.seconds(1), 1.2);
}

TEST(StepCost, FollowsAGrowingContextAndForgetsOldSizes) {
  StepCost cost;
  for (int i = 0; i < 5; ++i) cost.record(9, 100);
  for (int i = 0; i < 1100; ++i) cost.record(1, 1 + i / 1100.0);
  EXPECT_NEAR(cost.seconds(1), 2, 0.1);
  EXPECT_NEAR(cost.seconds(9), 6, 0.3) << "forgotten: a guess";
}

// --- the depth ---

TEST(DepthPolicy, RefusesADepthOutOfRange) {
  EXPECT_THROW(DepthPolicy::fixed(0), Error);
  EXPECT_THROW(DepthPolicy::adaptive(kMaxDepth + 1), Error);
}

TEST(DepthPolicy, AFixedDepthStays) {
  StepCost cost;
  DepthPolicy policy = DepthPolicy::fixed(5);
  for (int i = 0; i < 20; ++i) policy.record(cost, 0, 5, 0);
  EXPECT_EQ(policy.next(cost, 0), 5);
}

TEST(DepthPolicy, CostsAtMostThreePercentWhereNothingRepeats) {
  for (const double slope : {0.0, 0.03, 0.06, 0.12, 0.25, 0.5}) {
    for (const double chance : {0.0, 0.02, 0.1}) {
      for (uint64_t seed = 0; seed < 20; ++seed) {
        for (const int64_t tokens : {300, 3000}) {
          const double seconds = run(DepthPolicy::adaptive(kMaxDepth), independent(chance, seed), line(slope), tokens);
          EXPECT_LE(seconds, 1.03) << slope << " a row, " << chance << " accepted, " << tokens << " tokens";
        }
      }
    }
  }
}

TEST(DepthPolicy, CostsAtMostThreePercentWithADraftModelBehindALongPrompt) {
  for (const int64_t prompt : {1, 30, 800}) {
    for (const double read : {0.03, 0.1, 0.3}) {
      for (const double chance : {0.0, 0.02, 0.1}) {
        for (const int64_t tokens : {150, 1000}) {
          const double seconds =
              run_draft_model(DepthPolicy::adaptive(kMaxDepth), independent(chance, 1), 0.3, read, prompt, tokens);
          EXPECT_LE(seconds, 1.03) << prompt << ' ' << read << ' ' << chance << ' ' << tokens;
        }
      }
    }
  }
}

TEST(DepthPolicy, ADraftModelBehindALongPromptPaysWhereItGuessesWell) {
  for (const int64_t prompt : {1, 30, 800}) {
    const double seconds =
        run_draft_model(DepthPolicy::adaptive(kMaxDepth), independent(0.9, 1), 0.2, 0.1, prompt, 600);
    EXPECT_LE(seconds, 0.7) << prompt;
  }
}

TEST(DepthPolicy, CostsAtMostThreePercentWhereARowCostsAStep) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_LE(run(DepthPolicy::adaptive(kMaxDepth), independent(0.3, seed), line(1), 600), 1.03);
  }
}

// Two rows cost what one does, 17 three times as much: that is not to be found out by trying 17.
TEST(DepthPolicy, CostsAtMostThreePercentWhereOnlyTheFirstRowsAreFree) {
  for (const double chance : {0.0, 0.02, 0.1}) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const double seconds = run(DepthPolicy::adaptive(kMaxDepth), independent(chance, seed), kinked, 150, seed);
      EXPECT_LE(seconds, 1.03) << chance << " accepted, seed " << seed;
    }
  }
}

TEST(DepthPolicy, ReachesNearTheBestFixedDepthWhereMuchRepeats) {
  for (const double slope : {0.03, 0.06, 0.12, 0.25}) {
    for (const double chance : {0.7, 0.9, 0.97, 1.0}) {
      const double best = best_fixed([&] { return independent(chance, 3); }, slope, 2000);
      const double adaptive = run(DepthPolicy::adaptive(kMaxDepth), independent(chance, 3), line(slope), 2000);
      EXPECT_LE(adaptive, 1.1 * best) << slope << " a row, " << chance << " accepted";
    }
  }
}

TEST(DepthPolicy, BeatsEveryFixedDepthWhereAPartRepeats) {
  for (const double slope : {0.06, 0.12, 0.25}) {
    const double best = best_fixed([] { return mixed(9); }, slope, 20000);
    EXPECT_LT(run(DepthPolicy::adaptive(kMaxDepth), mixed(9), line(slope), 20000), best) << slope << " a row";
  }
}

TEST(DepthPolicy, FindsARepetitionAfterALongTextWithout) {
  int64_t left = 5000;
  const Text text = [&] { return --left < 0; };
  EXPECT_LE(run(DepthPolicy::adaptive(8), text, line(0.1), 10000), 0.5 * 1.03 + 0.5 * 0.25);
}

TEST(DepthPolicy, DraftsLessBesideOtherSequencesWhereRowsCost) {
  StepCost cost;
  // Rows are nearly free up to 8, then each costs its share.
  for (int i = 0; i < 50; ++i) {
    for (const int64_t rows : {1, 2, 4, 8, 16, 32, 64}) {
      cost.record(rows, std::max(1 + 0.01 * static_cast<double>(rows), static_cast<double>(rows) / 8));
    }
  }
  DepthPolicy policy = DepthPolicy::adaptive(kMaxDepth);
  for (int i = 0; i < 20; ++i) policy.record(cost, 0, 4, 4);
  EXPECT_GE(policy.next(cost, 0), 7);
  EXPECT_EQ(policy.next(cost, 31), 0);
}

}  // namespace
}  // namespace minfer::engine
