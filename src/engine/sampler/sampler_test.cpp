// The sampler as a whole: what it refuses, greedy choice, the distribution of its draws (chi-square with fixed seeds,
// so that the outcome never changes), and that a seed repeats them.
#include "engine/sampler/sampler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "base/error.hpp"
#include "base/test_support.hpp"

namespace minfer::engine {
namespace {

using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

SamplerParams greedy() {
  SamplerParams params;
  params.temperature = 0;
  return params;
}

// Nothing but the draw.
SamplerParams plain(uint64_t seed) {
  SamplerParams params;
  params.seed = seed;
  params.temperature = 1;
  params.top_k = 0;
  params.top_p = 1;
  params.min_p = 0;
  return params;
}

std::vector<float> logits_of(const std::vector<float>& probabilities) {
  std::vector<float> logits;
  for (const float p : probabilities) logits.push_back(std::log(p));
  return logits;
}

// --- parameters ---

struct Limit {
  std::string name;
  std::function<void(SamplerParams&, double)> set;
  double below;
  double above;
  bool is_integer;
};

template <class T>
Limit limit(std::string name, T SamplerParams::* member, double below, double above) {
  return {std::move(name), [member](SamplerParams& params, double value) { params.*member = static_cast<T>(value); },
          below, above, std::is_integral_v<T>};
}

TEST(SamplerParams, OutOfRangeIsRefusedByName) {
  constexpr double kNoLimit = 0;  // the type holds nothing above
  constexpr double kBeyondLookBack = (1 << 30) + 1;
  const std::vector<Limit> limits = {
      limit("temperature", &SamplerParams::temperature, -0.1, 1001),
      limit("top_k", &SamplerParams::top_k, -1, kNoLimit),
      limit("top_p", &SamplerParams::top_p, -0.1, 1.1),
      limit("min_p", &SamplerParams::min_p, -0.1, 1.1),
      limit("typical_p", &SamplerParams::typical_p, -0.1, 1.1),
      limit("penalty_last_n", &SamplerParams::penalty_last_n, -2, kBeyondLookBack),
      limit("repeat_penalty", &SamplerParams::repeat_penalty, 0, 101),
      limit("frequency_penalty", &SamplerParams::frequency_penalty, -101, 101),
      limit("presence_penalty", &SamplerParams::presence_penalty, -101, 101),
      limit("dry_multiplier", &SamplerParams::dry_multiplier, -0.1, 101),
      limit("dry_base", &SamplerParams::dry_base, 0.9, 101),
      limit("dry_allowed_length", &SamplerParams::dry_allowed_length, 0, kBeyondLookBack),
      limit("dry_penalty_last_n", &SamplerParams::dry_penalty_last_n, -2, kBeyondLookBack),
      limit("xtc_probability", &SamplerParams::xtc_probability, -0.1, 1.1),
      limit("xtc_threshold", &SamplerParams::xtc_threshold, -0.1, 1.1),
      limit("mirostat", &SamplerParams::mirostat, -1, 3),
      limit("mirostat_tau", &SamplerParams::mirostat_tau, 0, 101),
      limit("mirostat_eta", &SamplerParams::mirostat_eta, -0.1, 1.1),
  };
  for (const Limit& row : limits) {
    SCOPED_TRACE(row.name);
    std::vector<double> values = {row.below};
    if (row.above != kNoLimit) values.push_back(row.above);
    if (!row.is_integer) values.insert(values.end(), {kNan, kInfinity, -kInfinity});
    for (const double value : values) {
      SamplerParams params;
      row.set(params, value);
      EXPECT_THAT(error_of([&] { check_sampler_params(params, 10); }), HasSubstr("invalid_input: " + row.name + " is "))
          << value;
    }
  }
  EXPECT_EQ(error_of([] { check_sampler_params({}, 10); }), "no error");
  SamplerParams least;
  least.repeat_penalty = least.mirostat_tau = 0.01F;
  EXPECT_EQ(error_of([&] { check_sampler_params(least, 10); }), "no error");
}

TEST(SamplerParams, LogitBiasNamesATokenAndANumber) {
  const auto error = [](int32_t token, float bias) {
    SamplerParams params;
    params.logit_bias = {{token, bias}};
    return error_of([&] { Sampler(params, 10); });
  };
  EXPECT_EQ(error(10, 1), "invalid_input: logit_bias names token 10; the vocabulary has 10 tokens");
  EXPECT_EQ(error(-1, 1), "invalid_input: logit_bias names token -1; the vocabulary has 10 tokens");
  EXPECT_THAT(error(1, kNan), HasSubstr("invalid_input: logit_bias of token 1 is nan"));
  EXPECT_THAT(error(1, kInfinity), HasSubstr("invalid_input: logit_bias of token 1 is inf"));
  EXPECT_EQ(error(9, -kInfinity), "no error");
}

// --- logits ---

TEST(Sampler, RefusesBrokenLogits) {
  for (const SamplerParams& params : {greedy(), plain(1)}) {
    Sampler sampler(params, 3);
    EXPECT_THAT(error_of([&] { sampler.sample(std::vector<float>{1, kNan, 2}); }),
                HasSubstr("invalid_input: the model gave NaN as the logit of token 1"));
    EXPECT_THAT(error_of([&] { sampler.sample(std::vector<float>{1, 2, kInfinity}); }),
                HasSubstr("invalid_input: the model gave infinity as the logit of token 2"));
    EXPECT_THAT(error_of([&] { sampler.sample(std::vector<float>(3, -kInfinity)); }),
                HasSubstr("invalid_input: the model gave no finite logit"));
    EXPECT_EQ(sampler.sample(std::vector<float>{-kInfinity, -3, -kInfinity}), 1);
  }
}

TEST(Sampler, RefusesLogitsThatAreAllEqual) {
  for (const SamplerParams& params : {greedy(), plain(1)}) {
    EXPECT_EQ(error_of([&] { Sampler(params, 3).sample(std::vector<float>{0, 0, 0}); }),
              "invalid_input: the model gave 0 as the logit of every token; its weights are broken");
    EXPECT_EQ(error_of([&] { Sampler(params, 3).sample(std::vector<float>{1, 1, 2}); }), "no error");
    EXPECT_EQ(Sampler(params, 1).sample(std::vector<float>{7}), 0) << "a vocabulary of one";
  }
}

TEST(Sampler, RefusesWhatBiasAndPenaltiesTakeBeyondF32) {
  const auto huge = std::vector<float>{1, 3e38F, 2};
  for (SamplerParams params : {greedy(), plain(1)}) {
    params.logit_bias = {{1, 3e38F}};
    EXPECT_THAT(error_of([&] { Sampler(params, 3).sample(huge); }),
                HasSubstr("invalid_input: the logit of token 1 is beyond the range of f32"));
    params.logit_bias = {};
    params.repeat_penalty = 0.5F;
    Sampler sampler(params, 3);
    EXPECT_EQ(sampler.sample(huge), 1);
    sampler.accept(1);
    EXPECT_THAT(error_of([&] { sampler.sample(huge); }),
                HasSubstr("invalid_input: the logit of token 1 is beyond the range of f32"));
  }
}

TEST(Sampler, SaysWhenBiasAndPenaltiesForbidEveryToken) {
  for (SamplerParams params : {greedy(), plain(1)}) {
    params.logit_bias = {{0, -kInfinity}, {2, -kInfinity}};
    Sampler sampler(params, 3);
    EXPECT_EQ(sampler.sample(std::vector<float>{5, 1, 5}), 1);
    EXPECT_THAT(error_of([&] { sampler.sample(std::vector<float>{5, -kInfinity, 5}); }),
                HasSubstr("invalid_input: every token is forbidden"));
  }
}

TEST(Sampler, GreedyTakesTheLargestAndTheLowestIdOnTies) {
  Sampler sampler(greedy(), 4);
  EXPECT_EQ(sampler.sample(std::vector<float>{1, 5, 5, 2}), 1);
  EXPECT_EQ(sampler.sample(std::vector<float>{1, 5, 5.5F, 2}), 2);
}

TEST(Sampler, GreedyHeedsBiasAndPenaltiesAndDry) {
  SamplerParams params = greedy();
  params.logit_bias = {{1, -kInfinity}};
  EXPECT_EQ(Sampler(params, 3).sample(std::vector<float>{1, 5, 4}), 2);
  params = greedy();
  params.presence_penalty = 2;
  Sampler penalizing(params, 3);
  EXPECT_EQ(penalizing.sample(std::vector<float>{1, 5, 4}), 1);
  penalizing.accept(1);
  EXPECT_EQ(penalizing.sample(std::vector<float>{1, 5, 4}), 2);
  params = greedy();
  params.dry_multiplier = 2;
  Sampler dry(params, 3);
  for (const int32_t token : {0, 2, 1, 0, 2}) dry.accept(token);
  EXPECT_EQ(dry.sample(std::vector<float>{1, 5, 4}), 2);
}

// --- draws ---

std::vector<int> count_draws(const SamplerParams& params, const std::vector<float>& logits, int draws) {
  Sampler sampler(params, static_cast<int64_t>(logits.size()));
  std::vector<int> counts(logits.size(), 0);
  for (int i = 0; i < draws; ++i) ++counts[static_cast<size_t>(sampler.sample(logits))];
  return counts;
}

double chi_square(const std::vector<int>& counts, const std::vector<float>& probabilities) {
  int draws = 0;
  for (const int count : counts) draws += count;
  double sum = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = static_cast<double>(probabilities[i]) * draws;
    sum += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  return sum;
}

// Beyond it lies one of a thousand chi-square values with three degrees of freedom.
constexpr double kChiSquare3 = 16.27;

TEST(Sampler, DrawsAsOftenAsTheProbabilitiesSay) {
  const std::vector<float> p = {0.1F, 0.4F, 0.2F, 0.3F};
  for (const uint64_t seed : {1u, 2u, 3u}) {
    EXPECT_LT(chi_square(count_draws(plain(seed), logits_of(p), 20000), p), kChiSquare3) << seed;
  }
  EXPECT_GT(chi_square(count_draws(plain(1), logits_of({0.12F, 0.38F, 0.2F, 0.3F}), 20000), p), kChiSquare3)
      << "the test must tell two distributions apart";
}

TEST(Sampler, DrawsAtATemperature) {
  SamplerParams params = plain(1);
  params.temperature = 2;  // square roots: 0.4, 0.3, 0.2, 0.1 of their sum
  EXPECT_LT(chi_square(count_draws(params, logits_of({0.16F, 0.09F, 0.04F, 0.01F}), 20000), {0.4F, 0.3F, 0.2F, 0.1F}),
            kChiSquare3);
}

TEST(Sampler, ATinyTemperatureIsNearlyGreedy) {
  // 20 / 1e-38 is beyond f32.
  SamplerParams params = plain(1);
  params.temperature = 1e-38F;
  EXPECT_EQ(count_draws(params, {19, 20, 18}, 100), (std::vector<int>{0, 100, 0}));
}

TEST(Sampler, DrawsOnlyWhatTheFiltersLeave) {
  const auto logits = logits_of({0.5F, 0.25F, 0.15F, 0.1F});
  const auto drawn = [&](const std::function<void(SamplerParams&)>& set) {
    SamplerParams params = plain(1);
    set(params);
    std::vector<size_t> ids;
    const auto counts = count_draws(params, logits, 1000);
    for (size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] > 0) ids.push_back(i);
    }
    return ids;
  };
  using Ids = std::vector<size_t>;
  EXPECT_EQ(drawn([](SamplerParams& p) { p.top_k = 2; }), (Ids{0, 1}));
  EXPECT_EQ(drawn([](SamplerParams& p) { p.top_p = 0.8F; }), (Ids{0, 1, 2}));
  EXPECT_EQ(drawn([](SamplerParams& p) { p.min_p = 0.4F; }), (Ids{0, 1}));
  EXPECT_EQ(drawn([](SamplerParams& p) { p.typical_p = 0.2F; }), (Ids{1}));
  const auto xtc = [](SamplerParams& p) { p.xtc_probability = 1, p.xtc_threshold = 0.12F; };
  EXPECT_EQ(drawn(xtc), (Ids{2, 3}));
  EXPECT_EQ(drawn([](SamplerParams& p) { p.logit_bias = {{1, -kInfinity}}; }), (Ids{0, 2, 3}));
  EXPECT_EQ(drawn([](SamplerParams&) {}), (Ids{0, 1, 2, 3}));
}

TEST(Sampler, NeverDrawsAForbiddenToken) {
  // A uniform number just under 1 must not reach the candidates without probability at the end of the list.
  SamplerParams params = plain(1);
  std::vector<float> logits(1000);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i % 7) * 0.1F;
  for (int32_t id = 500; id < 1000; ++id) params.logit_bias.emplace_back(id, -kInfinity);
  Sampler sampler(params, 1000);
  for (int i = 0; i < 2000; ++i) EXPECT_LT(sampler.sample(logits), 500);
}

TEST(Sampler, RepeatsItsDrawsForASeed) {
  std::vector<float> logits(100);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = std::sin(static_cast<float>(i));
  const auto draws = [&](uint64_t seed, int32_t mirostat) {
    SamplerParams params = plain(seed);
    params.mirostat = mirostat;
    params.repeat_penalty = 1.1F;
    Sampler sampler(params, 100);
    std::vector<int32_t> ids;
    for (int i = 0; i < 50; ++i) {
      ids.push_back(sampler.sample(logits));
      sampler.accept(ids.back());
    }
    return ids;
  };
  for (const int32_t mirostat : {0, 1, 2}) {
    EXPECT_EQ(draws(42, mirostat), draws(42, mirostat));
    EXPECT_NE(draws(42, mirostat), draws(43, mirostat));
  }
}

TEST(Sampler, MirostatStartsAtTwiceTau) {
  // Surprises are 1, 2, 2.74 and 3.32 bits: a bound of 1.8 leaves the first alone, one of 3 three.
  const auto logits = logits_of({0.5F, 0.25F, 0.15F, 0.1F});
  SamplerParams params = plain(1);
  params.mirostat = 2;
  params.mirostat_eta = 0;
  params.mirostat_tau = 0.9F;
  EXPECT_EQ(count_draws(params, logits, 1000), (std::vector<int>{1000, 0, 0, 0}));
  params.mirostat_tau = 1.5F;
  const auto counts = count_draws(params, logits, 1000);
  EXPECT_GT(counts[2], 0);
  EXPECT_EQ(counts[3], 0);
}

}  // namespace
}  // namespace minfer::engine
