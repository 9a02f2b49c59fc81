// Log-probabilities and embeddings of whole models on a CUDA card against the CPU's scalar kernels on the same file.
// Needs a card: part of scripts/gpu-gate.
#include <gtest/gtest.h>

#include <cmath>

#include "batcher_runs.hpp"
#include "cuda_model_runs.hpp"
#include "engine/logprobs.hpp"
#include "model/vocab.hpp"

namespace minfer::test {
namespace {

constexpr double kExact = 1e-4;  // steps of at most 8 rows: f32
constexpr double kTf32 = 1e-2;   // beyond
constexpr double kNear = 2e-3;   // of log-probabilities, absolute

struct Told {
  int32_t id;
  float logprob;
  std::vector<graph::TokenLogprob> top;
};

class CudaProbs : public ::testing::TestWithParam<std::string> {
 protected:
  CudaProbs()
      : model_(gguf::File(golden_path("tiny/" + GetParam() + ".gguf"))),
        tokenizer_(model::read_vocab(model_.file())),
        cpu_(cpu_factory(), {1, "scalar"}),
        exact_(model_, cpu_.preferred(), exact_options(kContext, 8, 8), {}) {}

  static std::vector<int32_t> some_prompt(int32_t kind, int64_t tokens) {
    std::vector<int32_t> prompt;
    for (int64_t i = 0; i < tokens; ++i) prompt.push_back(3 + static_cast<int32_t>((i * 11 + kind * 5) % 200));
    return prompt;
  }

  model::Model model_;
  tokenizer::Tokenizer tokenizer_;
  graph::Registry cpu_;
  engine::Runner exact_;
};

TEST_P(CudaProbs, OfDrawnTokensAreNearThoseOfTheCpu) {
  engine::Runner runner(model_, card(), exact_options(kContext, 8, 8), {});
  engine::Batcher batcher(runner, tokenizer_, {});
  constexpr int32_t kTops[] = {5, 0, -1, engine::kMostTopLogprobs};
  std::vector<std::vector<Told>> told(4);
  std::vector<engine::Request> requests(4);
  for (size_t i = 0; i < 4; ++i) {
    requests[i].prompt = some_prompt(static_cast<int32_t>(i), 12);
    requests[i].max_tokens = 20;
    requests[i].top_logprobs = kTops[i];
    requests[i].sampler.temperature = i % 2 == 0 ? 0.0F : 0.8F;
    requests[i].sampler.presence_penalty = 0.5F;
    batcher.submit(requests[i], {[&told, i](const engine::DrawnToken& token, std::string_view) {
                                   if (token.id == engine::kNoToken) return;
                                   told[i].push_back({token.id, token.logprob, {token.top.begin(), token.top.end()}});
                                 },
                                 {}});
  }
  while (batcher.step()) {
  }
  for (size_t i = 0; i < 4; ++i) {
    SCOPED_TRACE(i);
    ASSERT_FALSE(told[i].empty());
    engine::Sequence sequence(exact_.cache());
    engine::Logprobs expected(std::max(kTops[i], 0));
    std::vector<int32_t> next = requests[i].prompt;
    for (const Told& token : told[i]) {
      const auto logits = engine::append(exact_, sequence, next);
      expected.read(logits);
      next = {token.id};
      ASSERT_EQ(token.top.size(), expected.top().size());
      const float logprob = expected.of(logits[static_cast<size_t>(token.id)]);
      EXPECT_NEAR(token.logprob, kTops[i] < 0 ? 0.0F : logprob, kNear);
      for (size_t place = 0; place < token.top.size(); ++place) {
        EXPECT_NEAR(token.top[place].logprob, expected.top()[place].logprob, kNear);
        const auto id = static_cast<size_t>(token.top[place].token);
        ASSERT_LT(id, logits.size());
        EXPECT_NEAR(token.top[place].logprob, expected.of(logits[id]), kNear);
      }
    }
  }
}

TEST_P(CudaProbs, EmbeddingsAreNearThoseOfTheCpu) {
  const auto run = [&](engine::Runner& runner, const engine::Request& request) {
    engine::Batcher batcher(runner, tokenizer_, {});
    Outcome outcome, stream;
    engine::Request other;
    other.prompt = some_prompt(9, 5);
    other.max_tokens = 40;
    batcher.submit(other, listener_of(stream));
    batcher.submit(request, listener_of(outcome));
    while (batcher.step()) {
    }
    EXPECT_FALSE(outcome.result.error) << outcome.result.error->what();
    EXPECT_FALSE(stream.result.error);
    return outcome.result.embedding;
  };
  for (const auto pooling : {engine::Pooling::last, engine::Pooling::mean}) {
    for (const int64_t batch : {8, 64}) {
      engine::Runner runner(model_, card(), exact_options(kContext, batch, 8), {});
      for (const int64_t tokens : {1, 7, 60, 150}) {
        engine::Request request;
        request.prompt = some_prompt(1, tokens);
        request.pooling = pooling;
        const auto expected = run(exact_, request);
        EXPECT_EQ(expected.size(), static_cast<size_t>(model_.config().width));
        EXPECT_LE(relative_error(run(runner, request), expected), batch <= 8 ? kExact : kTf32)
            << tokens << " tokens, steps of " << batch;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, CudaProbs, ::testing::Values("llama", "qwen3", "qwen3moe", "gemma3"),
                         [](const auto& row) { return row.param; });

}  // namespace
}  // namespace minfer::test
