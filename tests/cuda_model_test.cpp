// Whole models on a CUDA card, against transformers (the tiny models) and against the CPU on the same file: logits of
// prompts and decode steps, greedy continuations, prompts cut into steps in other ways, several sequences at once.
// Needs a card: part of scripts/gpu-gate.
//
// Bounds. Up to 8 rows F32 weights are multiplied in f32: what separates the card from transformers is the order of
// sums (kExact, relative to the largest logit). Beyond, tf32 rounds both factors to 11 bits (kTf32). Quantized models
// are held to a mean KL divergence from the CPU's scalar kernels, which compute on f32 activations.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "cuda_model_runs.hpp"

namespace minfer::test {
namespace {

constexpr double kExact = 5e-5;
constexpr double kTf32 = 1e-2;
constexpr double kPlanTolerance = 0.03;
constexpr double kMeanKl = 1e-3;
const std::vector<int64_t> kBatches = {1, 6, 48, 200};

class CudaTinyModels : public ::testing::TestWithParam<std::string> {};

TEST_P(CudaTinyModels, MatchTransformers) {
  const Golden expected = golden(GetParam());
  const model::Model model{gguf::File(golden_path("tiny/" + GetParam() + ".gguf"))};
  for (const int64_t batch : {1, 7, 8, 13, 64}) {
    for (const bool fuse : {true, false}) {
      engine::RunnerOptions options = exact_options(kContext, batch);
      options.fuse = fuse;
      engine::Runner runner(model, card(), options, {});
      const Trace actual = trace(runner, expected.prompt, expected.greedy.size());
      EXPECT_EQ(actual.greedy, expected.greedy) << "batch " << batch << ", fused " << fuse;
      ASSERT_EQ(actual.logits.size(), expected.logits.size());
      for (size_t i = 0; i < actual.logits.size(); ++i) {
        EXPECT_LE(relative_error(actual.logits[i], expected.logits[i]), batch <= 8 ? kExact : kTf32)
            << "position " << i << ", batch " << batch << ", fused " << fuse;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, CudaTinyModels,
                         ::testing::Values("llama", "llama_rope_llama3", "llama_rope_linear", "llama_rope_yarn",
                                           "qwen2", "qwen3", "qwen2moe", "qwen3moe", "gemma3", "gemma3_rope_linear",
                                           "gpt_oss", "deepseek2", "deepseek2_lite", "gemma", "gemma2", "mistral",
                                           "mistral3", "phi3", "phi3_rope_long", "granite", "olmo2", "olmo3", "smollm3",
                                           "glm4", "starcoder2", "stablelm", "stablelm_parallel", "cohere2", "exaone4",
                                           "exaone4_global"),
                         [](const auto& row) { return row.param; });

double kl_divergence(std::span<const float> exact, std::span<const float> other) {
  const auto log_sum = [](std::span<const float> logits) {
    const double largest = *std::max_element(logits.begin(), logits.end());
    double total = 0;
    for (const float logit : logits) total += std::exp(static_cast<double>(logit) - largest);
    return largest + std::log(total);
  };
  const double exact_shift = log_sum(exact), other_shift = log_sum(other);
  double kl = 0;
  for (size_t v = 0; v < exact.size(); ++v) {
    const double p = static_cast<double>(exact[v]) - exact_shift;
    kl += std::exp(p) * (p - (static_cast<double>(other[v]) - other_shift));
  }
  return kl;
}

// The card against the CPU, in steps of different sizes: decode, small batch and prefill families.
void expect_close_to_cpu(const std::string& path, int64_t tokens, const std::string& isa,
                         const std::vector<int64_t>& batches) {
  const model::Model model{gguf::File(path)};
  const auto ids = some_ids(tokens, model.config().vocabulary);
  std::vector<std::vector<float>> exact;
  {
    const graph::Registry cpu(cpu_factory(), {0, isa});
    engine::Runner runner(model, cpu.preferred(), exact_options(tokens, 64), {});
    exact = all_logits(runner, ids);
  }
  for (const int64_t batch : batches) {
    engine::Runner runner(model, card(), fast_options(tokens, batch), {});
    const auto rows = all_logits(runner, ids);
    double kl = 0;
    int64_t agreeing = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      kl += kl_divergence(exact[i], rows[i]) / static_cast<double>(rows.size());
      agreeing += argmax(exact[i]) == argmax(rows[i]);
    }
    std::printf("%s, steps of %lld: mean KL %.6f, top-1 agreement %.1f %%\n", path.c_str(),
                static_cast<long long>(batch), kl,
                100.0 * static_cast<double>(agreeing) / static_cast<double>(rows.size()));
    EXPECT_LE(kl, kMeanKl) << path << ", steps of " << batch;
  }
}

TEST(CudaModels, Smollm2) {
  const std::string path = model_path("smollm2-135m");
  if (is_absent(path)) GTEST_SKIP() << path << " is absent; scripts/fetch-model smollm2-135m gets it";
  expect_close_to_cpu(path, 200, "scalar", kBatches);
}

class CudaSynthetic : public ::testing::TestWithParam<std::string> {};

TEST_P(CudaSynthetic, IsCloseToTheCpu) {
  const SyntheticFile file(GetParam());
  expect_close_to_cpu(file.path(), 48, "scalar", kBatches);
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaSynthetic,
                         ::testing::Values("qwen3-0.6b:q4_k_m", "qwen3-0.6b:q8_0", "qwen3-0.6b:bf16", "qwen3-0.6b:q4_0",
                                           "qwen3-0.6b:q5_k_m", "qwen3-2b-a0.4b:q4_k_m"),
                         [](const auto& row) {
                           std::string name = row.param;
                           std::replace_if(name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
                           return name;
                         });

// Against the CPU's best kernels: the scalar ones would take minutes.
TEST(CudaLarge, Qwen3With8BIsCloseToTheCpu) {
  const SyntheticFile file("qwen3-8b:q4_k_m");
  expect_close_to_cpu(file.path(), 32, "", {1, 32});
}

// What loading and running take on the card is what the plan says, once the kernels that run are loaded.
TEST(CudaMemory, IsWhatThePlanSays) {
  const SyntheticFile file("qwen3-0.6b:q4_k_m");
  const model::Model model{gguf::File(file.path())};
  const auto available = [] { return card().memory().available_bytes; };
  for (const int64_t context : {int64_t{2048}, int64_t{16384}}) {
    for (const bool again : {false, true}) {
      const int64_t before = available();
      engine::Runner runner(model, card(), fast_options(context, 512), {});
      const int64_t loaded = before - available();
      engine::Sequence sequence(runner.cache());
      engine::append(runner, sequence, some_ids(1024, 10000));
      for (const int32_t id : {1, 2, 3}) engine::append(runner, sequence, {&id, 1});
      const int64_t run = before - available();
      const int64_t planned = runner.memory().total_bytes();
      std::printf("context %lld: planned %.1f MB, loaded %.1f MB, after steps %.1f MB\n",
                  static_cast<long long>(context), static_cast<double>(planned) / 1e6,
                  static_cast<double>(loaded) / 1e6, static_cast<double>(run) / 1e6);
      if (!again) continue;
      EXPECT_NEAR(static_cast<double>(run), static_cast<double>(planned),
                  kPlanTolerance * static_cast<double>(planned));
    }
  }
}

}  // namespace
}  // namespace minfer::test
