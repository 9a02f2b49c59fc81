// Answers held to a JSON grammar on a CUDA card, which draws with masks uploaded for the step: each token is one that
// the CPU's masks allow, a greedy one the likeliest of those by the CPU's logits, what has ended is JSON; beside
// requests without a grammar. Needs a card: part of scripts/gpu-gate.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "batcher_runs.hpp"
#include "cuda_model_runs.hpp"
#include "engine/grammar/grammar.hpp"
#include "engine/grammar/json_schema.hpp"
#include "model/vocab.hpp"

namespace minfer::test {
namespace {

namespace grammar = engine::grammar;

constexpr float kNear = 2e-3F;  // of logits, absolute
constexpr int64_t kStreams = 8;

class CudaGrammar : public ::testing::TestWithParam<std::string> {
 protected:
  CudaGrammar()
      : model_(gguf::File(golden_path("tiny/" + GetParam() + ".gguf"))),
        tokenizer_(model::read_vocab(model_.file())),
        cpu_(cpu_factory(), {1, "scalar"}),
        exact_(model_, cpu_.preferred(), exact_options(kContext, 8, 1), {}) {
    grammar::AstBuilder builder;
    const auto root = builder.declare("root");
    builder.define(root, grammar::add_json_object(builder));
    json_ = grammar::compile(std::move(builder).finish(root), grammar::make_token_table(tokenizer_));
  }

  // One in four without a grammar.
  engine::Request request_of(int64_t stream) const {
    engine::Request request;
    for (int64_t i = 0; i < 6; ++i) request.prompt.push_back(static_cast<int32_t>(3 + (stream * 17 + i * 11) % 200));
    request.max_tokens = 40 + stream * 10;
    request.sampler.temperature = stream % 2 == 0 ? 0.0F : 1.0F;
    request.sampler.seed = static_cast<uint64_t>(stream);
    if (stream % 3 == 1) request.sampler.top_k = 0, request.sampler.min_p = 0;
    if (stream % 4 != 3) request.grammar = json_;
    return request;
  }

  void expect_allowed(const engine::Request& request, const std::vector<int32_t>& tokens) {
    grammar::Matcher matcher(json_);
    engine::Sequence sequence(exact_.cache());
    std::vector<int32_t> next = request.prompt;
    for (const int32_t token : tokens) {
      const auto logits = engine::append(exact_, sequence, next);
      const std::span<const uint32_t> mask = matcher.mask();
      const auto allows = [&](size_t id) { return (mask[id / 32] >> (id % 32) & 1U) != 0; };
      ASSERT_TRUE(allows(static_cast<size_t>(token))) << "token " << token;
      float best = -std::numeric_limits<float>::infinity();
      for (size_t id = 0; id < logits.size(); ++id) best = allows(id) ? std::max(best, logits[id]) : best;
      if (request.sampler.temperature == 0) {
        EXPECT_NEAR(logits[static_cast<size_t>(token)], best, kNear);
      }
      next = {token};
      if (!tokenizer_.vocab().is_end_of_generation(token)) matcher.accept(token);
    }
  }

  model::Model model_;
  tokenizer::Tokenizer tokenizer_;
  graph::Registry cpu_;
  engine::Runner exact_;
  std::shared_ptr<const grammar::Grammar> json_;
};

TEST_P(CudaGrammar, AnswersAreJsonByTheCpusMasks) {
  engine::Runner runner(model_, card(), exact_options(kContext, 16, kStreams), {});
  engine::Batcher batcher(runner, tokenizer_, {});
  std::vector<Outcome> outcomes(kStreams);
  for (int64_t i = 0; i < kStreams; ++i) {
    batcher.submit(request_of(i), listener_of(outcomes[static_cast<size_t>(i)]));
  }
  while (batcher.step()) {
  }
  size_t held = 0;
  for (int64_t i = 0; i < kStreams; ++i) {
    SCOPED_TRACE(i);
    const Outcome& outcome = outcomes[static_cast<size_t>(i)];
    const engine::Request request = request_of(i);
    ASSERT_FALSE(outcome.result.error) << outcome.result.error->what();
    if (request.grammar == nullptr) continue;
    ++held;
    EXPECT_GT(outcome.tokens.size(), 1U);
    EXPECT_EQ(outcome.text.at(0), '{');
    expect_allowed(request, outcome.tokens);
    if (outcome.result.reason == engine::StopReason::end_of_generation) {
      EXPECT_TRUE(nlohmann::json::accept(outcome.text)) << outcome.text;
    }
  }
  EXPECT_EQ(held, 6U);
}

INSTANTIATE_TEST_SUITE_P(Tiny, CudaGrammar, ::testing::Values("llama", "qwen3"),
                         [](const auto& row) { return row.param; });

}  // namespace
}  // namespace minfer::test
