// RoPE frequencies against numbers computed apart, in Python from the formulas of the papers and of
// tests/golden/README.md.
#include "model/rope.hpp"

#include <gtest/gtest.h>

namespace minfer::model {
namespace {

void expect_frequencies(const Rope& rope, const std::vector<double>& expected, double magnitude = 1) {
  const auto angles = rope_frequencies(rope);
  ASSERT_EQ(angles.inverse_frequencies.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(angles.inverse_frequencies[i], expected[i], 2e-7 * expected[i]) << "pair " << i;
  }
  EXPECT_NEAR(angles.magnitude, magnitude, 1e-7);
}

Rope rope_of(int64_t dims, float base) {
  Rope rope;
  rope.dims = dims;
  rope.base = base;
  return rope;
}

TEST(Rope, PlainFallsByTheBase) {
  expect_frequencies(rope_of(8, 10000), {1, 0.1, 0.01, 0.001});
  expect_frequencies(rope_of(2, 500), {1});
}

TEST(Rope, TheFactorIsUsedOnlyWithAScaling) {
  Rope rope = rope_of(8, 10000);
  rope.factor = 4;
  expect_frequencies(rope, {1, 0.1, 0.01, 0.001});
}

TEST(Rope, LinearDividesAll) {
  Rope rope = rope_of(8, 10000);
  rope.scaling = Rope::Scaling::linear;
  rope.factor = 4;
  expect_frequencies(rope, {0.25, 0.025, 0.0025, 0.00025});
}

TEST(Rope, YarnKeepsHighFrequenciesAndDividesLowOnes) {
  Rope rope = rope_of(16, 10000);
  rope.scaling = Rope::Scaling::yarn;
  rope.factor = 4;
  rope.original_context = 2048;  // the ramp is from pair 2 to pair 6
  const std::vector<double> expected = {1,       0.316227766,   0.1,     0.025693506,
                                        0.00625, 0.00138349648, 0.00025, 7.90569415e-05};
  expect_frequencies(rope, expected, 1.138629436111989);
  rope.yarn_attention_factor = 0.5F;
  expect_frequencies(rope, expected, 0.5 * 1.138629436111989);
}

TEST(Rope, AMultiplierTakesYarnsMagnitudeBack) {
  Rope rope = rope_of(16, 10000);
  rope.scaling = Rope::Scaling::yarn;
  rope.factor = 4;
  rope.original_context = 2048;
  rope.yarn_log_multiplier = 1;
  EXPECT_EQ(rope_frequencies(rope).magnitude, 1.0F);
  rope.yarn_log_multiplier = 0.5F;
  EXPECT_NEAR(rope_frequencies(rope).magnitude, 1.138629436 / 1.069314718, 1e-6);
}

TEST(Rope, LongRopeDividesByItsFactorsAndHasItsOwnMagnitude) {
  Rope rope = rope_of(4, 10000);
  rope.scaling = Rope::Scaling::longrope;
  rope.frequency_divisors = {1, 2};
  rope.yarn_attention_factor = 1.25F;
  expect_frequencies(rope, {1, 0.005}, 1.25);
}

TEST(Rope, YarnOfATinyContextScalesAll) {
  // Even pair 0 turns less than once: the ramp is from 0 to 0, and pair 0 is at its start.
  Rope rope = rope_of(8, 10000);
  rope.scaling = Rope::Scaling::yarn;
  rope.factor = 2;
  rope.original_context = 4;
  expect_frequencies(rope, {1, 0.05, 0.005, 0.0005}, 1.0693147180559945);
}

TEST(Rope, DivisorsOfTheFileDivide) {
  Rope rope = rope_of(16, 500000);
  rope.frequency_divisors = {1, 1, 1, 1, 2.69452969F, 8, 8, 8};
  expect_frequencies(rope, {1, 0.193922745, 0.0376060309, 0.00729266474, 0.000524846161, 3.4281022e-05, 6.64786987e-06,
                            1.28917317e-06});
}

}  // namespace
}  // namespace minfer::model
