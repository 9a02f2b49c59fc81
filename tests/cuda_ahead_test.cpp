// The batcher on a card, which is always a step ahead, against a plain loop that waits for each step before it builds
// the next: equal tokens, as the steps have equal shapes. Needs a card: part of cuda_model_test.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "batcher_runs.hpp"
#include "model/vocab.hpp"
#include "model_runs.hpp"

namespace minfer::test {
namespace {

constexpr int64_t kTokens = 120;  // over ends of pages

// None ends before kTokens: then all steps have the rows of all, on both sides.
std::vector<engine::Request> some_requests(size_t count, const tokenizer::Vocab& vocab) {
  std::vector<engine::Request> requests(count);
  for (size_t i = 0; i < count; ++i) {
    engine::Request& request = requests[i];
    for (size_t j = 0; j < 5; ++j) request.prompt.push_back(static_cast<int32_t>(3 + (i * 7 + j * 11) % 200));
    request.max_tokens = kTokens;
    request.sampler.seed = i;
    for (int32_t token = 0; token < static_cast<int32_t>(vocab.size()); ++token) {
      if (vocab.is_end_of_generation(token)) request.sampler.logit_bias.emplace_back(token, -1000.0F);
    }
    if (i % 3 == 0) request.sampler.temperature = 0;
    if (i % 4 == 1) request.sampler.repeat_penalty = 1.2F, request.sampler.penalty_last_n = 9;
    if (i % 4 == 2) request.sampler.frequency_penalty = 0.3F, request.sampler.penalty_last_n = -1;
    if (i % 5 == 3) request.sampler.top_k = 0, request.sampler.xtc_probability = 0.5F;
  }
  return requests;
}

// One step for all, waited for; the tokens that it draws.
std::vector<int32_t> plain_step(engine::Runner& runner, std::vector<engine::Sequence>& sequences,
                                std::vector<engine::Sampler>& samplers, const std::vector<std::vector<int32_t>>& ids) {
  std::vector<int32_t> all, outputs, drawn;
  std::vector<graph::SequenceStep> steps;
  std::vector<graph::RowDraw> draws;
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto rows = static_cast<int64_t>(ids[i].size());
    EXPECT_TRUE(sequences[i].reserve(rows));
    steps.push_back(sequences[i].step(static_cast<int64_t>(all.size()), rows));
    all.insert(all.end(), ids[i].begin(), ids[i].end());
    outputs.push_back(static_cast<int32_t>(all.size()) - 1);
    EXPECT_TRUE(samplers[i].prepare_draw(graph::kNoOutput));
    draws.push_back(samplers[i].row_draw());
  }
  runner.submit({all, outputs, steps, draws});
  const graph::StepResult result = runner.wait();
  for (size_t i = 0; i < ids.size(); ++i) {
    sequences[i].commit(ids[i]);
    drawn.push_back(samplers[i].take(result.drawn[i]));
  }
  return drawn;
}

void expect_same_tokens(engine::Runner& runner, const tokenizer::Tokenizer& tokenizer, size_t streams) {
  const auto requests = some_requests(streams, tokenizer.vocab());
  std::vector<Outcome> outcomes(streams);
  {
    engine::BatcherOptions options;
    options.share_prefixes = false;
    engine::Batcher batcher(runner, tokenizer, options);
    for (size_t i = 0; i < streams; ++i) batcher.submit(requests[i], listener_of(outcomes[i]));
    while (batcher.step()) {
    }
  }
  std::vector<engine::Sequence> sequences;
  std::vector<engine::Sampler> samplers;
  std::vector<std::vector<int32_t>> ids(streams), tokens(streams);
  for (size_t i = 0; i < streams; ++i) {
    sequences.emplace_back(runner.cache());
    samplers.emplace_back(requests[i].sampler, static_cast<int64_t>(tokenizer.vocab().size()));
    for (const int32_t token : requests[i].prompt) samplers[i].accept(token);
    ids[i] = requests[i].prompt;
  }
  for (int64_t step = 0; step < kTokens; ++step) {
    const auto drawn = plain_step(runner, sequences, samplers, ids);
    for (size_t i = 0; i < streams; ++i) {
      tokens[i].push_back(drawn[i]);
      ids[i] = {drawn[i]};
    }
  }
  for (size_t i = 0; i < streams; ++i) {
    ASSERT_FALSE(outcomes[i].result.error) << outcomes[i].result.error->what();
    const auto first =
        std::mismatch(tokens[i].begin(), tokens[i].end(), outcomes[i].tokens.begin(), outcomes[i].tokens.end());
    EXPECT_EQ(outcomes[i].tokens, tokens[i])
        << "stream " << i << " of " << streams << ", from token " << first.first - tokens[i].begin() << " on";
  }
}

TEST(CudaAhead, GivesTheTokensOfPlainSteps) {
  const std::unique_ptr<graph::Backend> card = device_factories().front().create({});
  for (const char* name : {"tiny/llama.gguf", "tiny/gemma3.gguf"}) {
    SCOPED_TRACE(name);
    const model::Model model{gguf::File(golden_path(name))};
    const tokenizer::Tokenizer tokenizer(model::read_vocab(model.file()));
    engine::RunnerOptions options = fast_options(256, 256);
    options.sequences = 40;
    engine::Runner runner(model, *card, options, {});
    ASSERT_TRUE(runner.runs_ahead());
    for (const size_t streams : {1, 3, 40}) expect_same_tokens(runner, tokenizer, streams);
  }
}

}  // namespace
}  // namespace minfer::test
