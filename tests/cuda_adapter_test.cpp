// LoRA adapters on a CUDA card, against transformers with peft (tests/golden/tiny/<model>.lora.json): one adapter,
// several, other scales, in steps of every family; and sequences with different adapters in one step. Needs a card:
// part of scripts/gpu-gate.
#include <gtest/gtest.h>

#include "cuda_model_runs.hpp"

namespace minfer::test {
namespace {

// f32 products, and tf32 beyond 8 rows: two more of them, one after the other, than without an adapter, whose scales
// here are up to 2 (at most 2.5e-2 was measured).
constexpr double kExact = 5e-5;
constexpr double kTf32 = 4e-2;

class CudaTinyAdapters : public ::testing::TestWithParam<std::string> {};

TEST_P(CudaTinyAdapters, MatchPeftAtEveryScale) {
  const Adapted adapted(GetParam());
  for (const int64_t batch : {1, 7, 8, 13, 64}) {
    for (const bool fuse : {true, false}) {
      engine::RunnerOptions options = exact_options(kContext, batch);
      options.fuse = fuse;
      engine::Runner runner(adapted.model, card(), options, {});
      for (const auto& expected : adapted.golden.at("runs")) {
        SCOPED_TRACE("steps of " + std::to_string(batch) + ", scales " + expected.at("scales").dump());
        const auto greedy = expected.at("greedy").get<std::vector<int32_t>>();
        const auto rows = expected.at("logits").get<std::vector<std::vector<float>>>();
        const auto scales = expected.at("scales").get<std::vector<float>>();
        const Trace actual = trace(runner, adapted.prompt, greedy.size(), scales);
        EXPECT_EQ(actual.greedy, greedy);
        ASSERT_EQ(actual.logits.size(), rows.size());
        for (size_t i = 0; i < rows.size(); ++i) {
          EXPECT_LE(relative_error(actual.logits[i], rows[i]), batch <= 8 ? kExact : kTf32) << i;
        }
      }
    }
  }
}

// Three sequences of two tokens, each with scales of its own.
TEST_P(CudaTinyAdapters, OfSequencesThatShareAStepAreTheirOwn) {
  const Adapted adapted(GetParam());
  engine::Runner runner(adapted.model, card(), exact_options(kContext, 8, 3), {});
  const std::span<const int32_t> prompt = std::span(adapted.prompt).first(2);
  std::vector<std::vector<float>> alone;
  std::vector<engine::Sequence> sequences;
  std::vector<graph::SequenceStep> steps;
  std::vector<int32_t> ids, outputs;
  for (size_t run = 0; run < 3; ++run) {
    const auto scales = adapted.golden.at("runs")[run].at("scales").get<std::vector<float>>();
    engine::Sequence own(runner.cache(), false, scales);
    const auto logits = engine::append(runner, own, prompt);
    alone.emplace_back(logits.begin(), logits.end());
    own.truncate(0);
    sequences.push_back(std::move(own));
    ASSERT_TRUE(sequences.back().reserve(2));
  }
  for (const engine::Sequence& sequence : sequences) {
    steps.push_back(sequence.step(static_cast<int64_t>(ids.size()), 2));
    ids.insert(ids.end(), prompt.begin(), prompt.end());
    outputs.push_back(static_cast<int32_t>(ids.size()) - 1);
  }
  const auto together = runner.step({ids, outputs, steps});
  const size_t vocabulary = alone[0].size();
  for (size_t i = 0; i < alone.size(); ++i) {
    EXPECT_LE(relative_error(together.subspan(i * vocabulary, vocabulary), alone[i]), kExact) << i;
  }
  EXPECT_GT(relative_error(alone[0], alone[1]), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Models, CudaTinyAdapters, ::testing::Values("llama", "qwen2"),
                         [](const auto& row) { return row.param; });

}  // namespace
}  // namespace minfer::test
