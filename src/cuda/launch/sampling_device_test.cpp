// The sampler on the card against a plain scalar one (test_sampler.hpp): equal ids wherever no decision hangs on the
// rounding of a sum.
#include "cuda/launch/sampling.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <span>

#include "base/error.hpp"
#include "cuda/launch/test_device.hpp"
#include "cuda/launch/test_sampler.hpp"
#include "cuda/runtime/device.hpp"

namespace minfer::cuda {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr double kSureMargin = 1e-6;        // decisions farther from a boundary must be equal
constexpr double kLogprobTolerance = 4e-6;  // absolute, and relative to the logit's distance from the largest
constexpr double kSurpriseTolerance = 2e-5;
constexpr SamplingRow kGreedyRow = {0,    0,    1.0F, 0.0F, 0.0F, -1,  0.0F, 0,    1.0F,
                                    1.0F, 0.0F, 0.0F, 0.5F, 0.0F, 0.0, 0,    0.0F, -1};

// Rows of one launch.
struct Batch {
  int64_t vocabulary = 0;
  std::vector<float> logits;  // [rows][vocabulary]
  std::vector<SamplingRow> rows;
  std::vector<LogitEdit> edits;
  std::vector<uint32_t> masks;

  std::span<const float> logits_of(size_t row) const {
    return std::span(logits).subspan(row * static_cast<size_t>(vocabulary), static_cast<size_t>(vocabulary));
  }
  std::span<const LogitEdit> edits_of(size_t row) const {
    return std::span(edits).subspan(static_cast<size_t>(rows[row].first_edit), static_cast<size_t>(rows[row].edits));
  }
  std::span<const uint32_t> mask_of(size_t row) const {
    if (rows[row].mask < 0) return {};
    const auto words = static_cast<size_t>(mask_words(vocabulary));
    return std::span(masks).subspan(static_cast<size_t>(rows[row].mask) * words, words);
  }
  void add(const std::vector<float>& values, SamplingRow row, const std::vector<LogitEdit>& of_row = {},
           const std::vector<uint32_t>& mask = {}) {
    vocabulary = static_cast<int64_t>(values.size());
    row.first_edit = static_cast<int32_t>(edits.size());
    row.edits = static_cast<int32_t>(of_row.size());
    logits.insert(logits.end(), values.begin(), values.end());
    rows.push_back(row);
    edits.insert(edits.end(), of_row.begin(), of_row.end());
    if (mask.empty()) return;
    rows.back().mask = static_cast<int32_t>(masks.size()) / static_cast<int32_t>(mask_words(vocabulary));
    masks.insert(masks.end(), mask.begin(), mask.end());
  }
};

std::vector<Drawn> run_batch(const Batch& batch) {
  const TestQueue queue(true);
  const auto count = static_cast<int64_t>(batch.rows.size());
  const TestRows logits(ActivationFormat::f32, count, batch.vocabulary, batch.logits);
  const TestArray rows(batch.rows);
  const TestArray edits(batch.edits);
  const TestArray masks(batch.masks);
  const TestArray out(count * static_cast<int64_t>(sizeof(Drawn)));
  const TestArray scratch(sample_scratch_bytes(count, batch.vocabulary));
  const std::vector<std::byte> before = logits.bytes();
  launch_sample(*queue, {logits.view(), rows.as<SamplingRow>(), edits.as<LogitEdit>(), masks.as<uint32_t>(),
                         reinterpret_cast<Drawn*>(out.data()), scratch.data()});
  queue.finish();
  EXPECT_TRUE(before == logits.bytes()) << "the logits changed";
  return out.download<Drawn>();
}

struct Tally {
  int64_t rows = 0;
  int64_t near = 0;  // other tokens where a decision was near its boundary
};

void expect_as_reference(const Batch& batch, Tally& tally) {
  const std::vector<Drawn> out = run_batch(batch);
  for (size_t r = 0; r < batch.rows.size(); ++r) {
    const SamplingRow& row = batch.rows[r];
    Reference reference(batch.logits_of(r), row, batch.edits_of(r), batch.mask_of(r));
    const Drawn expected = reference.sample();
    ++tally.rows;
    ASSERT_EQ(out[r].status, expected.status) << "row " << r << " of " << batch.vocabulary;
    ASSERT_EQ(out[r].culprit, expected.culprit) << "row " << r << " of " << batch.vocabulary;
    if (out[r].id != expected.id) {
      ASSERT_LT(reference.margin(), kSureMargin)
          << "row " << r << " of " << batch.vocabulary << ": " << out[r].id << " for " << expected.id
          << ", temperature " << row.temperature << ", top_k " << row.top_k << ", typical " << row.typical_p
          << ", top_p " << row.top_p << ", min_p " << row.min_p << ", xtc " << row.xtc_probability << " "
          << row.xtc_threshold << " " << row.xtc_uniform << ", uniform " << row.uniform << ", edits " << row.edits;
      ++tally.near;
    } else {
      ASSERT_NEAR(out[r].logprob, expected.logprob, kLogprobTolerance * std::max(1.0F, std::fabs(expected.logprob)));
      if (reference.margin() >= kSureMargin) {
        ASSERT_NEAR(out[r].surprise, expected.surprise, kSurpriseTolerance);
      }
    }
  }
}

using Random = std::mt19937;

float uniform_float(Random& random, float low, float high) {
  return std::uniform_real_distribution<float>(low, high)(random);
}
int32_t uniform_int(Random& random, int32_t low, int32_t high) {
  return std::uniform_int_distribution<int32_t>(low, high)(random);
}

// Distributions: 0 normal, 1 as of a sure model, 2 many ties, 3 few finite, 4 nearly flat, 5 wide, 6 mostly equal.
constexpr int32_t kDistributions = 7;
std::vector<float> random_logits(Random& random, int64_t vocabulary, int32_t distribution) {
  std::normal_distribution<float> normal;
  std::vector<float> logits(static_cast<size_t>(vocabulary));
  for (float& x : logits) x = normal(random) * 3.0F;
  const auto any = [&] { return static_cast<size_t>(uniform_int(random, 0, static_cast<int32_t>(vocabulary) - 1)); };
  switch (distribution) {
    case 1:
      for (int i = 0; i < 20; ++i) logits[any()] = uniform_float(random, 10, 25);
      break;
    case 2:
      for (float& x : logits) x = std::nearbyint(x);
      break;
    case 3: {
      const std::vector<float> all = logits;
      std::fill(logits.begin(), logits.end(), -kInfinity);
      for (int i = 0; i < 30; ++i) {
        const size_t at = any();
        logits[at] = all[at];
      }
      break;
    }
    case 4:
      for (float& x : logits) x *= 1e-3F;
      break;
    case 5:
      for (float& x : logits) x *= 100.0F;
      break;
    case 6:
      for (float& x : logits) x = x > 6.0F ? 0.5F : -0.0F;
      logits[any()] = 0.0F;
      logits[any()] = 1.0F;
      break;
    default:
      break;
  }
  return logits;
}

bool one_in(Random& random, int32_t n) {
  return uniform_int(random, 1, n) == 1;
}

SamplingRow random_row(Random& random) {
  SamplingRow row = kGreedyRow;
  if (one_in(random, 2)) row.repeat = uniform_float(random, 0.5F, 2.0F);
  if (one_in(random, 2)) row.frequency = uniform_float(random, -0.3F, 1.0F);
  if (one_in(random, 2)) row.presence = uniform_float(random, -0.7F, 2.0F);
  if (one_in(random, 12)) return row;
  row.temperature = one_in(random, 3) ? 1.0F : std::exp(uniform_float(random, -4.0F, 2.0F));
  const int32_t kind = uniform_int(random, 0, 9);
  row.top_k = kind < 4 ? uniform_int(random, 1, 64) : kind < 6 ? uniform_int(random, 65, 256) : 0;
  if (kind == 9) row.top_k = uniform_int(random, 257, 3000);
  if (one_in(random, 4)) row.typical_p = uniform_float(random, 0.0F, 1.0F);
  if (one_in(random, 2)) row.top_p = uniform_float(random, 0.0F, 1.0F);
  if (one_in(random, 2)) row.min_p = std::exp(uniform_float(random, -8.0F, 0.0F));
  if (one_in(random, 4)) row.xtc_probability = uniform_float(random, 0.0F, 1.0F);
  row.xtc_threshold = uniform_float(random, 0.01F, 0.6F);
  row.xtc_uniform = uniform_float(random, 0.0F, 1.0F);
  row.uniform = std::uniform_real_distribution<double>()(random);
  if (one_in(random, 6)) {
    row.mirostat = uniform_int(random, 1, 2);
    row.mirostat_mu = uniform_float(random, -1.0F, 14.0F);
  }
  if (one_in(random, 20)) row.uniform = one_in(random, 2) ? 0.0 : std::nextafter(1.0, 0.0);
  return row;
}

// Ascending by token, among them the most likely ones.
std::vector<LogitEdit> random_edits(Random& random, const std::vector<float>& logits, int32_t count) {
  std::map<int32_t, LogitEdit> edits;
  for (int32_t i = 0; i < count; ++i) {
    const bool best = i == 0 && one_in(random, 2);
    const int32_t token = best ? static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin())
                               : uniform_int(random, 0, static_cast<int32_t>(logits.size()) - 1);
    LogitEdit edit{token, 0.0F, 0, 0.0F};
    if (one_in(random, 2)) edit.bias = one_in(random, 6) ? -kInfinity : uniform_float(random, -5, 15);
    if (one_in(random, 2)) edit.count = uniform_int(random, 1, 5);
    if (one_in(random, 4)) edit.dry = one_in(random, 6) ? kInfinity : uniform_float(random, 0.0F, 9.0F);
    edits[token] = edit;
  }
  std::vector<LogitEdit> sorted;
  for (const auto& [token, edit] : edits) sorted.push_back(edit);
  return sorted;
}

// As of a grammar: few tokens, half of them, nearly all, or a run of words.
std::vector<uint32_t> random_mask(Random& random, int64_t vocabulary) {
  std::vector<uint32_t> mask(static_cast<size_t>(mask_words(vocabulary)), 0);
  const int32_t kind = uniform_int(random, 0, 3);
  for (uint32_t& word : mask) {
    if (kind == 1) word = static_cast<uint32_t>(random());
    if (kind == 2) word = ~(one_in(random, 9) ? 1U << uniform_int(random, 0, 31) : 0U);
  }
  const auto last = static_cast<int32_t>(vocabulary) - 1;
  for (int i = 0; i < 20 && kind != 3; ++i) {
    const auto token = static_cast<uint32_t>(uniform_int(random, 0, last));
    mask[token / 32] |= 1U << token % 32;
  }
  if (kind == 3) {
    const auto from = static_cast<size_t>(uniform_int(random, 0, last / 32));
    std::fill(mask.begin() + static_cast<long>(from), mask.end(), ~0U);
  }
  return mask;
}

Batch random_batch(Random& random, int64_t vocabulary, int64_t rows) {
  Batch batch;
  for (int64_t r = 0; r < rows; ++r) {
    const std::vector<float> logits = random_logits(random, vocabulary, uniform_int(random, 0, kDistributions - 1));
    const int32_t most = one_in(random, 4) ? 3000 : 40;
    batch.add(logits, random_row(random),
              random_edits(random, logits, one_in(random, 2) ? uniform_int(random, 1, most) : 0),
              one_in(random, 4) ? random_mask(random, vocabulary) : std::vector<uint32_t>{});
  }
  return batch;
}

TEST(SamplingDevice, GivesTheTokensOfThePlainSampler) {
  Random random(11);
  Tally tally;
  for (int i = 0; i < 20; ++i) {
    for (const int64_t vocabulary : {1, 2, 3, 31, 33, 255, 257, 300, 1000, 4095, 4097, 5003}) {
      expect_as_reference(random_batch(random, vocabulary, 9), tally);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GE(tally.rows, 2000);
  EXPECT_LT(tally.near, tally.rows / 200);
  RecordProperty("near", std::to_string(tally.near));
}

TEST(SamplingDevice, GivesTheTokensOfThePlainSamplerForLargeVocabularies) {
  Random random(12);
  Tally tally;
  for (const int64_t vocabulary : {32000, 49152, 128256, 151936, 151935, 262144, 262145, 400001}) {
    expect_as_reference(random_batch(random, vocabulary, 24), tally);
    if (HasFatalFailure()) return;
  }
  EXPECT_LE(tally.near, 4);
}

TEST(SamplingDevice, GreedyTakesTheLowestIdOfTies) {
  Batch batch;
  for (const size_t at : {size_t{0}, size_t{7}, size_t{4095}, size_t{4096}, size_t{9000}}) {
    std::vector<float> logits(9001, -1.0F);
    logits[at] = 2.0F;
    logits[9000] = 2.0F;
    batch.add(logits, kGreedyRow);
  }
  std::vector<float> zeros(9001, -1.0F);
  zeros[5000] = -0.0F;
  zeros[8000] = 0.0F;
  batch.add(zeros, kGreedyRow);
  batch.add(zeros, kGreedyRow, {{5000, -kInfinity, 0, 0.0F}});
  std::vector<uint32_t> mask(static_cast<size_t>(mask_words(9001)), ~0U);
  mask[5000 / 32] &= ~(1U << 5000 % 32);
  batch.add(zeros, kGreedyRow, {}, mask);
  const std::vector<Drawn> out = run_batch(batch);
  const int32_t expected[] = {0, 7, 4095, 4096, 9000, 5000, 8000, 8000};
  for (size_t r = 0; r < out.size(); ++r) {
    EXPECT_EQ(out[r].status, DrawStatus::ok);
    EXPECT_EQ(out[r].id, expected[r]) << r;
  }
}

// Of equal logits, one a group, the lowest ids are the candidates: by bisection, and by bins where one logit is higher.
TEST(SamplingDevice, TopKTakesTheLowestIdsOfTies) {
  for (const size_t vocabulary : {size_t{3000}, size_t{4096}, size_t{20000}, size_t{100000}}) {
    Batch batch;
    std::vector<int32_t> expected;
    for (const bool with_higher : {false, true}) {
      std::vector<float> logits(vocabulary, -1.0F);
      std::vector<int32_t> ids;
      for (size_t start = 0; start + 32 <= vocabulary; start += 32) {
        const size_t id = start + start / 32 * 7 % 32;
        logits[id] = 2.0F;
        ids.push_back(static_cast<int32_t>(id));
      }
      if (with_higher) logits[static_cast<size_t>(ids[0])] = 9.0F;
      for (const int32_t top_k : {1, 2, 40, 64, 65, 256}) {
        SamplingRow row = kGreedyRow;
        row.temperature = 1.0F;
        row.top_k = top_k;
        row.uniform = std::nextafter(1.0, 0.0);
        if (static_cast<size_t>(top_k) > ids.size()) continue;
        batch.add(logits, row);
        expected.push_back(ids[static_cast<size_t>(top_k) - 1]);
      }
    }
    const std::vector<Drawn> out = run_batch(batch);
    for (size_t r = 0; r < out.size(); ++r) EXPECT_EQ(out[r].id, expected[r]) << vocabulary << " " << r;
  }
}

TEST(SamplingDevice, TellsWhatIsWrongOfARow) {
  SamplingRow drawn = kGreedyRow;
  drawn.temperature = 1.0F;
  drawn.top_k = 40;
  SamplingRow all = drawn;
  all.top_k = 0;
  for (const SamplingRow& row : {kGreedyRow, drawn, all}) {
    Random random(3);
    const std::vector<float> good = random_logits(random, 10001, 0);
    Batch batch;
    std::vector<float> logits = good;
    logits[9999] = kNan;
    logits[5000] = kInfinity;
    batch.add(logits, row);
    std::fill(logits.begin(), logits.end(), kNan);
    batch.add(logits, row);
    std::fill(logits.begin(), logits.end(), -kInfinity);
    batch.add(logits, row);
    std::fill(logits.begin(), logits.end(), 0.25F);
    batch.add(logits, row);
    batch.add(good, row, {{10000, kNan, 0, 0.0F}});
    batch.add(good, row, {{77, kInfinity, 0, 0.0F}});
    std::fill(logits.begin(), logits.end(), -kInfinity);
    logits[6000] = 1.0F;
    batch.add(logits, row, {{6000, -kInfinity, 0, 0.0F}});
    batch.add(logits, row);
    const std::vector<Drawn> out = run_batch(batch);
    const DrawStatus expected[] = {DrawStatus::not_finite, DrawStatus::not_finite, DrawStatus::no_finite,
                                   DrawStatus::all_equal,  DrawStatus::forbidden,  DrawStatus::forbidden,
                                   DrawStatus::forbidden,  DrawStatus::ok};
    for (size_t r = 0; r < out.size(); ++r) EXPECT_EQ(out[r].status, expected[r]) << r;
    EXPECT_EQ(out[0].culprit, 5000);
    EXPECT_EQ(out[1].culprit, 0);
    EXPECT_EQ(out[2].culprit, -1);
    EXPECT_EQ(out[7].id, 6000);
    EXPECT_EQ(out[7].logprob, 0.0F);
    EXPECT_EQ(out[4].id, 0);
  }
}

// Results equal bit for bit, again and alone.
TEST(SamplingDevice, ARowDependsOnNothingButItself) {
  Random random(21);
  const Batch batch = random_batch(random, 40001, 40);
  const std::vector<Drawn> first = run_batch(batch);
  const std::vector<Drawn> second = run_batch(batch);
  ASSERT_EQ(std::memcmp(first.data(), second.data(), first.size() * sizeof(Drawn)), 0);
  for (size_t r = 0; r < batch.rows.size(); r += 3) {
    Batch alone;
    const auto logits = batch.logits_of(r);
    const auto edits = batch.edits_of(r);
    const auto mask = batch.mask_of(r);
    alone.add({logits.begin(), logits.end()}, batch.rows[r], {edits.begin(), edits.end()}, {mask.begin(), mask.end()});
    const std::vector<Drawn> out = run_batch(alone);
    EXPECT_EQ(std::memcmp(out.data(), &first[r], sizeof(Drawn)), 0) << r;
  }
}

// A recorded launch does what the rows, the edits and the logits say when it is replayed.
TEST(SamplingDevice, RecordedOnceItFollowsItsRows) {
  const TestQueue queue(true);
  constexpr int64_t kRows = 12;
  constexpr int64_t kVocabulary = 20003;
  const TestRows logits(ActivationFormat::f32, kRows, kVocabulary);
  const TestArray rows(kRows * static_cast<int64_t>(sizeof(SamplingRow)));
  const TestArray edits(kRows * 4000 * static_cast<int64_t>(sizeof(LogitEdit)));
  const TestArray masks(kRows * mask_words(kVocabulary) * static_cast<int64_t>(sizeof(uint32_t)));
  const TestArray out(kRows * static_cast<int64_t>(sizeof(Drawn)));
  const TestArray scratch(sample_scratch_bytes(kRows, kVocabulary));
  const RecordedWork work(*queue, [&] {
    launch_sample(*queue, {logits.view(), rows.as<SamplingRow>(), edits.as<LogitEdit>(), masks.as<uint32_t>(),
                           reinterpret_cast<Drawn*>(out.data()), scratch.data()});
  });
  Random random(31);
  for (int i = 0; i < 4; ++i) {
    const Batch batch = random_batch(random, kVocabulary, kRows);
    ASSERT_LE(batch.edits.size() * sizeof(LogitEdit), static_cast<size_t>(edits.bytes()));
    const TestRows values(ActivationFormat::f32, kRows, kVocabulary, batch.logits);
    const auto put = [](const TestArray& to, const void* from, int64_t bytes) {
      check_status(cudaMemcpy(to.data(), from, static_cast<size_t>(bytes), cudaMemcpyDefault), "test/put");
    };
    put(logits.array(), values.array().data(), logits.array().bytes());
    put(rows, batch.rows.data(), rows.bytes());
    put(edits, batch.edits.data(), static_cast<int64_t>(batch.edits.size() * sizeof(LogitEdit)));
    put(masks, batch.masks.data(), static_cast<int64_t>(batch.masks.size() * sizeof(uint32_t)));
    check_status(cudaDeviceSynchronize(), "test/put");
    work.replay(*queue);
    queue.finish();
    const std::vector<Drawn> replayed = out.download<Drawn>();
    const std::vector<Drawn> direct = run_batch(batch);
    ASSERT_EQ(std::memcmp(replayed.data(), direct.data(), direct.size() * sizeof(Drawn)), 0) << i;
  }
}

// More rows that sort all their logits than there is memory for at a time.
TEST(SamplingDevice, RowsWaitForMemory) {
  Random random(22);
  Batch batch;
  for (int r = 0; r < 256; ++r) {
    SamplingRow row = kGreedyRow;
    row.temperature = 3.0F;
    row.uniform = std::uniform_real_distribution<double>()(random);
    batch.add(random_logits(random, 2050, 4), row);
  }
  Tally tally;
  expect_as_reference(batch, tally);
  EXPECT_LE(tally.near, 2);
}

// Chi-square of draws from a small vocabulary by a card full of rows.
void expect_distribution(SamplingRow row, const std::vector<double>& probabilities) {
  constexpr int kLaunches = 100;
  constexpr int kRows = 2000;
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  std::vector<double> counts(logits.size());
  std::mt19937_64 random(5);
  for (int launch = 0; launch < kLaunches; ++launch) {
    Batch batch;
    for (int r = 0; r < kRows; ++r) {
      row.uniform = static_cast<double>(random() >> 11) * 0x1.0p-53;
      batch.add(logits, row);
    }
    for (const Drawn& sampled : run_batch(batch)) {
      ASSERT_EQ(sampled.status, DrawStatus::ok);
      counts[static_cast<size_t>(sampled.id)] += 1;
    }
  }
  double chi_square = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = probabilities[i] * kLaunches * kRows;
    chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  // 15 degrees of freedom: beyond 37.7 once in a thousand.
  EXPECT_LT(chi_square, 37.7);
}

TEST(SamplingDevice, DrawsByTheProbabilities) {
  std::vector<double> probabilities;
  for (int i = 0; i < 16; ++i) probabilities.push_back((1.0 + i * 5 % 16) / 136.0);
  SamplingRow row = kGreedyRow;
  row.temperature = 1.0F;
  expect_distribution(row, probabilities);
  row.top_k = 16;
  row.top_p = 0.999999F;
  expect_distribution(row, probabilities);
}

TEST(SamplingDevice, RefusesShapesBeyondItsLimits) {
  const TestQueue queue(false);
  SampleArgs args;
  args.logits = f32_rows(nullptr, 1, kMaxSampledVocabulary + 1);
  EXPECT_THROW(launch_sample(*queue, args), Error);
  args.logits = f32_rows(nullptr, kMaxSampledRows + 1, 100);
  EXPECT_THROW(launch_sample(*queue, args), Error);
  args.logits = f32_rows(nullptr, 0, 100);
  launch_sample(*queue, args);
}

}  // namespace
}  // namespace minfer::cuda
