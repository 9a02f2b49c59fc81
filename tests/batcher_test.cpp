// Many requests at once: each must get, bit for bit, the tokens that it gets alone, whatever else runs; and the
// policies of queue, pages, preemption and prefixes by value.
#include "engine/batcher.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <new>
#include <random>

#include "batcher_runs.hpp"
#include "engine/speculation/draft_model_proposer.hpp"
#include "engine/speculation/ngram_proposer.hpp"
#include "model/vocab.hpp"
#include "model_runs.hpp"

namespace minfer::test {
namespace {

using ::testing::HasSubstr;

int64_t total_available(engine::Runner& runner) {
  int64_t pages = 0;
  for (size_t group = 0; group < runner.cache().groups(); ++group)
    pages += runner.cache().pool(group).available_pages();
  return pages;
}

void expect_identity(engine::Runner& runner, const model::Model& model, const std::vector<Job>& jobs,
                     engine::BatcherStats& stats) {
  const tokenizer::Tokenizer tokenizer(model::read_vocab(model.file()));
  const int64_t pages = total_available(runner);
  const std::vector<Outcome> together = run_together(runner, tokenizer, jobs, stats);
  EXPECT_EQ(total_available(runner), pages) << "pages were lost";
  for (size_t i = 0; i < jobs.size(); ++i) {
    const Outcome alone = run_alone(runner, tokenizer, jobs[i].request);
    ASSERT_TRUE(together[i].ended) << "request " << i;
    ASSERT_FALSE(together[i].result.error) << together[i].result.error->what();
    if (together[i].result.reason == engine::StopReason::cancelled) {
      ASSERT_LE(together[i].tokens.size(), alone.tokens.size());
      EXPECT_TRUE(std::equal(together[i].tokens.begin(), together[i].tokens.end(), alone.tokens.begin())) << i;
      continue;
    }
    EXPECT_EQ(together[i].tokens, alone.tokens) << "request " << i;
    EXPECT_EQ(together[i].text, alone.text) << "request " << i;
    EXPECT_EQ(together[i].result.reason, alone.result.reason) << "request " << i;
  }
}

// --- identity ---

class BatchIdentity : public ::testing::TestWithParam<std::string> {};

TEST_P(BatchIdentity, EachRequestGetsTheTokensThatItGetsAlone) {
  for (const std::string& isa : available_isas()) {
    int64_t preemptions = 0, reused = 0;
    for (uint32_t seed = 1; seed <= 3; ++seed) {
      SCOPED_TRACE(isa + " seed " + std::to_string(seed));
      // Two contexts' worth of pages for sixteen requests: some are preempted.
      engine::RunnerOptions options = exact_options(320, 48, 2);
      if (seed == 2) options.key_format = options.value_format = graph::KvFormat::f16;
      Loaded loaded(golden_path("tiny/" + GetParam() + ".gguf"), isa, 1, options);
      const auto jobs = random_jobs(16, loaded.model.config().vocabulary, 130, 180, seed);
      engine::BatcherStats stats;
      expect_identity(loaded.runner, loaded.model, jobs, stats);
      preemptions += stats.preemptions;
      reused += stats.reused_tokens;
    }
    EXPECT_GT(preemptions, 0) << isa;
    // Where layers have a window, a prefix is found again only while its last pages are there: not with every seed.
    EXPECT_GT(reused, 0) << isa;
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, BatchIdentity,
                         ::testing::Values("llama", "qwen2", "qwen3", "qwen2moe", "qwen3moe", "gemma3", "gpt_oss",
                                           "gemma2", "phi3", "starcoder2", "stablelm_parallel", "cohere2"));

TEST(BatchIdentityOfARealModel, Smollm2) {
  const std::string path = model_path("smollm2-135m");
  if (is_absent(path)) GTEST_SKIP() << path << " is absent";
  engine::RunnerOptions options;
  options.context_tokens = 256;
  options.batch_tokens = 128;
  options.sequences = 2;
  Loaded loaded(path, "", 0, options);
  engine::BatcherStats stats;
  expect_identity(loaded.runner, loaded.model, random_jobs(16, 49152, 130, 100, 7), stats);
  EXPECT_GT(stats.preemptions, 0);
  EXPECT_GT(stats.reused_tokens, 0);
}

// --- policies ---

class Policies : public ::testing::Test {
 protected:
  explicit Policies(int64_t sequences = 2)
      : loaded_(golden_path("tiny/llama.gguf"), "", 1, exact_options(192, 128, sequences)),
        tokenizer_(model::read_vocab(loaded_.model.file())) {}

  static engine::Request request(int64_t prompt, int64_t tokens, int32_t first = 3) {
    engine::Request request;
    for (int64_t i = 0; i < prompt; ++i) request.prompt.push_back(first + static_cast<int32_t>(i % 200));
    request.max_tokens = tokens;
    request.sampler.temperature = 0;
    // Never an end before max_tokens.
    request.sampler.logit_bias = {{2, -1000.0F}};
    return request;
  }

  Loaded loaded_;
  tokenizer::Tokenizer tokenizer_;
};

TEST_F(Policies, ALongPromptDelaysAStreamByNoStep) {
  engine::Batcher batcher(loaded_.runner, tokenizer_, {});
  Outcome stream, prompt;
  batcher.submit(request(4, 30), listener_of(stream));
  batcher.step();
  ASSERT_EQ(stream.tokens.size(), 1u);
  batcher.submit(request(190, 1, 9), listener_of(prompt));
  for (size_t step = 2; !prompt.ended; ++step) {
    batcher.step();
    EXPECT_EQ(stream.tokens.size(), step) << "one token a step";
  }
  EXPECT_EQ(batcher.stats().steps, 3) << "127 rows of the prompt go beside the stream's one";
}

TEST_F(Policies, AShortPromptDoesNotWaitForALongOne) {
  engine::Batcher batcher(loaded_.runner, tokenizer_, {});
  Outcome longer, shorter;
  batcher.submit(request(190, 1), listener_of(longer));
  batcher.submit(request(20, 1, 9), listener_of(shorter));
  batcher.step();
  EXPECT_TRUE(shorter.ended);
  EXPECT_FALSE(longer.ended);
  batcher.step();
  EXPECT_TRUE(longer.ended);
}

TEST_F(Policies, AFullQueueRefusesAndSaysSo) {
  engine::BatcherOptions options;
  options.max_running = 1;
  options.max_waiting = 2;
  engine::Batcher batcher(loaded_.runner, tokenizer_, options);
  Outcome outcomes[4];
  batcher.submit(request(4, 50), listener_of(outcomes[0]));
  batcher.step();
  batcher.submit(request(4, 1), listener_of(outcomes[1]));
  batcher.submit(request(4, 1), listener_of(outcomes[2]));
  try {
    batcher.submit(request(4, 1), listener_of(outcomes[3]));
    FAIL() << "a third waiting request was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::busy);
    EXPECT_THAT(error.what(), HasSubstr("2 requests wait and 1 run"));
  }
  while (batcher.step()) {
  }
  EXPECT_TRUE(outcomes[0].ended && outcomes[1].ended && outcomes[2].ended);
}

// A file that is no session: its request fails where it would start.
std::string broken_session() {
  const std::string path = ::testing::TempDir() + "minfer_batcher_broken.kv";
  std::ofstream(path) << "nothing";
  return path;
}

TEST_F(Policies, ARequestThatFailsAtItsStartHoldsNobodyUp) {
  for (const int64_t most_running : {int64_t{1}, int64_t{64}}) {
    engine::BatcherOptions options;
    options.max_running = most_running;
    engine::Batcher batcher(loaded_.runner, tokenizer_, options);
    Outcome bad[2], good;
    engine::Request broken = request(190, 3);
    broken.session_path = broken_session();
    for (Outcome& outcome : bad) batcher.submit(broken, listener_of(outcome));
    batcher.submit(request(100, 3), listener_of(good));
    EXPECT_TRUE(batcher.step());
    EXPECT_TRUE(bad[0].ended && bad[1].ended);
    EXPECT_EQ(good.tokens.size(), 1u) << "it ran in the same step";
    while (batcher.step()) {
    }
    EXPECT_EQ(good.tokens.size(), 3u);
  }
}

TEST_F(Policies, AdmissionCountsWhatRunningPromptsWillStillTake) {
  engine::Batcher batcher(loaded_.runner, tokenizer_, {});
  Outcome outcomes[3];
  batcher.submit(request(190, 2), listener_of(outcomes[0]));
  batcher.submit(request(100, 2, 9), listener_of(outcomes[1]));
  batcher.submit(request(120, 2, 17), listener_of(outcomes[2]));
  batcher.step();
  EXPECT_EQ(batcher.stats().waiting, 1) << "3 and 2 of 6 pages are spoken for, the third needs 2";
  while (batcher.step()) {
  }
  EXPECT_EQ(batcher.stats().preemptions, 0);
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.tokens.size(), 2u);
}

TEST_F(Policies, ARequestWithASessionWaitsForThePagesOfItsFile) {
  const std::string path = ::testing::TempDir() + "minfer_batcher_waits.kv";
  std::filesystem::remove(path);
  engine::Batcher batcher(loaded_.runner, tokenizer_, {});
  Outcome first, others[2], second;
  engine::Request early = request(150, 3);
  early.session_path = path;
  batcher.submit(early, listener_of(first));
  while (batcher.step()) {
  }
  ASSERT_FALSE(first.result.error);
  batcher.submit(request(180, 8), listener_of(others[0]));
  batcher.submit(request(100, 8, 9), listener_of(others[1]));
  batcher.step();
  engine::Request late = request(4, 3);
  late.session_path = path;
  batcher.submit(late, listener_of(second));
  batcher.step();
  EXPECT_EQ(batcher.stats().waiting, 1) << "one page is free, and the session's 153 tokens need 3";
  while (batcher.step()) {
  }
  EXPECT_FALSE(second.result.error) << second.result.error->what();
  EXPECT_EQ(second.tokens.size(), 3u);
  EXPECT_EQ(batcher.stats().preemptions, 0);
}

TEST_F(Policies, EachRequestEndsOnceWhateverAListenerThrows) {
  engine::Batcher batcher(loaded_.runner, tokenizer_, {});
  int ends[3] = {};
  const auto throws = [](const engine::DrawnToken&, std::string_view) { throw std::bad_alloc(); };
  batcher.submit(request(4, 1), {{}, [&](const engine::Result&) { ++ends[0]; }});
  batcher.submit(request(4, 1), {throws, [&](const engine::Result&) { ++ends[1]; }});
  batcher.submit(request(4, 1), {{}, [&](const engine::Result&) {
                                   ++ends[2];
                                   throw std::bad_alloc();
                                 }});
  EXPECT_THROW(batcher.step(), std::bad_alloc);
  EXPECT_NO_THROW(batcher.fail_all({ErrorCode::out_of_memory, "memory is used up"}));
  EXPECT_THAT(ends, ::testing::ElementsAre(1, 1, 1));
  EXPECT_FALSE(batcher.step());
}

TEST_F(Policies, APreemptedRequestThatIsCancelledSavesAllOfItsTokens) {
  const std::string path = ::testing::TempDir() + "minfer_batcher_preempted.kv";
  std::filesystem::remove(path);
  engine::Batcher batcher(loaded_.runner, tokenizer_, {});
  Outcome outcomes[3];
  batcher.submit(request(100, 80), listener_of(outcomes[0]));
  batcher.submit(request(100, 80, 5), listener_of(outcomes[1]));
  engine::Request last = request(126, 60, 9);
  last.session_path = path;
  const auto id = batcher.submit(last, listener_of(outcomes[2]));
  while (batcher.stats().preemptions == 0) ASSERT_TRUE(batcher.step());
  batcher.cancel(id);
  while (batcher.step()) {
  }
  ASSERT_EQ(outcomes[2].result.reason, engine::StopReason::cancelled);
  const size_t shown = outcomes[2].tokens.size();
  ASSERT_GT(shown, 0u);
  Outcome again;
  engine::Request next = request(3, 5);
  next.session_path = path;
  batcher.submit(next, listener_of(again));
  while (batcher.step()) {
  }
  EXPECT_EQ(again.result.session_tokens, static_cast<int64_t>(126 + shown));
  engine::Request whole = request(126, 5, 9);
  whole.prompt.insert(whole.prompt.end(), outcomes[2].tokens.begin(), outcomes[2].tokens.end());
  whole.prompt.insert(whole.prompt.end(), next.prompt.begin(), next.prompt.end());
  EXPECT_EQ(again.tokens, run_alone(loaded_.runner, tokenizer_, whole).tokens);
}

TEST_F(Policies, APrefixIsFoundAgainAndTheOutputIsTheSame) {
  engine::Batcher batcher(loaded_.runner, tokenizer_, {});
  Outcome first, second;
  batcher.submit(request(150, 20), listener_of(first));
  while (batcher.step()) {
  }
  batcher.submit(request(150, 20), listener_of(second));
  while (batcher.step()) {
  }
  EXPECT_EQ(first.result.reused_tokens, 0);
  EXPECT_EQ(second.result.reused_tokens, 128) << "two full pages of 150 tokens";
  EXPECT_EQ(second.tokens, first.tokens);
  ASSERT_EQ(first.tokens.size(), 20u);
}

TEST_F(Policies, AShiftKeepsTheStartAndGoesOn) {
  engine::Batcher batcher(loaded_.runner, tokenizer_, {});
  Outcome outcome;
  engine::Request long_request = request(100, 300);
  long_request.overflow = engine::Overflow::shift;
  long_request.keep_tokens = 10;
  batcher.submit(long_request, listener_of(outcome));
  while (batcher.step()) {
  }
  ASSERT_FALSE(outcome.result.error) << outcome.result.error->what();
  EXPECT_EQ(outcome.result.reason, engine::StopReason::max_tokens);
  EXPECT_EQ(outcome.tokens.size(), 300u);
  // 192 tokens, of which 182 may go: 64 are dropped each time, after token 92, 156, 220 and 284.
  EXPECT_EQ(outcome.result.shifts, 4);
  // Before the first shift it is what a run that stops gives.
  Outcome stopping;
  batcher.submit(request(100, 300), listener_of(stopping));
  while (batcher.step()) {
  }
  EXPECT_EQ(stopping.result.reason, engine::StopReason::context_full);
  ASSERT_EQ(stopping.tokens.size(), 93u);
  EXPECT_TRUE(std::equal(stopping.tokens.begin(), stopping.tokens.end(), outcome.tokens.begin()));
}

// tests/golden/tiny/gemma3.gguf with another window: its own of 16 is below a page, and then nothing is given up early.
std::string gemma3_with_window(uint32_t window) {
  std::ifstream in(golden_path("tiny/gemma3.gguf"), std::ios::binary);
  std::vector<char> bytes(std::istreambuf_iterator<char>(in), {});
  std::string key = "gemma3.attention.sliding_window";
  key.append({4, 0, 0, 0});  // a u32
  const auto at = std::search(bytes.begin(), bytes.end(), key.begin(), key.end());
  EXPECT_NE(at, bytes.end());
  std::memcpy(&*at + key.size(), &window, sizeof(window));
  const std::string path = ::testing::TempDir() + "gemma3_window_" + std::to_string(window) + ".gguf";
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return path;
}

// What a run with `keep` kept gives in a context, or why it is refused.
Outcome run_shifting(const std::string& path, int64_t context, int64_t keep) {
  Loaded loaded(path, "", 1, exact_options(context, 128));
  const tokenizer::Tokenizer tokenizer(model::read_vocab(loaded.model.file()));
  engine::Request request;
  for (int32_t i = 0; i < std::max<int32_t>(20, static_cast<int32_t>(keep)); ++i) request.prompt.push_back(3 + i % 200);
  request.max_tokens = 2 * context;
  request.sampler.temperature = 0;
  request.sampler.logit_bias = {{1, -1000.0F}};
  request.overflow = engine::Overflow::shift;
  request.keep_tokens = keep;
  try {
    return run_alone(loaded.runner, tokenizer, request);
  } catch (const Error& error) {
    Outcome refused;
    refused.result.error = error;
    return refused;
  }
}

TEST(Shifts, OfLayersWithAWindowWhereverTheContextEnds) {
  const std::string path = gemma3_with_window(100);
  for (const int64_t context : {120, 163, 164, 165, 180, 197, 256, 292}) {
    for (const int64_t keep : {0, 4, 33}) {
      const Outcome outcome = run_shifting(path, context, keep);
      ASSERT_FALSE(outcome.result.error) << context << ' ' << keep << ": " << outcome.result.error->what();
      EXPECT_EQ(static_cast<int64_t>(outcome.tokens.size()), 2 * context);
      EXPECT_GE(outcome.result.shifts, 2);
    }
  }
}

TEST(Shifts, ThatAWindowLeavesNoRoomForAreRefusedAtOnce) {
  const std::string path = gemma3_with_window(100);
  const Outcome refused = run_shifting(path, 164, 34);
  ASSERT_TRUE(refused.result.error);
  EXPECT_EQ(refused.result.error->code(), ErrorCode::invalid_input);
  EXPECT_STREQ(refused.result.error->what(),
               "a context of 164 tokens of which 34 are kept leaves too little to shift behind a window of 100; keep "
               "at most 33, or take a context of at least 165");
  for (const auto& [context, keep] : {std::pair<int64_t, int64_t>{164, 33}, {165, 34}}) {
    const Outcome outcome = run_shifting(path, context, keep);
    EXPECT_FALSE(outcome.result.error) << outcome.result.error->what();
  }
}

// The draft model's cache follows the shifted text: drafts go on, and the tokens are those of plain decoding.
TEST_F(Policies, DraftsGoOnAfterAShift) {
  Loaded draft(golden_path("tiny/llama.gguf"), "", 1, exact_options(192, 128));
  engine::Request shifting = request(100, 600);
  shifting.overflow = engine::Overflow::shift;
  shifting.keep_tokens = 10;
  shifting.sampler.presence_penalty = 0.5F;
  shifting.sampler.penalty_last_n = -1;
  const Outcome plain = run_alone(loaded_.runner, tokenizer_, shifting);
  EXPECT_EQ(plain.result.shifts, 8);
  for (const bool by_model : {true, false}) {
    engine::BatcherOptions options;
    options.draft_depth = 4;
    options.make_proposer = [&](const engine::Request& r) -> std::unique_ptr<engine::Proposer> {
      if (!by_model) return std::make_unique<engine::NgramProposer>();
      return std::make_unique<engine::DraftModelProposer>(draft.runner, r.sampler, engine::Guess::likeliest);
    };
    engine::Batcher batcher(loaded_.runner, tokenizer_, options);
    Outcome outcome;
    batcher.submit(shifting, listener_of(outcome));
    while (batcher.step()) {
    }
    EXPECT_EQ(outcome.tokens, plain.tokens);
    EXPECT_EQ(outcome.result.shifts, 8);
    EXPECT_GT(outcome.result.drafted_tokens, by_model ? 500 : 0);
  }
}

TEST_F(Policies, CancelledRequestsGiveTheirPagesBackAtTheNextStep) {
  engine::Batcher batcher(loaded_.runner, tokenizer_, {});
  Outcome running, waiting;
  const engine::PagePool& pool = loaded_.runner.cache().pool(0);
  const auto id = batcher.submit(request(150, 40), listener_of(running));
  batcher.step();
  EXPECT_LT(pool.available_pages(), pool.pages());
  batcher.cancel(id);
  batcher.step();
  EXPECT_EQ(pool.available_pages(), pool.pages());
  EXPECT_EQ(running.result.reason, engine::StopReason::cancelled);
  batcher.cancel(batcher.submit(request(4, 4), listener_of(waiting)));
  batcher.step();
  EXPECT_EQ(waiting.result.reason, engine::StopReason::cancelled);
  EXPECT_TRUE(waiting.tokens.empty());
}

TEST_F(Policies, BadRequestsAreRefusedAtOnce) {
  engine::Batcher batcher(loaded_.runner, tokenizer_, {});
  const auto error = [&](engine::Request request) {
    try {
      batcher.submit(std::move(request), {});
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(error(request(0, 1)), HasSubstr("the prompt is empty"));
  EXPECT_THAT(error(request(193, 1)), HasSubstr("the prompt has 193 tokens, the context 192"));
  engine::Request bad = request(4, 1);
  bad.prompt[2] = 288;
  EXPECT_THAT(error(bad), HasSubstr("token id 288 is not in the vocabulary"));
  bad = request(4, 1);
  bad.keep_tokens = 5;
  EXPECT_THAT(error(bad), HasSubstr("keep_tokens is 5; expected 0 to the prompt's 4 tokens"));
  bad = request(4, -2);
  EXPECT_THAT(error(bad), HasSubstr("max_tokens is -2"));
  EXPECT_FALSE(batcher.step()) << "nothing of these is left";
}

}  // namespace
}  // namespace minfer::test
