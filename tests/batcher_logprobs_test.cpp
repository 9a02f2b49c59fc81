// Log-probabilities of a batcher's tokens: for each token those of the model's own logits there, bit for bit on the
// CPU, whatever samples, speculates or draws; and the text of control tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "batcher_runs.hpp"
#include "engine/logprobs.hpp"
#include "engine/speculation/draft_model_proposer.hpp"
#include "late_device.hpp"
#include "model/vocab.hpp"
#include "model_runs.hpp"

namespace minfer::test {
namespace {

using ::testing::HasSubstr;

struct Told {
  int32_t id;
  float logprob;
  std::vector<std::pair<int32_t, float>> top;
  bool operator==(const Told&) const = default;
};

struct ToldRun {
  std::vector<Told> tokens;
  std::string text;
  engine::Result result;
};

engine::Listener listener_of(ToldRun& run) {
  return {[&](const engine::DrawnToken& token, std::string_view text) {
            run.text += text;
            if (token.id == engine::kNoToken) return;
            Told told{token.id, token.logprob, {}};
            for (const engine::TokenLogprob& likely : token.top) told.top.emplace_back(likely.token, likely.logprob);
            run.tokens.push_back(std::move(told));
          },
          [&](const engine::Result& result) { run.result = result; }};
}

class BatcherLogprobs : public ::testing::Test {
 protected:
  BatcherLogprobs()
      : loaded_(golden_path("tiny/llama.gguf"), "", 1, exact_options(192, 64, 4)),
        tokenizer_(model::read_vocab(loaded_.model.file())) {}

  static engine::Request request(int32_t top, int64_t tokens = 40) {
    engine::Request request;
    for (int32_t i = 0; i < 20; ++i) request.prompt.push_back(3 + i % 5);
    request.max_tokens = tokens;
    request.sampler.temperature = 0;
    request.sampler.logit_bias = {{2, -1000.0F}};
    request.top_logprobs = top;
    return request;
  }

  ToldRun run(engine::Runner& runner, const engine::Request& request, const engine::BatcherOptions& options = {}) {
    engine::Batcher batcher(runner, tokenizer_, options);
    ToldRun run;
    batcher.submit(request, listener_of(run));
    while (batcher.step()) {
    }
    EXPECT_FALSE(run.result.error) << run.result.error->what();
    return run;
  }

  // What the model's own logits say, step by step.
  std::vector<Told> expected(const engine::Request& request, const std::vector<Told>& tokens) {
    engine::Sequence sequence(loaded_.runner.cache());
    std::vector<Told> all;
    std::vector<int32_t> next = request.prompt;
    for (const Told& token : tokens) {
      engine::Logprobs logprobs(request.top_logprobs);
      const auto logits = engine::append(loaded_.runner, sequence, next);
      logprobs.read(logits);
      Told told{token.id, logprobs.of(logits[static_cast<size_t>(token.id)]), {}};
      for (const engine::TokenLogprob& likely : logprobs.top()) told.top.emplace_back(likely.token, likely.logprob);
      all.push_back(std::move(told));
      next = {token.id};
    }
    return all;
  }

  Loaded loaded_;
  tokenizer::Tokenizer tokenizer_;
};

TEST_F(BatcherLogprobs, AreThoseOfTheUneditedLogits) {
  for (const int32_t top : {0, 1, 5, engine::kMostTopLogprobs}) {
    engine::Request greedy = request(top);
    engine::Request sampled = request(top);
    sampled.sampler.temperature = 0.9F;
    sampled.sampler.top_k = 3;
    sampled.sampler.presence_penalty = 0.5F;
    for (const auto& asked : {greedy, sampled}) {
      const ToldRun told = run(loaded_.runner, asked);
      ASSERT_EQ(told.tokens.size(), 40u);
      EXPECT_EQ(told.tokens, expected(asked, told.tokens));
      for (const Told& token : told.tokens) EXPECT_EQ(token.top.size(), static_cast<size_t>(top));
    }
  }
}

TEST_F(BatcherLogprobs, WithoutBeingAskedForAreZero) {
  const ToldRun told = run(loaded_.runner, request(-1));
  ASSERT_EQ(told.tokens.size(), 40u);
  for (const Told& token : told.tokens) {
    EXPECT_EQ(token.logprob, 0.0F);
    EXPECT_TRUE(token.top.empty());
  }
}

TEST_F(BatcherLogprobs, OfAcceptedDraftsAreThoseOfPlainDecoding) {
  engine::Request asked = request(5, 120);
  const ToldRun plain = run(loaded_.runner, asked);
  Loaded draft(golden_path("tiny/llama.gguf"), "", 1, exact_options(192, 64));
  engine::BatcherOptions options;
  options.draft_depth = 5;
  options.make_proposer = [&](const engine::Request& r) {
    return std::make_unique<engine::DraftModelProposer>(draft.runner, r.sampler, engine::Guess::likeliest);
  };
  const ToldRun drafted = run(loaded_.runner, asked, options);
  EXPECT_GT(drafted.result.accepted_tokens, 90);
  EXPECT_EQ(drafted.tokens, plain.tokens);
}

TEST_F(BatcherLogprobs, OfADeviceThatDrawsAreTheSame) {
  LateDevice late(device_factories().back().create({1, {}}));
  engine::Runner ahead(loaded_.model, late, exact_options(192, 64, 4), {});
  for (const int32_t top : {0, 5}) {
    late.queue.ahead = 0;
    const ToldRun told = run(ahead, request(top));
    EXPECT_EQ(told.tokens, run(loaded_.runner, request(top)).tokens);
    EXPECT_GT(late.queue.ahead, 30) << "the device finds the likeliest as well";
  }
}

TEST_F(BatcherLogprobs, BeyondTheirRangeAreRefused) {
  engine::Batcher batcher(loaded_.runner, tokenizer_, {});
  for (const int32_t top : {-2, engine::kMostTopLogprobs + 1}) {
    try {
      batcher.submit(request(top), {});
      FAIL() << top;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_input);
      EXPECT_EQ(std::string(error.what()), fmt::format("top_logprobs is {}; expected 0 to 20, or -1", top));
    }
  }
}

TEST_F(BatcherLogprobs, ControlTokensHaveTextWhereItIsAskedFor) {
  // Nothing but the control token <s>, then the end.
  engine::Request asked = request(-1, 3);
  asked.sampler.logit_bias = {{1, 1000.0F}};
  EXPECT_EQ(run(loaded_.runner, asked).text, "");
  asked.show_control = true;
  EXPECT_EQ(run(loaded_.runner, asked).text, "<s><s><s>");
  asked.sampler.logit_bias = {{2, 1000.0F}};
  const ToldRun ended = run(loaded_.runner, asked);
  EXPECT_EQ(ended.text, "") << "not that of the end";
  EXPECT_EQ(ended.result.reason, engine::StopReason::end_of_generation);
}

}  // namespace
}  // namespace minfer::test
