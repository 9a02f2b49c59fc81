// --strict on a card: a row's logits are the same to the bit however a prompt is cut into steps and whatever sequences
// are beside it. The models cover both families that it uses (small-batch kernels and the decode family's passes), with
// windows and without. Needs a card: part of scripts/gpu-gate.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cuda_model_runs.hpp"

namespace minfer::test {
namespace {

using Logits = std::vector<std::vector<float>>;

graph::Backend& strict_card() {
  static const std::unique_ptr<graph::Backend> device = [] {
    graph::BackendOptions options;
    options.strict = true;
    return device_factories().front().create(options);
  }();
  return *device;
}

// Logits of every position of `count` sequences that grow side by side, `rows` tokens of each a step.
std::vector<Logits> run_beside(engine::Runner& runner, const std::vector<std::vector<int32_t>>& ids, int64_t rows) {
  std::vector<Logits> result(ids.size());
  std::vector<engine::Sequence> sequences;
  for (size_t i = 0; i < ids.size(); ++i) sequences.emplace_back(runner.cache());
  const auto vocabulary = static_cast<size_t>(runner.model().config().vocabulary);
  for (int64_t at = 0;; at += rows) {
    std::vector<int32_t> tokens, output_rows;
    std::vector<graph::SequenceStep> steps;
    std::vector<size_t> of_step;
    for (size_t i = 0; i < ids.size(); ++i) {
      const int64_t count = std::min(rows, static_cast<int64_t>(ids[i].size()) - at);
      if (count <= 0) continue;
      EXPECT_TRUE(sequences[i].reserve(count));
      steps.push_back(sequences[i].step(static_cast<int64_t>(tokens.size()), count));
      of_step.push_back(i);
      for (int64_t k = 0; k < count; ++k) {
        output_rows.push_back(static_cast<int32_t>(tokens.size()));
        tokens.push_back(ids[i][static_cast<size_t>(at + k)]);
      }
    }
    if (tokens.empty()) return result;
    const auto logits = runner.step({tokens, output_rows, steps});
    for (size_t s = 0; s < steps.size(); ++s) {
      const auto first = static_cast<size_t>(steps[s].first_row), count = static_cast<size_t>(steps[s].rows);
      sequences[of_step[s]].commit(std::span(tokens).subspan(first, count));
      for (size_t k = first; k < first + count; ++k) {
        const auto row = logits.subspan(k * vocabulary, vocabulary);
        result[of_step[s]].emplace_back(row.begin(), row.end());
      }
    }
  }
}

void expect_same(const Logits& actual, const Logits& expected, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  int64_t different = 0;
  for (size_t i = 0; i < actual.size(); ++i) different += !same_bits(actual[i], expected[i]);
  EXPECT_EQ(different, 0) << what << ": of " << actual.size() << " positions";
}

engine::RunnerOptions options_of(bool is_tiny, int64_t batch) {
  engine::RunnerOptions options = is_tiny ? exact_options(kContext, batch) : fast_options(kContext, batch);
  options.sequences = 3;
  options.outputs = 64;
  return options;
}

void expect_invariant(const std::string& path, bool is_tiny) {
  const model::Model model{gguf::File(path)};
  const auto ids = some_ids(150, model.config().vocabulary);
  Logits one_by_one;
  {
    engine::Runner runner(model, strict_card(), options_of(is_tiny, 1), nullptr);
    one_by_one = all_logits(runner, ids);
  }
  for (const int64_t batch : {2, 7, 17, 64, 200}) {
    engine::Runner runner(model, strict_card(), options_of(is_tiny, batch), nullptr);
    expect_same(all_logits(runner, ids), one_by_one, fmt::format("steps of {}", batch));
  }
  // Beside two others, of other lengths.
  engine::Runner runner(model, strict_card(), options_of(is_tiny, 64), nullptr);
  for (const int64_t rows : {1, 5, 20}) {
    const std::vector<std::vector<int32_t>> all = {some_ids(97, 100), ids, some_ids(33, 90)};
    expect_same(run_beside(runner, all, rows)[1], one_by_one, fmt::format("beside others, {} rows each", rows));
  }
}

class CudaStrictTiny : public ::testing::TestWithParam<std::string> {};
TEST_P(CudaStrictTiny, GivesEachRowItsBits) {
  expect_invariant(golden_path("tiny/" + GetParam() + ".gguf"), true);
}
INSTANTIATE_TEST_SUITE_P(Models, CudaStrictTiny,
                         ::testing::Values("llama", "gemma3", "qwen2", "qwen3moe", "gpt_oss", "gemma2", "starcoder2",
                                           "cohere2"),
                         [](const auto& row) { return row.param; });

class CudaStrict : public ::testing::TestWithParam<std::string> {};
TEST_P(CudaStrict, GivesEachRowItsBits) {
  const SyntheticFile file(GetParam());
  expect_invariant(file.path(), false);
}
INSTANTIATE_TEST_SUITE_P(Shapes, CudaStrict,
                         ::testing::Values("qwen3-0.6b:q4_k_m", "qwen3-0.6b:q8_0", "qwen3-0.6b:bf16", "qwen3-0.6b:q3_k",
                                           "qwen3-2b-a0.4b:q4_k_m"),
                         [](const auto& row) {
                           std::string name = row.param;
                           std::replace_if(name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
                           return name;
                         });

}  // namespace
}  // namespace minfer::test
