// Prompts that begin alike, also those that come at the same time: what they share is computed once, each gets the
// tokens that it gets alone, and the results say what was found.
#include <gtest/gtest.h>

#include "batcher_runs.hpp"
#include "late_device.hpp"
#include "model/vocab.hpp"
#include "model_runs.hpp"

namespace minfer::test {
namespace {

class Prefixes : public ::testing::TestWithParam<std::string> {
 protected:
  Prefixes()
      : loaded_(golden_path("tiny/" + GetParam() + ".gguf"), "", 1, exact_options(320, 128, 8)),
        tokenizer_(model::read_vocab(loaded_.model.file())) {}

  // Prompts are equal up to `shared`.
  engine::Request request(int64_t prompt, int64_t tokens, int64_t shared = 1000, int32_t after = 0) const {
    engine::Request request;
    for (int64_t i = 0; i < prompt; ++i) {
      request.prompt.push_back(3 + static_cast<int32_t>((i * 7 + (i < shared ? 0 : after)) % 200));
    }
    request.max_tokens = tokens;
    request.sampler.temperature = 0;
    for (int32_t token = 0; token < loaded_.model.config().vocabulary; ++token) {
      if (tokenizer_.vocab().is_end_of_generation(token)) request.sampler.logit_bias.emplace_back(token, -1000.0F);
    }
    return request;
  }
  void expect_alone(const Outcome& outcome, const engine::Request& request) {
    ASSERT_TRUE(outcome.ended);
    ASSERT_FALSE(outcome.result.error) << outcome.result.error->what();
    EXPECT_EQ(outcome.tokens, run_alone(loaded_.runner, tokenizer_, request).tokens);
  }

  Loaded loaded_;
  tokenizer::Tokenizer tokenizer_;
};

TEST_P(Prefixes, OfPromptsThatComeTogetherAreComputedOnce) {
  engine::Batcher batcher(loaded_.runner, tokenizer_, {});
  std::vector<Outcome> outcomes(6);
  for (size_t i = 0; i < 6; ++i) batcher.submit(request(300, 4), listener_of(outcomes[i]));
  while (batcher.step()) {
  }
  for (size_t i = 0; i < 6; ++i) {
    expect_alone(outcomes[i], request(300, 4));
    EXPECT_EQ(outcomes[i].result.reused_tokens, i == 0 ? 0 : 256);
    EXPECT_EQ(outcomes[i].result.prompt_tokens, 300);
  }
  EXPECT_EQ(batcher.stats().rows, 300 + 5 * 44 + 6 * 3);
  EXPECT_EQ(batcher.stats().reused_tokens, 5 * 256);
}

// A prefix of two pages that is there, a third that is shared by two, and ends of their own.
TEST_P(Prefixes, AreFoundBeforeAndMeanwhile) {
  engine::Batcher batcher(loaded_.runner, tokenizer_, {});
  Outcome first, second, third, fourth;
  batcher.submit(request(150, 2), listener_of(first));
  while (batcher.step()) {
  }
  batcher.submit(request(230, 5, 128, 11), listener_of(second));
  batcher.submit(request(250, 5, 128, 11), listener_of(third));
  batcher.submit(request(140, 5, 100, 12), listener_of(fourth));
  while (batcher.step()) {
  }
  expect_alone(second, request(230, 5, 128, 11));
  expect_alone(third, request(250, 5, 128, 11));
  expect_alone(fourth, request(140, 5, 100, 12));
  EXPECT_EQ(second.result.reused_tokens, 128);
  EXPECT_EQ(third.result.reused_tokens, 192);
  EXPECT_EQ(fourth.result.reused_tokens, 64);
}

TEST_P(Prefixes, OfAPromptThatEndsEarlyAreComputedByTheNext) {
  engine::Batcher batcher(loaded_.runner, tokenizer_, {});
  std::vector<Outcome> outcomes(3);
  std::vector<engine::RequestId> ids;
  for (Outcome& outcome : outcomes) ids.push_back(batcher.submit(request(300, 4), listener_of(outcome)));
  batcher.step();  // 128 rows of the first
  batcher.cancel(ids[0]);
  while (batcher.step()) {
  }
  EXPECT_EQ(outcomes[0].result.reason, engine::StopReason::cancelled);
  expect_alone(outcomes[1], request(300, 4));
  expect_alone(outcomes[2], request(300, 4));
  EXPECT_EQ(outcomes[1].result.reused_tokens, 128);
  EXPECT_EQ(outcomes[2].result.reused_tokens, 256);
  EXPECT_EQ(batcher.stats().rows, 128 + 172 + 44 + 2 * 3);
}

TEST_P(Prefixes, AreSharedByStepsAhead) {
  LateDevice late(device_factories().back().create({1, {}}));
  engine::Runner ahead(loaded_.model, late, exact_options(320, 128, 8), {});
  engine::Batcher batcher(ahead, tokenizer_, {});
  std::vector<Outcome> outcomes(4);
  for (Outcome& outcome : outcomes) batcher.submit(request(300, 20), listener_of(outcome));
  while (batcher.step()) {
  }
  for (size_t i = 0; i < 4; ++i) {
    expect_alone(outcomes[i], request(300, 20));
    EXPECT_EQ(outcomes[i].result.reused_tokens, i == 0 ? 0 : 256);
  }
  EXPECT_GT(late.queue.ahead, 10);
}

INSTANTIATE_TEST_SUITE_P(Architectures, Prefixes, ::testing::Values("llama", "gemma3"));

engine::Request counting(int64_t prompt, int64_t tokens, int32_t first) {
  engine::Request request;
  for (int64_t i = 0; i < prompt; ++i) request.prompt.push_back(first + static_cast<int32_t>(i % 100));
  request.max_tokens = tokens;
  request.sampler.temperature = 0;
  request.sampler.logit_bias = {{2, -1000.0F}};
  return request;
}

// Its own pages, found again, are nothing that was there before.
TEST(PrefixesOfResults, PreemptionLeavesTheReusedTokensAsTheyWere) {
  Loaded loaded(golden_path("tiny/llama.gguf"), "", 1, exact_options(192, 128, 2));
  const tokenizer::Tokenizer tokenizer(model::read_vocab(loaded.model.file()));
  engine::Batcher batcher(loaded.runner, tokenizer, {});
  std::vector<Outcome> outcomes(4);
  batcher.submit(counting(100, 1, 9), listener_of(outcomes[3]));
  while (batcher.step()) {
  }
  batcher.submit(counting(100, 80, 3), listener_of(outcomes[0]));
  batcher.submit(counting(100, 80, 5), listener_of(outcomes[1]));
  batcher.submit(counting(126, 60, 9), listener_of(outcomes[2]));
  while (batcher.step()) {
  }
  EXPECT_EQ(outcomes[2].result.preemptions, 1);
  EXPECT_EQ(outcomes[2].result.reused_tokens, 64);
  EXPECT_EQ(outcomes[0].result.reused_tokens, 0);
  EXPECT_GE(batcher.stats().reused_tokens, 64);
}

TEST(PrefixesOfResults, ARequestThatEndsInTheQueueSaysHowLongItWaited) {
  Loaded loaded(golden_path("tiny/llama.gguf"), "", 1, exact_options(192, 128, 2));
  const tokenizer::Tokenizer tokenizer(model::read_vocab(loaded.model.file()));
  engine::Batcher batcher(loaded.runner, tokenizer, {});
  Outcome outcome;
  engine::Request request;
  request.prompt = {3, 4, 5};
  batcher.cancel(batcher.submit(request, listener_of(outcome)));
  batcher.step();
  EXPECT_GT(outcome.result.queue_seconds, 0);
  EXPECT_EQ(outcome.result.prompt_seconds, 0);
  EXPECT_EQ(outcome.result.prompt_tokens, 3);
}

}  // namespace
}  // namespace minfer::test
