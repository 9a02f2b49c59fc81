// Whole models on a CUDA card, against transformers (the tiny models) and against the CPU on the same file: logits of
// prompts and decode steps, greedy continuations, prompts cut into steps in other ways, several sequences at once.
// Needs a card: part of scripts/gpu-gate.
//
// Bounds. Up to 8 rows F32 weights are multiplied in f32: what separates the card from transformers is the order of
// sums (kExact, relative to the largest logit). Beyond, tf32 rounds both factors to 11 bits (kTf32). Quantized models
// are held to a mean KL divergence from the CPU's scalar kernels, which compute on f32 activations.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "model/synthetic.hpp"
#include "model_runs.hpp"

namespace minfer::test {
namespace {

constexpr double kExact = 5e-5;
constexpr double kTf32 = 1e-2;
constexpr double kMeanKl = 1e-3;
constexpr int64_t kContext = 256;
constexpr size_t kCompared = 4;  // of the golden files: prompt positions, and as many decode steps

graph::Backend& card() {
  static const std::unique_ptr<graph::Backend> device = device_factories().front().create({});
  return *device;
}

struct Golden {
  std::vector<int32_t> prompt, greedy;
  std::vector<std::vector<float>> logits;
};

Golden golden(const std::string& variant) {
  const auto json = read_json(golden_path("tiny/" + variant + ".json"));
  Golden result{json.at("prompt").get<std::vector<int32_t>>(), json.at("greedy").get<std::vector<int32_t>>(),
                json.at("prompt_logits").get<std::vector<std::vector<float>>>()};
  for (const auto& row : json.at("decode_logits")) result.logits.push_back(row.get<std::vector<float>>());
  return result;
}

// Logits of the prompt's last positions and of the first steps, and the greedy continuation.
struct Trace {
  std::vector<std::vector<float>> logits;
  std::vector<int32_t> greedy;
};

Trace trace(engine::Runner& runner, const std::vector<int32_t>& prompt, size_t steps) {
  Trace result;
  engine::Sequence sequence(runner.cache());
  int32_t next = -1;
  engine::append_scored(runner, sequence, prompt, 0, [&](int64_t index, std::span<const float> logits) {
    if (static_cast<size_t>(index) + kCompared < prompt.size()) return;
    result.logits.emplace_back(logits.begin(), logits.end());
    next = argmax(logits);
  });
  while (result.greedy.size() < steps) {
    result.greedy.push_back(next);
    const auto logits = engine::append(runner, sequence, {&next, 1});
    if (result.greedy.size() <= kCompared) result.logits.emplace_back(logits.begin(), logits.end());
    next = argmax(logits);
  }
  return result;
}

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
                                           "qwen2", "qwen3", "qwen2moe", "qwen3moe", "gemma3", "gemma3_rope_linear"),
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

std::vector<std::vector<float>> all_logits(engine::Runner& runner, const std::vector<int32_t>& ids) {
  std::vector<std::vector<float>> rows;
  engine::Sequence sequence(runner.cache());
  engine::append_scored(runner, sequence, ids, 0, [&](int64_t, std::span<const float> logits) {
    rows.emplace_back(logits.begin(), logits.end());
  });
  return rows;
}

// Ids that no tokenizer needs to know.
std::vector<int32_t> some_ids(int64_t count, int64_t vocabulary) {
  std::vector<int32_t> ids;
  uint64_t state = 88172645463325252ULL;
  for (int64_t i = 0; i < count; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    ids.push_back(static_cast<int32_t>(state % static_cast<uint64_t>(vocabulary)));
  }
  return ids;
}

// The card against the CPU's scalar kernels, in steps of different sizes: decode, small batch and prefill families.
void expect_close_to_cpu(const std::string& path, int64_t tokens) {
  const model::Model model{gguf::File(path)};
  const auto ids = some_ids(tokens, model.config().vocabulary);
  std::vector<std::vector<float>> exact;
  {
    const graph::Registry cpu(cpu_factory(), {0, "scalar"});
    engine::Runner runner(model, cpu.preferred(), exact_options(tokens, 64), {});
    exact = all_logits(runner, ids);
  }
  for (const int64_t batch : {1, 6, 48, 200}) {
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
  expect_close_to_cpu(path, 200);
}

class CudaSynthetic : public ::testing::TestWithParam<std::string> {};

TEST_P(CudaSynthetic, IsCloseToTheCpu) {
  const auto path = std::filesystem::temp_directory_path() / ("minfer-" + GetParam() + ".gguf");
  model::write_synthetic(GetParam(), path.string());
  expect_close_to_cpu(path.string(), 48);
  std::filesystem::remove(path);
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaSynthetic,
                         ::testing::Values("qwen3-0.6b:q4_k_m", "qwen3-0.6b:q8_0", "qwen3-0.6b:bf16", "qwen3-0.6b:q4_0",
                                           "qwen3-0.6b:q5_k_m", "qwen3-2b-a0.4b:q4_k_m"),
                         [](const auto& row) {
                           std::string name = row.param;
                           std::replace_if(name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
                           return name;
                         });

}  // namespace
}  // namespace minfer::test
