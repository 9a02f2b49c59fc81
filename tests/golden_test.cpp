// Every architecture and RoPE variant, end to end on every instruction set, against transformers (golden/README.md):
// the tiny models' logits of prompt and decode steps, and their greedy continuation. And what a run's bits may not
// depend on: the count of threads, how the prompt is cut into steps, and fusion. The weights are F32, so the vector
// kernels work with f32 activations here.
//
// Bounds are relative to the largest logit. transformers is at most 5e-6 from its own double precision, and a sound f32
// engine about as much: kExact leaves a factor of two over both. An f16 cache rounds keys and values to 11 bits: at
// most 3.3e-3 was measured, equal on all instruction sets.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "model_runs.hpp"

namespace minfer::test {
namespace {

constexpr double kExact = 2e-5;
constexpr double kHalfCache = 5e-3;
constexpr int64_t kContext = 128;

const std::vector<std::string> kVariants = {"llama",
                                            "llama_rope_llama3",
                                            "llama_rope_linear",
                                            "llama_rope_yarn",
                                            "qwen2",
                                            "qwen3",
                                            "qwen2moe",
                                            "qwen3moe",
                                            "gemma3",
                                            "gemma3_rope_linear",
                                            "gpt_oss",
                                            "deepseek2",
                                            "deepseek2_lite",
                                            "gemma",
                                            "gemma2",
                                            "mistral",
                                            "mistral3",
                                            "phi3",
                                            "phi3_rope_long",
                                            "granite",
                                            "olmo2",
                                            "olmo3",
                                            "smollm3",
                                            "glm4",
                                            "starcoder2",
                                            "stablelm",
                                            "stablelm_parallel",
                                            "cohere2",
                                            "exaone4",
                                            "exaone4_global"};

struct Golden {
  std::vector<int32_t> prompt;
  std::vector<int32_t> greedy;
  std::vector<std::vector<float>> logits;  // of the prompt's last positions, then of the decode steps
};

const Golden& golden(const std::string& variant) {
  static std::map<std::string, Golden> loaded;
  auto& slot = loaded[variant];
  if (slot.prompt.empty()) {
    const auto json = read_json(golden_path("tiny/" + variant + ".json"));
    slot.prompt = json.at("prompt").get<std::vector<int32_t>>();
    slot.greedy = json.at("greedy").get<std::vector<int32_t>>();
    slot.logits = json.at("prompt_logits").get<std::vector<std::vector<float>>>();
    for (const auto& row : json.at("decode_logits")) slot.logits.push_back(row.get<std::vector<float>>());
    EXPECT_EQ(slot.logits.size(), 2 * kCompared);
    EXPECT_EQ(slot.greedy.size(), 64u);
  }
  return slot;
}

Trace run(const std::string& variant, const std::string& isa, int threads, const engine::RunnerOptions& options,
          size_t steps) {
  Loaded loaded(golden_path("tiny/" + variant + ".gguf"), isa, threads, options);
  return trace(loaded.runner, golden(variant).prompt, steps);
}

double worst_error(const Trace& actual, const std::vector<std::vector<float>>& expected) {
  if (actual.logits.size() != expected.size()) return INFINITY;
  double worst = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    worst = std::max(worst, relative_error(actual.logits[i], expected[i]));
  }
  return worst;
}

void expect_same_bits(const Trace& actual, const Trace& expected) {
  ASSERT_EQ(actual.logits.size(), expected.logits.size());
  for (size_t i = 0; i < expected.logits.size(); ++i) {
    EXPECT_TRUE(same_bits(actual.logits[i], expected.logits[i])) << "row " << i;
  }
}

class GoldenRun : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  const std::string& variant() const { return std::get<0>(GetParam()); }
  const std::string& isa() const { return std::get<1>(GetParam()); }
};

TEST_P(GoldenRun, MatchesTransformersInLogitsAndGreedyTokens) {
  const Golden& expected = golden(variant());
  for (const int64_t batch : {64, 1, 7}) {
    const Trace actual = run(variant(), isa(), 1, exact_options(kContext, batch), expected.greedy.size());
    EXPECT_LE(worst_error(actual, expected.logits), kExact) << "steps of " << batch;
    EXPECT_EQ(actual.greedy, expected.greedy) << "steps of " << batch;
  }
}

TEST_P(GoldenRun, IsNearWithAHalfPrecisionCache) {
  auto options = exact_options(kContext, 64);
  options.key_format = options.value_format = graph::KvFormat::f16;
  const Trace actual = run(variant(), isa(), 1, options, kCompared);
  const double error = worst_error(actual, golden(variant()).logits);
  EXPECT_LE(error, kHalfCache);
  EXPECT_GT(error, 0) << "the cache cannot be in f16";
}

TEST_P(GoldenRun, BitsDependNeitherOnThreadsNorOnSteps) {
  const Trace expected = run(variant(), isa(), 1, exact_options(kContext, 64), kCompared);
  for (const int threads : {2, 3}) {
    SCOPED_TRACE(threads);
    expect_same_bits(run(variant(), isa(), threads, exact_options(kContext, 64), kCompared), expected);
  }
  for (const int64_t batch : {1, 7}) {
    SCOPED_TRACE(batch);
    expect_same_bits(run(variant(), isa(), 2, exact_options(kContext, batch), kCompared), expected);
  }
}

TEST_P(GoldenRun, FusionChangesNoBit) {
  for (const int64_t batch : {64, 7}) {
    auto options = exact_options(kContext, batch);
    const Trace fused = run(variant(), isa(), 1, options, kCompared);
    options.fuse = false;
    const Trace plain = run(variant(), isa(), 1, options, kCompared);
    EXPECT_EQ(worst_error(fused, plain.logits), 0) << "steps of " << batch;
    expect_same_bits(fused, plain);
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, GoldenRun,
                         ::testing::Combine(::testing::ValuesIn(kVariants), ::testing::ValuesIn(available_isas())),
                         [](const auto& row) { return std::get<0>(row.param) + "_" + std::get<1>(row.param); });

}  // namespace
}  // namespace minfer::test
