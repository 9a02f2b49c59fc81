// The likeliest tokens of a row on the card against a full sort of its logits on the host: odd vocabularies, ties,
// infinities, rows that ask for none beside rows that ask for some.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "cuda/launch/sampling.hpp"
#include "cuda/launch/test_device.hpp"

namespace minfer::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kLogprobTolerance = 4e-6;  // absolute, and relative to the log-probability
constexpr int32_t kMost = graph::kMostTopLogprobs;

SamplingRow row_of(int32_t top) {
  SamplingRow row{};
  row.repeat = 1.0F;
  row.counted = -1;
  row.typical_p = row.top_p = 1.0F;
  row.mask = -1;
  row.top_logprobs = top;
  return row;
}

struct Results {
  std::vector<Drawn> drawn;
  std::vector<TokenLogprob> top;  // [rows][kMost]; token -1 where nothing was written
};

Results run_rows(int64_t vocabulary, const std::vector<float>& values, const std::vector<SamplingRow>& rows,
                 const std::vector<LogitEdit>& edits = {}) {
  const TestQueue queue(true);
  const auto count = static_cast<int64_t>(rows.size());
  const TestRows logits(ActivationFormat::f32, count, vocabulary, values);
  const TestArray row_array(rows);
  const TestArray edit_array(edits);
  const TestArray out(count * static_cast<int64_t>(sizeof(Drawn)));
  const TestArray top(count * kMost * static_cast<int64_t>(sizeof(TokenLogprob)));
  const TestArray address(std::vector<std::byte*>{top.data()});
  const TestArray scratch(sample_scratch_bytes(count, vocabulary));
  SampleArgs args;
  args.logits = logits.view();
  args.rows = row_array.as<SamplingRow>();
  args.edits = edit_array.as<LogitEdit>();
  args.out = reinterpret_cast<Drawn*>(out.data());
  args.scratch = scratch.data();
  args.top = reinterpret_cast<TokenLogprob* const*>(address.data());
  launch_sample(*queue, args);
  queue.finish();
  return {out.download<Drawn>(), top.download<TokenLogprob>()};
}

void expect_row(std::span<const float> logits, int32_t asked, const Drawn& drawn, std::span<const TokenLogprob> top) {
  ASSERT_EQ(drawn.status, DrawStatus::ok);
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto wanted = std::min(static_cast<size_t>(asked), ids.size());
  const auto logit = [&](int32_t id) { return logits[static_cast<size_t>(id)]; };
  std::partial_sort(ids.begin(), ids.begin() + static_cast<long>(wanted), ids.end(),
                    [&](int32_t a, int32_t b) { return logit(a) > logit(b) || (logit(a) == logit(b) && a < b); });
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - largest);
  for (size_t i = 0; i < static_cast<size_t>(kMost); ++i) {
    if (i >= wanted) {
      EXPECT_EQ(top[i].token, -1) << "more than were asked for";
      continue;
    }
    ASSERT_EQ(top[i].token, ids[i]) << i << " of " << wanted << ", vocabulary " << logits.size();
    const double expected = static_cast<double>(logit(ids[i])) - largest - std::log(sum);
    if (std::isinf(expected)) {
      EXPECT_EQ(top[i].logprob, -kInfinity);
    } else {
      EXPECT_NEAR(top[i].logprob, expected, kLogprobTolerance * std::max(1.0, std::fabs(expected)));
    }
    if (top[i].token == drawn.id) {
      EXPECT_EQ(top[i].logprob, drawn.logprob) << "two numbers for one token";
    }
  }
}

void expect_rows(int64_t vocabulary, const std::vector<float>& values, const std::vector<SamplingRow>& rows,
                 const std::vector<LogitEdit>& edits = {}) {
  const Results results = run_rows(vocabulary, values, rows, edits);
  for (size_t r = 0; r < rows.size(); ++r) {
    SCOPED_TRACE(r);
    const auto width = static_cast<size_t>(vocabulary);
    expect_row(std::span(values).subspan(r * width, width), rows[r].top_logprobs, results.drawn[r],
               std::span(results.top).subspan(r * kMost, kMost));
    if (::testing::Test::HasFatalFailure()) return;
  }
}

// Normal; as of a sure model; with many ties; wide.
std::vector<float> random_logits(std::mt19937& random, int64_t count, int kind) {
  std::normal_distribution<float> normal(-2.0F, kind == 3 ? 100.0F : 3.0F);
  std::vector<float> logits(static_cast<size_t>(count));
  for (float& x : logits) {
    x = normal(random);
    if (kind == 1 && random() % 1000 == 0) x += 20.0F;
    if (kind == 2) x = std::nearbyint(x);
  }
  logits.back() += 0.25F;  // never all equal
  return logits;
}

TEST(SamplingTopDevice, GivesTheLikeliestTokensOfTheUneditedLogits) {
  std::mt19937 random(5);
  for (const int64_t vocabulary : {2, 3, 19, 20, 21, 33, 79, 80, 81, 1000, 4095, 4097, 20003, 151936, 262145}) {
    std::vector<float> values;
    std::vector<SamplingRow> rows;
    std::vector<LogitEdit> edits;
    for (int kind = 0; kind < 4; ++kind) {
      for (const int32_t top : {0, 1, 5, kMost}) {
        const auto logits = random_logits(random, vocabulary, kind);
        SamplingRow row = row_of(top);
        if (top == 5) {
          row.temperature = 0.8F;
          row.top_k = 2;
          row.uniform = 0.999;
        }
        // What edits do is not seen here.
        row.first_edit = static_cast<int32_t>(edits.size());
        row.edits = 1;
        const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
        edits.push_back({static_cast<int32_t>(best), -3.0F, 0, 0.0F});
        values.insert(values.end(), logits.begin(), logits.end());
        rows.push_back(row);
      }
    }
    expect_rows(vocabulary, values, rows, edits);
    if (HasFatalFailure()) return;
  }
}

// More equal logits than there is room for, by themselves and below a few others.
TEST(SamplingTopDevice, TakesTheLowestIdsOfThousandsOfEquals) {
  constexpr int64_t kVocabulary = 60000;
  std::vector<float> values;
  std::vector<SamplingRow> rows;
  for (const float low : {-1.0F, -kInfinity, 0.0F}) {
    for (const int higher : {1, 7, 30}) {
      std::vector<float> logits(static_cast<size_t>(kVocabulary), low);
      for (int i = 0; i < higher; ++i) logits[static_cast<size_t>(59000 - i * 1931)] = 2.0F + static_cast<float>(i % 3);
      values.insert(values.end(), logits.begin(), logits.end());
      rows.push_back(row_of(kMost));
    }
  }
  std::vector<float> zeros(static_cast<size_t>(kVocabulary), -0.0F);
  for (size_t i = 1; i < zeros.size(); i += 2) zeros[i] = 0.0F;
  zeros[50000] = -1.0F;
  values.insert(values.end(), zeros.begin(), zeros.end());
  rows.push_back(row_of(kMost));
  expect_rows(kVocabulary, values, rows);
}

TEST(SamplingTopDevice, LeavesRowsAloneThatAreBrokenOrDoNotAsk) {
  std::mt19937 random(6);
  auto values = random_logits(random, 3000, 0);
  values[7] = std::numeric_limits<float>::quiet_NaN();
  const auto good = random_logits(random, 3000, 0);
  values.insert(values.end(), good.begin(), good.end());
  const Results results = run_rows(3000, values, {row_of(5), row_of(0)});
  EXPECT_EQ(results.drawn[0].status, DrawStatus::not_finite);
  for (const TokenLogprob& token : results.top) EXPECT_EQ(token.token, -1);
}

TEST(SamplingTopDevice, GivesEqualBitsEveryTime) {
  std::mt19937 random(7);
  const auto values = random_logits(random, 40 * 50000, 2);
  const std::vector<SamplingRow> rows(40, row_of(kMost));
  const Results first = run_rows(50000, values, rows);
  const Results second = run_rows(50000, values, rows);
  EXPECT_EQ(std::memcmp(first.top.data(), second.top.data(), first.top.size() * sizeof(TokenLogprob)), 0);
}

}  // namespace
}  // namespace minfer::cuda
