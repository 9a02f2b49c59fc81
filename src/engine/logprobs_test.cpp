// Log-probabilities against the definition in long double, with a full sort.
#include "engine/logprobs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace minfer::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<double> by_definition(const std::vector<float>& logits) {
  const auto largest = static_cast<long double>(*std::max_element(logits.begin(), logits.end()));
  long double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<long double>(logit) - largest);
  std::vector<double> result;
  for (const float logit : logits) {
    result.push_back(static_cast<double>(static_cast<long double>(logit) - largest - std::log(sum)));
  }
  return result;
}

std::vector<int32_t> sorted_ids(const std::vector<float>& logits) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  return ids;
}

void expect_exact(const std::vector<float>& logits, int32_t most) {
  const auto expected = by_definition(logits);
  const auto order = sorted_ids(logits);
  Logprobs logprobs(most);
  logprobs.read(logits);
  ASSERT_EQ(logprobs.top().size(), std::min(logits.size(), static_cast<size_t>(most)));
  for (size_t i = 0; i < logprobs.top().size(); ++i) {
    const auto id = static_cast<size_t>(order[i]);
    EXPECT_EQ(logprobs.top()[i].token, order[i]);
    EXPECT_EQ(logprobs.top()[i].logprob, logprobs.of(logits[id]));
  }
  for (size_t id = 0; id < logits.size(); ++id) {
    if (logits[id] == -kInfinity) {
      EXPECT_EQ(logprobs.of(logits[id]), -kInfinity);
    } else {
      EXPECT_NEAR(static_cast<double>(logprobs.of(logits[id])), expected[id], 2e-7 * (1 + std::fabs(expected[id])));
    }
  }
}

TEST(Logprobs, OfRandomRowsAreThoseOfTheDefinition) {
  std::mt19937 random(3);
  for (const float spread : {0.01F, 1.0F, 8.0F, 60.0F}) {
    for (const size_t size : {1, 2, 7, 8, 9, 1000, 151937}) {
      std::normal_distribution<float> normal(-3.0F, spread);
      std::vector<float> logits(size);
      for (float& logit : logits) logit = normal(random);
      expect_exact(logits, 20);
    }
  }
}

TEST(Logprobs, DoNotOverflowNorVanishFarFromZero) {
  for (const float offset : {-3e38F, -1e6F, 1e6F, 3e38F}) {
    Logprobs logprobs(2);
    logprobs.read(std::vector<float>{offset, offset, offset, offset});
    EXPECT_FLOAT_EQ(logprobs.of(offset), offset == 1e6F || offset == -1e6F ? std::log(0.25F) : 0.0F) << offset;
  }
  expect_exact({-kInfinity, 2.0F, -kInfinity, 1.0F}, 4);
}

TEST(Logprobs, EqualLogitsComeByTheirIds) {
  Logprobs logprobs(3);
  logprobs.read(std::vector<float>{1, 5, 2, 5, 2, 5, 5, 2});
  std::vector<int32_t> ids;
  for (const TokenLogprob& token : logprobs.top()) ids.push_back(token.token);
  EXPECT_EQ(ids, (std::vector<int32_t>{1, 3, 5}));
  std::mt19937 random(4);
  std::vector<float> few(500);
  for (float& logit : few) logit = static_cast<float>(random() % 5);
  expect_exact(few, 20);
}

TEST(Logprobs, WithoutTheLikeliestOnlyOfATokenAreThere) {
  expect_exact({0.5F, -1.0F, 3.0F}, 0);
}

}  // namespace
}  // namespace minfer::engine
