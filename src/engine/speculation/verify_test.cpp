// That drafts change nothing: the same tokens where guesses are compared, the same distribution where they are drawn
// (chi-square over many draws with fixed seeds, so that the outcome never changes). The model is a table: logits by
// the last token.
#include "engine/speculation/verify.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "base/error.hpp"

namespace minfer::engine {
namespace {

constexpr int32_t kVocabulary = 6;
constexpr int64_t kDraws = 40000;

using Table = std::vector<std::vector<float>>;
using Tokens = std::vector<int32_t>;

Table random_table(uint64_t seed, float spread) {
  std::mt19937_64 random(seed);
  Table table(kVocabulary, std::vector<float>(kVocabulary));
  for (auto& row : table) {
    for (float& logit : row) logit = static_cast<float>((uniform(random) - 0.5) * static_cast<double>(spread));
  }
  return table;
}

// Logits after `last` and after each drafted token.
std::vector<float> rows_of(const Table& table, int32_t last, const Tokens& drafted) {
  std::vector<float> rows = table[static_cast<size_t>(last)];
  for (const int32_t token : drafted) {
    const auto& row = table[static_cast<size_t>(token)];
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return rows;
}

bool never_ends(int32_t) {
  return false;
}

SamplerParams plain(uint64_t seed) {
  SamplerParams params;
  params.seed = seed;
  params.temperature = 1;
  params.top_k = 0;
  params.top_p = 1;
  params.min_p = 0;
  return params;
}

SamplerParams filtered(uint64_t seed) {
  SamplerParams params;
  params.seed = seed;
  params.temperature = 0.7F;
  params.top_k = 4;
  params.top_p = 0.9F;
  params.min_p = 0.05F;
  return params;
}

SamplerParams with_xtc(uint64_t seed) {
  SamplerParams params = plain(seed);
  params.xtc_probability = 0.5F;
  params.xtc_threshold = 0.15F;
  return params;
}

// Penalties, so that what is drawn depends on all that was.
SamplerParams penalized(uint64_t seed) {
  SamplerParams params = filtered(seed);
  params.repeat_penalty = 1.3F;
  params.penalty_last_n = 8;
  params.dry_multiplier = 0.5F;
  return params;
}

SamplerParams greedy() {
  SamplerParams params = penalized(0);
  params.temperature = 0;
  params.logit_bias = {{2, 0.3F}};
  return params;
}

SamplerParams mirostat(int32_t version) {
  SamplerParams params = plain(4);
  params.mirostat = version;
  params.mirostat_tau = 1.5F;
  return params;
}

// Drafts of a model: its sampler's draws with what they were drawn from.
Draft draw_draft(Sampler& sampler, const Table& table, int32_t last, size_t count) {
  Draft draft;
  for (size_t i = 0; i < count; ++i) {
    last = sampler.sample(table[static_cast<size_t>(last)]);
    sampler.accept(last);
    draft.tokens.push_back(last);
    const auto from = sampler.candidates();
    draft.candidates.insert(draft.candidates.end(), from.begin(), from.end());
    draft.ends.push_back(draft.candidates.size());
  }
  sampler.rewind(count);
  return draft;
}

// --- guesses that are compared: the very tokens ---

struct Stream {
  Tokens tokens;
  int64_t accepted = 0;
};

Stream plain_stream(const SamplerParams& params, const Table& table, size_t count) {
  Sampler sampler(params, kVocabulary);
  Stream stream{{0}};
  sampler.accept(0);
  while (stream.tokens.size() < count) {
    stream.tokens.push_back(sampler.sample(table[static_cast<size_t>(stream.tokens.back())]));
    sampler.accept(stream.tokens.back());
  }
  return stream;
}

// The same by drafts of random lengths, of which most tokens are right.
Stream drafted_stream(const SamplerParams& params, const Table& table, const Tokens& right) {
  Sampler sampler(params, kVocabulary);
  std::mt19937_64 random(3);
  Stream stream{{0}};
  sampler.accept(0);
  while (stream.tokens.size() < right.size()) {
    Draft draft;
    const size_t length = random() % 6;
    for (size_t i = stream.tokens.size(); i < std::min(stream.tokens.size() + length, right.size()); ++i) {
      draft.tokens.push_back(random() % 5 == 0 ? static_cast<int32_t>(random() % kVocabulary) : right[i]);
    }
    const auto verdict = verify(sampler, rows_of(table, stream.tokens.back(), draft.tokens), draft, never_ends);
    stream.tokens.insert(stream.tokens.end(), draft.tokens.begin(), draft.tokens.begin() + verdict.accepted);
    stream.tokens.push_back(verdict.next);
    stream.accepted += verdict.accepted;
    EXPECT_EQ(Tokens(sampler.history().begin(), sampler.history().end()), stream.tokens);
  }
  stream.tokens.resize(right.size());
  return stream;
}

TEST(Verify, ComparedGuessesGiveTheTokensOfPlainDecoding) {
  const Table table = random_table(1, 4);
  const std::map<std::string, SamplerParams> cases = {
      {"greedy", greedy()},        {"plain", plain(9)},         {"filtered", filtered(9)},   {"xtc", with_xtc(9)},
      {"penalized", penalized(9)}, {"mirostat 1", mirostat(1)}, {"mirostat 2", mirostat(2)},
  };
  for (const auto& [name, params] : cases) {
    const Stream expected = plain_stream(params, table, 2000);
    const Stream actual = drafted_stream(params, table, expected.tokens);
    EXPECT_EQ(actual.tokens, expected.tokens) << name;
    EXPECT_GT(actual.accepted, 800) << name;
  }
}

TEST(Verify, StopsAtATokenThatEndsTheText) {
  SamplerParams params = plain(0);
  params.temperature = 0;
  Table table(kVocabulary, std::vector<float>(kVocabulary, 0));
  for (size_t i = 0; i < kVocabulary; ++i) table[i][(i + 1) % kVocabulary] = 1;
  Sampler sampler(params, kVocabulary);
  Draft draft;
  draft.tokens = {1, 2, 3, 4};
  const auto verdict =
      verify(sampler, rows_of(table, 0, draft.tokens), draft, [](int32_t token) { return token == 3; });
  EXPECT_EQ(verdict.accepted, 2);
  EXPECT_EQ(verdict.next, 3);
  EXPECT_THAT(sampler.history(), ::testing::ElementsAre(1, 2, 3));
}

TEST(Verify, RefusesDrawnDraftsOfASamplerWithoutADistribution) {
  const Table table = random_table(1, 4);
  Sampler drafter(plain(1), kVocabulary), target(mirostat(2), kVocabulary);
  const Draft draft = draw_draft(drafter, table, 0, 1);
  EXPECT_THROW(verify(target, rows_of(table, 0, draft.tokens), draft, never_ends), Error);
}

// --- drafts that are drawn: the distribution ---

// How often each first and second token came out, of sequences that begin with token 0.
std::vector<int64_t> count_pairs(const SamplerParams& params, const Table& target, const Table* drafts,
                                 const SamplerParams& draft_params, int64_t* accepted) {
  std::vector<int64_t> counts(kVocabulary * kVocabulary, 0);
  Sampler sampler(params, kVocabulary), drafter(draft_params, kVocabulary);
  sampler.accept(0);
  drafter.accept(0);
  for (int64_t i = 0; i < kDraws; ++i) {
    Tokens out;
    while (out.size() < 2) {
      const int32_t last = out.empty() ? 0 : out.back();
      Draft draft;
      if (drafts != nullptr) draft = draw_draft(drafter, *drafts, last, 2 - out.size());
      const auto verdict = verify(sampler, rows_of(target, last, draft.tokens), draft, never_ends);
      if (accepted != nullptr) *accepted += verdict.accepted;
      for (int64_t k = 0; k < verdict.accepted; ++k) out.push_back(draft.tokens[static_cast<size_t>(k)]);
      out.push_back(verdict.next);
      // The drafter sees what the target has accepted, as in a running sequence.
      for (size_t k = drafter.history().size(); k < sampler.history().size(); ++k) {
        drafter.accept(sampler.history()[k]);
      }
    }
    ++counts[static_cast<size_t>(out[0] * kVocabulary + out[1])];
    sampler.rewind(sampler.history().size() - 1);
    drafter.rewind(drafter.history().size() - 1);
  }
  return counts;
}

// The statistic of two samples of equal size, in standard deviations above its mean; impossible pairs must not occur.
double deviation(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  double statistic = 0, freedom = -1;
  for (size_t i = 0; i < a.size(); ++i) {
    const double sum = static_cast<double>(a[i] + b[i]);
    if (sum == 0) continue;
    const double difference = static_cast<double>(a[i] - b[i]);
    statistic += difference * difference / sum;
    freedom += 1;
  }
  return (statistic - freedom) / std::sqrt(2 * freedom);
}

// Plain decoding against decoding with drafts of another model.
void expect_same_distribution(SamplerParams (*params)(uint64_t), const Table& drafts, const std::string& name) {
  const Table target = random_table(1, 3);
  const auto expected = count_pairs(params(100), target, nullptr, params(0), nullptr);
  int64_t accepted = 0;
  const auto actual = count_pairs(params(200), target, &drafts, params(300), &accepted);
  EXPECT_LT(deviation(actual, expected), 3.5) << name;
  EXPECT_GT(accepted, kDraws / 5) << name;
  const auto other = count_pairs(params(400), drafts, nullptr, params(0), nullptr);
  EXPECT_GT(deviation(other, expected), 50) << name << ": the draft's distribution must be another one";
}

TEST(Verify, DrawnDraftsKeepTheDistribution) {
  const Table drafts = random_table(2, 3);
  expect_same_distribution(plain, drafts, "plain");
  expect_same_distribution(filtered, drafts, "filtered");
  expect_same_distribution(with_xtc, drafts, "xtc");
  expect_same_distribution(penalized, drafts, "penalized");
}

TEST(Verify, ComparedGuessesKeepTheDistributionToo) {
  const Table target = random_table(1, 3);
  for (auto* params : {plain, filtered}) {
    const auto expected = count_pairs(params(100), target, nullptr, params(0), nullptr);
    std::vector<int64_t> counts(kVocabulary * kVocabulary, 0);
    Sampler sampler(params(200), kVocabulary);
    sampler.accept(0);
    for (int64_t i = 0; i < kDraws; ++i) {
      Draft draft;
      draft.tokens = {static_cast<int32_t>(i % kVocabulary)};
      const auto verdict = verify(sampler, rows_of(target, 0, draft.tokens), draft, never_ends);
      const int32_t first = verdict.accepted == 1 ? draft.tokens[0] : verdict.next;
      const int32_t second =
          verdict.accepted == 1 ? verdict.next : sampler.sample(target[static_cast<size_t>(verdict.next)]);
      ++counts[static_cast<size_t>(first * kVocabulary + second)];
      sampler.rewind(sampler.history().size() - 1);
    }
    EXPECT_LT(deviation(counts, expected), 3.5);
  }
}

TEST(Verify, ADraftOfTheSameDistributionIsAlwaysAccepted) {
  const Table table = random_table(1, 3);
  Sampler target(filtered(1), kVocabulary), drafter(filtered(2), kVocabulary);
  for (int i = 0; i < 2000; ++i) {
    const int32_t last = i % kVocabulary;
    const Draft draft = draw_draft(drafter, table, last, 3);
    EXPECT_EQ(verify(target, rows_of(table, last, draft.tokens), draft, never_ends).accepted, 3);
  }
}

TEST(Verify, ASeedRepeatsItsDraws) {
  const Table target = random_table(1, 3), drafts = random_table(2, 3);
  const auto once = count_pairs(filtered(1), target, &drafts, filtered(2), nullptr);
  EXPECT_EQ(count_pairs(filtered(1), target, &drafts, filtered(2), nullptr), once);
}

}  // namespace
}  // namespace minfer::engine
