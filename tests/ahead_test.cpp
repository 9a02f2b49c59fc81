// Steps submitted ahead: on a device that draws and runs as late as it may (late_device.hpp) each request must get, bit
// for bit, what it gets alone on the CPU, which does each step at once: with stop tokens and strings, cancels,
// preemption, shifts, prefixes, sessions, draws that can't be made ahead, and failures of the device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "batcher_runs.hpp"
#include "late_device.hpp"
#include "model/vocab.hpp"
#include "model_runs.hpp"

namespace minfer::test {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<graph::Backend> cpu_device() {
  return device_factories().back().create({1, {}});
}

// A model on the CPU, and on a late device.
struct Pair {
  Pair(const std::string& name, const engine::RunnerOptions& options)
      : model(gguf::File(golden_path("tiny/" + name + ".gguf"))),
        tokenizer(model::read_vocab(model.file())),
        cpu(cpu_device()),
        late(cpu_device()),
        prompt(model, *cpu, options, {}),
        ahead(model, late, options, {}) {}

  Outcome alone(const engine::Request& request) { return run_alone(prompt, tokenizer, request); }

  model::Model model;
  tokenizer::Tokenizer tokenizer;
  std::unique_ptr<graph::Backend> cpu;
  LateDevice late;
  engine::Runner prompt;  // runs each step at once
  engine::Runner ahead;
};

void expect_same(const Outcome& outcome, const Outcome& alone) {
  ASSERT_TRUE(outcome.ended);
  ASSERT_FALSE(outcome.result.error) << outcome.result.error->what();
  if (outcome.result.reason == engine::StopReason::cancelled) {
    ASSERT_LE(outcome.tokens.size(), alone.tokens.size());
    EXPECT_TRUE(std::equal(outcome.tokens.begin(), outcome.tokens.end(), alone.tokens.begin()));
    return;
  }
  EXPECT_EQ(outcome.tokens, alone.tokens);
  EXPECT_EQ(outcome.text, alone.text);
  EXPECT_EQ(outcome.result.reason, alone.result.reason);
  EXPECT_EQ(outcome.result.generated_tokens, alone.result.generated_tokens);
  EXPECT_EQ(outcome.result.shifts, alone.result.shifts);
}

int64_t available_pages(engine::Runner& runner) {
  int64_t pages = 0;
  for (size_t group = 0; group < runner.cache().groups(); ++group) {
    pages += runner.cache().pool(group).available_pages();
  }
  return pages;
}

// What a request may ask for beside random_jobs: endings by text, shifts, and draws that the device can't make ahead or
// not at all.
void vary(std::vector<Job>& jobs, Pair& pair, uint32_t seed) {
  std::mt19937 random(seed);
  const auto one_in = [&](uint32_t n) { return random() % n == 0; };
  for (Job& job : jobs) {
    engine::SamplerParams& sampler = job.request.sampler;
    if (one_in(4)) sampler.repeat_penalty = 1.2F;
    if (one_in(4)) sampler.frequency_penalty = 0.3F, sampler.penalty_last_n = static_cast<int32_t>(random() % 4) - 1;
    if (seed % 2 == 0 && one_in(8)) sampler.dry_multiplier = 0.8F, sampler.dry_allowed_length = 1;
    if (one_in(10)) {
      for (int32_t token = 0; token < 260; ++token) sampler.logit_bias.emplace_back(token, 0.01F);
    }
    if (one_in(4)) job.request.overflow = engine::Overflow::shift, job.request.max_tokens += 300;
    if (!one_in(3)) continue;
    const Outcome alone = pair.alone(job.request);
    if (alone.text.size() > 8) job.request.stops = {alone.text.substr(random() % (alone.text.size() - 4), 3)};
  }
}

class Ahead : public ::testing::TestWithParam<std::string> {};

TEST_P(Ahead, EachRequestGetsTheTokensThatItGetsAlone) {
  int64_t preemptions = 0, shifts = 0, stopped = 0, reused = 0, steps = 0, ahead = 0;
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Pair pair(GetParam(), exact_options(320, 48, 2));
    auto jobs = random_jobs(16, pair.model.config().vocabulary, 130, 180, seed);
    vary(jobs, pair, seed);
    std::vector<Outcome> alone;
    for (const Job& job : jobs) alone.push_back(pair.alone(job.request));
    const int64_t pages = available_pages(pair.ahead);
    // The second time prefixes are found that the first has left.
    for (int round = 0; round < 2; ++round) {
      engine::BatcherStats stats;
      const auto together = run_together(pair.ahead, pair.tokenizer, jobs, stats);
      EXPECT_EQ(available_pages(pair.ahead), pages) << "pages were lost";
      for (size_t i = 0; i < jobs.size(); ++i) {
        SCOPED_TRACE("request " + std::to_string(i));
        expect_same(together[i], alone[i]);
        shifts += together[i].result.shifts;
        stopped += together[i].result.reason == engine::StopReason::stop_string ? 1 : 0;
      }
      reused += stats.reused_tokens;
      preemptions += stats.preemptions;
    }
    steps += pair.late.queue.submitted;
    ahead += pair.late.queue.ahead;
  }
  EXPECT_GT(ahead * 3, steps) << "else most steps ran alone";
  EXPECT_GT(reused, 0);
  EXPECT_GT(preemptions, 0);
  EXPECT_GT(shifts, 0);
  EXPECT_GT(stopped, 0);
}

INSTANTIATE_TEST_SUITE_P(Architectures, Ahead, ::testing::Values("llama", "qwen3", "gemma3"));

class AheadOfOne : public ::testing::Test {
 protected:
  AheadOfOne() : pair_("llama", exact_options(192, 64, 4)), batcher_(pair_.ahead, pair_.tokenizer, {}) {}

  static engine::Request request(int64_t tokens, int32_t first = 3) {
    engine::Request request;
    request.prompt = {first, 7, 11, 13};
    request.max_tokens = tokens;
    request.sampler.temperature = 0;
    request.sampler.logit_bias = {{2, -1000.0F}};  // never an end before max_tokens
    return request;
  }
  void run() {
    while (batcher_.step()) {
    }
  }

  Pair pair_;
  engine::Batcher batcher_;
};

TEST_F(AheadOfOne, AllStepsButTheFirstRunAheadAndNoneIsWasted) {
  Outcome outcome;
  batcher_.submit(request(20), listener_of(outcome));
  EXPECT_TRUE(batcher_.step());
  EXPECT_EQ(outcome.tokens.size(), 1u) << "one token a call";
  EXPECT_EQ(pair_.late.queue.submitted, 2);
  run();
  EXPECT_EQ(outcome.tokens, pair_.alone(request(20)).tokens);
  EXPECT_EQ(pair_.late.queue.submitted, 20) << "that max_tokens ends it is known before";
  EXPECT_EQ(pair_.late.queue.ahead, 19);
  EXPECT_EQ(pair_.ahead.in_flight(), 0);
}

TEST_F(AheadOfOne, APromptJoinsTheNextStepThatIsBuilt) {
  Outcome first, second;
  batcher_.submit(request(20), listener_of(first));
  for (int i = 0; i < 3; ++i) batcher_.step();
  batcher_.submit(request(5, 9), listener_of(second));
  batcher_.step();
  EXPECT_EQ(second.tokens.size(), 0u) << "its prompt is in flight";
  batcher_.step();
  EXPECT_EQ(second.tokens.size(), 1u);
  EXPECT_EQ(first.tokens.size(), 5u) << "and delays nobody";
  run();
  EXPECT_EQ(first.tokens, pair_.alone(request(20)).tokens);
  EXPECT_EQ(second.tokens, pair_.alone(request(5, 9)).tokens);
}

TEST_F(AheadOfOne, ACancelledRequestGivesItsPagesBackAtOnceAndNothingMoreIsHeardOfIt) {
  Outcome outcome;
  const auto id = batcher_.submit(request(-1), listener_of(outcome));
  for (int i = 0; i < 3; ++i) batcher_.step();
  const engine::PagePool& pool = pair_.ahead.cache().pool(0);
  EXPECT_LT(pool.available_pages(), pool.pages());
  batcher_.cancel(id);
  EXPECT_FALSE(batcher_.step());
  EXPECT_TRUE(outcome.ended);
  EXPECT_EQ(outcome.tokens.size(), 3u);
  EXPECT_EQ(pool.available_pages(), pool.pages());
  EXPECT_EQ(pair_.ahead.in_flight(), 0);
}

TEST_F(AheadOfOne, ABatcherLeavesNoStepInFlight) {
  Outcome outcome;
  {
    engine::Batcher batcher(pair_.ahead, pair_.tokenizer, {});
    batcher.submit(request(-1), listener_of(outcome));
    batcher.step();
    EXPECT_EQ(pair_.ahead.in_flight(), 1);
  }
  EXPECT_EQ(pair_.ahead.in_flight(), 0);
}

TEST_F(AheadOfOne, AFailedStepEndsItsRequestsAndNoOthers) {
  for (int64_t LateQueue::* which : {&LateQueue::fail_submit, &LateQueue::fail_wait}) {
    Outcome first, second, third;
    LateQueue& queue = pair_.late.queue;
    queue.*which = queue.submitted + 5;
    batcher_.submit(request(40), listener_of(first));
    for (int i = 0; i < 3; ++i) batcher_.step();
    batcher_.submit(request(40, 9), listener_of(second));
    for (int i = 0; i < 2; ++i) batcher_.step();
    EXPECT_FALSE(first.ended);
    batcher_.submit(request(10, 5), listener_of(third));
    run();
    ASSERT_TRUE(first.result.error && second.result.error);
    EXPECT_THAT(first.result.error->what(), HasSubstr("the device fails"));
    EXPECT_EQ(first.tokens.size(), 5u) << "those of the steps before";
    EXPECT_EQ(second.tokens.size(), 1u);
    EXPECT_TRUE(std::equal(first.tokens.begin(), first.tokens.end(), pair_.alone(request(40)).tokens.begin()));
    ASSERT_FALSE(third.result.error);
    EXPECT_EQ(third.tokens, pair_.alone(request(10, 5)).tokens);
    const engine::PagePool& pool = pair_.ahead.cache().pool(0);
    EXPECT_EQ(pool.available_pages(), pool.pages());
    EXPECT_EQ(pair_.ahead.in_flight(), 0);
  }
}

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The last token runs once more, so that the file has it: in a step that was in flight before it was known to be last.
TEST_F(AheadOfOne, ASessionHoldsTheSame) {
  const auto folder = std::filesystem::temp_directory_path();
  const std::string plain = folder / "minfer-ahead-plain.session", ahead = folder / "minfer-ahead-late.session";
  for (const bool stops : {false, true}) {
    engine::Request asked = request(30);
    if (stops) asked.stops = {pair_.alone(asked).text.substr(5, 3)};
    for (int turn = 0; turn < 2; ++turn) {
      asked.session_path = plain;
      const Outcome expected = pair_.alone(asked);
      asked.session_path = ahead;
      Outcome outcome;
      batcher_.submit(asked, listener_of(outcome));
      run();
      expect_same(outcome, expected);
      EXPECT_FALSE(bytes_of(plain).empty());
      EXPECT_TRUE(bytes_of(plain) == bytes_of(ahead)) << "turn " << turn << ", stops " << stops;
    }
    std::filesystem::remove(plain);
    std::filesystem::remove(ahead);
  }
}

}  // namespace
}  // namespace minfer::test
