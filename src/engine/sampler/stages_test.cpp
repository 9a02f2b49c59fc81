// Each stage of the sampler by itself, on a few logits with values worked out by hand. Probabilities are given as their
// logarithms, so that softmax gives them back.
#include "engine/sampler/stages.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace minfer::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A state and all that it refers to.
struct Fixture {
  SamplerParams params;
  std::vector<int32_t> history;
  std::vector<float> logits;
  std::vector<Candidate> candidates;
  std::mt19937_64 random{1};
  float mu = 0;

  SamplerState state() { return {params, history, logits, candidates, random, mu}; }
  std::vector<int32_t> ids() const {
    std::vector<int32_t> result;
    for (const Candidate& candidate : candidates) result.push_back(candidate.id);
    return result;
  }
  void expect_logits(const std::vector<float>& expected) const {
    ASSERT_EQ(logits.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_FLOAT_EQ(logits[i], expected[i]) << "token " << i;
  }
};

// Candidates of probabilities 0.5, 0.25, 0.15, 0.1 for tokens 2, 0, 3, 1; log-probabilities shifted by 3.
Fixture four_candidates() {
  Fixture fixture;
  for (const float p : {0.25F, 0.1F, 0.5F, 0.15F}) fixture.logits.push_back(std::log(p) + 3.0F);
  SamplerState state = fixture.state();
  select_top_k(state, 0);
  return fixture;
}

template <class Stage>
std::vector<int32_t> ids_after(Fixture fixture, Stage stage) {
  SamplerState state = fixture.state();
  stage(state);
  return fixture.ids();
}

// --- top-k and softmax ---

TEST(TopK, KeepsTheLargestInOrderAndTheLowestIdOnTies) {
  Fixture fixture;
  fixture.logits = {1, 3, 2, 3, 0, 2};
  SamplerState state = fixture.state();
  const auto ids = [&](int32_t k) {
    select_top_k(state, k);
    return fixture.ids();
  };
  EXPECT_THAT(ids(1), ElementsAre(1));
  EXPECT_THAT(ids(2), ElementsAre(1, 3));
  EXPECT_THAT(ids(3), ElementsAre(1, 3, 2));
  EXPECT_THAT(ids(4), ElementsAre(1, 3, 2, 5));
  EXPECT_THAT(ids(0), ElementsAre(1, 3, 2, 5, 0, 4));
  EXPECT_THAT(ids(99), ElementsAre(1, 3, 2, 5, 0, 4));
}

TEST(Softmax, IsUnmovedByAShiftAndTakesMinusInfinity) {
  std::vector<Candidate> candidates = {
      {0, 1000 + std::log(4.0F), 0}, {1, 1000 + std::log(1.0F), 0}, {2, -kInfinity, 0}};
  softmax(candidates);
  EXPECT_NEAR(candidates[0].p, 0.8F, 1e-4F);
  EXPECT_NEAR(candidates[1].p, 0.2F, 1e-4F);
  EXPECT_EQ(candidates[2].p, 0.0F);
}

// --- filters ---

TEST(Typical, KeepsTheTokensOfSurpriseNearestTheEntropy) {
  // Entropy 1.208; distances of the surprises from it: token 0 0.178, token 2 0.515, token 3 0.689, token 1 1.095.
  Fixture fixture = four_candidates();
  const auto ids = [&](float p) {
    fixture.params.typical_p = p;
    return ids_after(fixture, apply_typical);
  };
  EXPECT_THAT(ids(0.0F), ElementsAre(0)) << "the nearest, the cut keeps one";
  EXPECT_THAT(ids(0.2F), ElementsAre(0));
  EXPECT_THAT(ids(0.7F), ElementsAre(2, 0));
  EXPECT_THAT(ids(0.8F), ElementsAre(2, 0, 3));
  EXPECT_THAT(ids(1.0F), ElementsAre(2, 0, 3, 1));
}

TEST(TopP, KeepsTheFewestThatReachTheMass) {
  Fixture fixture = four_candidates();
  const auto ids = [&](float p) {
    fixture.params.top_p = p;
    return ids_after(fixture, apply_top_p);
  };
  EXPECT_THAT(ids(0.0F), ElementsAre(2));
  EXPECT_THAT(ids(0.45F), ElementsAre(2));
  EXPECT_THAT(ids(0.55F), ElementsAre(2, 0));
  EXPECT_THAT(ids(0.8F), ElementsAre(2, 0, 3));
  EXPECT_THAT(ids(1.0F), ElementsAre(2, 0, 3, 1));
}

TEST(MinP, KeepsWhatReachesAPartOfTheLargest) {
  Fixture fixture = four_candidates();
  const auto ids = [&](float p) {
    fixture.params.min_p = p;
    return ids_after(fixture, apply_min_p);
  };
  EXPECT_THAT(ids(0.0F), ElementsAre(2, 0, 3, 1));
  EXPECT_THAT(ids(0.29F), ElementsAre(2, 0, 3)) << "0.145 and more";
  EXPECT_THAT(ids(0.31F), ElementsAre(2, 0)) << "0.155 and more";
  EXPECT_THAT(ids(1.0F), ElementsAre(2));
}

TEST(Xtc, TakesAwayAllOverTheThresholdButTheLeastLikely) {
  Fixture fixture = four_candidates();
  fixture.params.xtc_probability = 1;
  const auto ids = [&](float threshold) {
    fixture.params.xtc_threshold = threshold;
    return ids_after(fixture, apply_xtc);
  };
  EXPECT_THAT(ids(0.12F), ElementsAre(3, 1));
  EXPECT_THAT(ids(0.2F), ElementsAre(0, 3, 1));
  EXPECT_THAT(ids(0.0F), ElementsAre(1));
  EXPECT_THAT(ids(0.3F), ElementsAre(2, 0, 3, 1)) << "only one is over it";
  EXPECT_THAT(ids(0.6F), ElementsAre(2, 0, 3, 1)) << "no two can be over it";
  fixture.params.xtc_probability = 0;
  EXPECT_THAT(ids(0.12F), ElementsAre(2, 0, 3, 1));
}

TEST(Xtc, StrikesWithItsProbability) {
  Fixture fixture = four_candidates();
  fixture.params.xtc_probability = 0.3F;
  fixture.params.xtc_threshold = 0.2F;
  constexpr int kRuns = 4000;
  int struck = 0;
  const auto candidates = fixture.candidates;
  for (int i = 0; i < kRuns; ++i) {
    fixture.candidates = candidates;
    SamplerState state = fixture.state();
    apply_xtc(state);
    struck += fixture.candidates.size() == 3;
  }
  // Five standard deviations of 0.0072.
  EXPECT_NEAR(static_cast<double>(struck) / kRuns, 0.3, 0.036);
}

TEST(Temperature, DividesTheDistancesFromTheLargestLogit) {
  Fixture fixture;
  fixture.logits = {4, -2};
  fixture.params.temperature = 0.5F;
  SamplerState state = fixture.state();
  select_top_k(state, 0);
  apply_temperature(state);
  EXPECT_FLOAT_EQ(fixture.candidates[0].logit, 0);
  EXPECT_FLOAT_EQ(fixture.candidates[1].logit, -12);
}

// --- bias and penalties ---

TEST(LogitBias, AddsAndForbids) {
  Fixture fixture;
  fixture.logits = {1, 2, 3};
  fixture.params.logit_bias = {{0, 1.5F}, {2, -kInfinity}};
  SamplerState state = fixture.state();
  apply_logit_bias(state);
  fixture.expect_logits({2.5F, 2, -kInfinity});
}

TEST(Penalties, RepeatDividesAPositiveLogitAndMultipliesANegativeOne) {
  Fixture fixture;
  fixture.logits = {4, -2, 3};
  fixture.history = {0, 1, 1};
  fixture.params.repeat_penalty = 2;
  SamplerState state = fixture.state();
  apply_penalties(state);
  fixture.expect_logits({2, -4, 3});
}

TEST(Penalties, FrequencyCountsAndPresenceDoesNot) {
  Fixture fixture;
  fixture.logits = {4, -2, 3};
  fixture.history = {0, 1, 1};
  fixture.params.frequency_penalty = 0.5F;
  fixture.params.presence_penalty = 0.25F;
  SamplerState state = fixture.state();
  apply_penalties(state);
  fixture.expect_logits({4 - 0.75F, -2 - 1.25F, 3});
}

TEST(Penalties, RepeatComesBeforeTheOthers) {
  Fixture fixture;
  fixture.logits = {4};
  fixture.history = {0};
  fixture.params.repeat_penalty = 2;
  fixture.params.presence_penalty = 1;
  SamplerState state = fixture.state();
  apply_penalties(state);
  fixture.expect_logits({1});
}

TEST(Penalties, LookBackOnTheLastN) {
  const auto logits = [](int32_t last_n) {
    Fixture fixture;
    fixture.logits = {1, 1, 1};
    fixture.history = {0, 1, 2};
    fixture.params.presence_penalty = 1;
    fixture.params.penalty_last_n = last_n;
    SamplerState state = fixture.state();
    apply_penalties(state);
    return fixture.logits;
  };
  EXPECT_THAT(logits(0), ElementsAre(1, 1, 1));
  EXPECT_THAT(logits(1), ElementsAre(1, 1, 0));
  EXPECT_THAT(logits(2), ElementsAre(1, 0, 0));
  EXPECT_THAT(logits(-1), ElementsAre(0, 0, 0));
  EXPECT_THAT(logits(99), ElementsAre(0, 0, 0));
}

// --- DRY ---

Fixture dry(std::vector<int32_t> history) {
  Fixture fixture;
  fixture.logits.assign(10, 5.0F);
  fixture.history = std::move(history);
  fixture.params.dry_multiplier = 0.8F;
  return fixture;
}

// What DRY takes off each token that it strikes: (token, penalty).
std::vector<std::pair<int32_t, float>> dry_penalties(Fixture fixture) {
  SamplerState state = fixture.state();
  apply_dry(state);
  std::vector<std::pair<int32_t, float>> result;
  for (size_t i = 0; i < fixture.logits.size(); ++i) {
    if (fixture.logits[i] != 5.0F) result.emplace_back(static_cast<int32_t>(i), 5.0F - fixture.logits[i]);
  }
  return result;
}

auto strikes(int32_t token, float penalty) {
  return ElementsAre(::testing::Pair(token, FloatNear(penalty, 1e-5F)));
}

TEST(Dry, GrowsWithTheLengthOfTheRepetition) {
  EXPECT_THAT(dry_penalties(dry({1, 2, 3, 4, 2})), ElementsAre()) << "one token is allowed to repeat";
  EXPECT_THAT(dry_penalties(dry({1, 2, 3, 1, 2})), strikes(3, 0.8F));
  EXPECT_THAT(dry_penalties(dry({1, 2, 3, 4, 1, 2, 3})), strikes(4, 0.8F * 1.75F));
  EXPECT_THAT(dry_penalties(dry({1, 2, 3, 4, 9, 1, 2, 3, 4})), strikes(9, 0.8F * 1.75F * 1.75F));
}

TEST(Dry, TakesTheLongestOfSeveralRepetitions) {
  // 2 3 came before 5 after 1 (length 3), and before 5 after 9 (length 2); 2 3 alone before 6.
  const auto penalties = dry_penalties(dry({1, 2, 3, 5, 9, 2, 3, 5, 8, 2, 3, 6, 1, 2, 3}));
  ASSERT_EQ(penalties.size(), 2u);
  EXPECT_EQ(penalties[0].first, 5);
  EXPECT_NEAR(penalties[0].second, 0.8F * 1.75F, 1e-5F);
  EXPECT_EQ(penalties[1].first, 6);
  EXPECT_NEAR(penalties[1].second, 0.8F, 1e-5F);
}

TEST(Dry, SeesARepetitionThatOverlapsItself) {
  EXPECT_THAT(dry_penalties(dry({7, 7, 7, 7})), strikes(7, 0.8F * 1.75F));
}

TEST(Dry, ObeysAllowedLengthAndLookBackAndMultiplier) {
  Fixture fixture = dry({1, 2, 3, 4, 1, 2, 3});
  fixture.params.dry_allowed_length = 3;
  EXPECT_THAT(dry_penalties(fixture), strikes(4, 0.8F));
  fixture.params.dry_allowed_length = 4;
  EXPECT_THAT(dry_penalties(fixture), ElementsAre());
  fixture.params.dry_allowed_length = 2;
  fixture.params.dry_penalty_last_n = 6;  // the first 1 is out of sight
  EXPECT_THAT(dry_penalties(fixture), strikes(4, 0.8F));
  fixture.params.dry_penalty_last_n = 5;
  EXPECT_THAT(dry_penalties(fixture), ElementsAre());
  fixture.params.dry_penalty_last_n = 0;
  EXPECT_THAT(dry_penalties(fixture), ElementsAre());
  fixture.params.dry_penalty_last_n = -1;
  fixture.params.dry_multiplier = 0;
  EXPECT_THAT(dry_penalties(fixture), ElementsAre());
}

TEST(Dry, StopsAtBreakers) {
  Fixture fixture = dry({1, 2, 3, 4, 1, 2, 3});
  fixture.params.dry_breakers = {1};
  EXPECT_THAT(dry_penalties(fixture), strikes(4, 0.8F)) << "only 2 3 count";
  fixture.params.dry_breakers = {2};
  EXPECT_THAT(dry_penalties(fixture), ElementsAre()) << "only 3 counts";
  fixture.params.dry_breakers = {4};
  EXPECT_THAT(dry_penalties(fixture), ElementsAre()) << "a breaker is never struck";
}

TEST(Dry, AVeryLongRepetitionForbidsTheToken) {
  // 1.75^398 is beyond f32, 1.75^2998 beyond f64.
  for (const size_t length : {400u, 3000u}) {
    Fixture fixture = dry(std::vector<int32_t>(length + 1, 7));
    SamplerState state = fixture.state();
    apply_dry(state);
    EXPECT_EQ(fixture.logits[7], -kInfinity) << length;
    EXPECT_EQ(fixture.logits[6], 5.0F);
  }
}

// --- edits ---

// A device that draws (graph/sampling.hpp) does to the logits what the stages do.
TEST(Edits, DoWhatTheStagesDo) {
  std::mt19937 random(5);
  const auto number = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
  for (int turn = 0; turn < 200; ++turn) {
    Fixture fixture;
    for (int i = 0; i < 40; ++i) fixture.logits.push_back(static_cast<float>(number(2000)) / 100.0F - 10.0F);
    for (int i = number(60); i > 0; --i) fixture.history.push_back(number(turn % 2 == 0 ? 39 : 3));
    fixture.params.logit_bias = {{number(39), 1.5F}, {number(39), -0.25F}};
    fixture.params.penalty_last_n = number(3) * 20 - 1;
    fixture.params.repeat_penalty = 1.0F + static_cast<float>(number(2)) / 3.0F;
    fixture.params.frequency_penalty = static_cast<float>(number(2)) / 7.0F;
    fixture.params.presence_penalty = static_cast<float>(number(2)) / 9.0F;
    fixture.params.dry_multiplier = static_cast<float>(number(2)) / 3.0F;
    fixture.params.dry_breakers = {number(3)};
    std::vector<float> edited = fixture.logits;
    std::vector<graph::LogitEdit> edits;
    collect_edits(fixture.params, fixture.history, 0, fixture.candidates, edits);
    for (size_t i = 0; i < edits.size(); ++i) {
      ASSERT_TRUE(i == 0 || edits[i - 1].token < edits[i].token);
      float& logit = edited[static_cast<size_t>(edits[i].token)];
      logit += edits[i].bias;
      const SamplerParams& p = fixture.params;
      if (edits[i].count > 0) {
        if (p.repeat_penalty != 1.0F) logit = logit > 0 ? logit / p.repeat_penalty : logit * p.repeat_penalty;
        logit -= static_cast<float>(edits[i].count) * p.frequency_penalty + p.presence_penalty;
      }
      logit -= edits[i].dry;
    }
    SamplerState state = fixture.state();
    apply_logit_bias(state);
    apply_penalties(state);
    apply_dry(state);
    ASSERT_EQ(edited, fixture.logits) << turn;
  }
}

// --- draws ---

TEST(Uniform, IsTheTop53BitsAndStaysBelowOne) {
  std::mt19937_64 random(5489);
  // The first output of mt19937_64 with its default seed is 14514284786278117030.
  EXPECT_DOUBLE_EQ(uniform(random), static_cast<double>(14514284786278117030ULL >> 11) / 9007199254740992.0);
  for (int i = 0; i < 1000; ++i) {
    const double value = uniform(random);
    EXPECT_GE(value, 0.0);
    EXPECT_LT(value, 1.0);
  }
}

// Surprise in bits of each draw, under the candidates that it was drawn from; the mean over the second half.
double mean_surprise(int32_t (*draw_mirostat)(SamplerState&), float tau) {
  constexpr int kDraws = 3000;
  Fixture fixture;
  for (int i = 1; i <= 2000; ++i) fixture.logits.push_back(-1.1F * std::log(static_cast<float>(i)));
  fixture.params.mirostat_tau = tau;
  fixture.params.mirostat_eta = 0.1F;
  fixture.mu = 2 * tau;
  double sum = 0;
  for (int i = 0; i < kDraws; ++i) {
    SamplerState state = fixture.state();
    select_top_k(state, 0);
    const int32_t id = draw_mirostat(state);
    for (const Candidate& candidate : fixture.candidates) {
      if (candidate.id == id && i >= kDraws / 2) sum -= std::log2(static_cast<double>(candidate.p));
    }
  }
  return sum / (kDraws - kDraws / 2);
}

TEST(Mirostat, HoldsTheSurpriseAtTau) {
  // The entropy of this Zipf distribution is about 7.4 bits; a mean over 1500 draws with eta 0.1 differs from tau by
  // how far mu moved, divided by 150.
  for (const float tau : {2.0F, 3.0F, 5.0F}) {
    EXPECT_NEAR(mean_surprise(draw_mirostat_1, tau), tau, 0.1) << "version 1";
    EXPECT_NEAR(mean_surprise(draw_mirostat_2, tau), tau, 0.1) << "version 2";
  }
}

TEST(Mirostat, Version2CutsAtTheSurpriseMu) {
  Fixture fixture = four_candidates();  // surprises 1, 2, 2.74, 3.32 bits
  fixture.params.mirostat_tau = 1;
  for (const auto& [mu, kept] : {std::pair(0.5F, 1u), {1.5F, 1u}, {2.5F, 2u}, {3.0F, 3u}, {9.0F, 4u}}) {
    Fixture copy = fixture;
    copy.mu = mu;
    SamplerState state = copy.state();
    const int32_t id = draw_mirostat_2(state);
    EXPECT_EQ(copy.candidates.size(), kept) << mu;
    float p = 0;
    for (const Candidate& candidate : copy.candidates) p += candidate.id == id ? candidate.p : 0.0F;
    EXPECT_FLOAT_EQ(copy.mu, mu - 0.1F * (-std::log2(p) - 1.0F));
  }
}

TEST(Mirostat, Version1KeepsAllWhereTheEstimateFails) {
  // Equal logits: the Zipf exponent is 0, and k is no number.
  Fixture fixture;
  fixture.logits.assign(50, 1.0F);
  fixture.params.mirostat_tau = 3;
  fixture.mu = 6;
  SamplerState state = fixture.state();
  select_top_k(state, 0);
  draw_mirostat_1(state);
  EXPECT_EQ(fixture.candidates.size(), 50u);
}

}  // namespace
}  // namespace minfer::engine
