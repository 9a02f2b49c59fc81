// LoRA adapters on every instruction set: logits and greedy tokens of tiny models with one adapter, several, and other
// scales against transformers with peft (tests/golden/tiny/<model>.lora.json, scripts/make_adapter_goldens.py); that a
// sequence's bits do not depend on the adapters of those beside it; that prefixes are not shared across adapters; and
// what a wrong adapter is told.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "base/test_support.hpp"
#include "gguf/writer.hpp"
#include "model_runs.hpp"

namespace minfer::test {
namespace {

using ::minfer::error_of;

constexpr double kExact = 2e-5;  // of the largest logit, as golden_test

struct Running : Adapted {
  Running(const std::string& name, const std::string& isa, int threads, const engine::RunnerOptions& options)
      : Adapted(name), registry(cpu_factory(), {threads, isa}), runner(model, registry.preferred(), options, {}) {}

  graph::Registry registry;
  engine::Runner runner;
};

class AdapterRun : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  const std::string& name() const { return std::get<0>(GetParam()); }
  const std::string& isa() const { return std::get<1>(GetParam()); }
};

TEST_P(AdapterRun, MatchesPeftAtEveryScale) {
  for (const int64_t batch : {64, 7}) {
    for (const bool fuse : {true, false}) {
      auto options = exact_options(64, batch);
      options.fuse = fuse;
      Running adapted(name(), isa(), 2, options);
      for (const auto& expected : adapted.golden.at("runs")) {
        const auto scales = expected.at("scales").get<std::vector<float>>();
        SCOPED_TRACE(fmt::format("steps of {}, scales {}", batch, expected.at("scales").dump()));
        const auto greedy = expected.at("greedy").get<std::vector<int32_t>>();
        const auto rows = expected.at("logits").get<std::vector<std::vector<float>>>();
        const Trace actual = trace(adapted.runner, adapted.prompt, greedy.size(), scales);
        ASSERT_EQ(actual.logits.size(), rows.size());
        for (size_t i = 0; i < rows.size(); ++i) EXPECT_LE(relative_error(actual.logits[i], rows[i]), kExact) << i;
        EXPECT_EQ(actual.greedy, greedy);
      }
    }
  }
}

TEST_P(AdapterRun, NothingOfAnAdapterIsTheModelItself) {
  Running adapted(name(), isa(), 1, exact_options(64, 64));
  const Trace none =
      trace(adapted.runner, adapted.prompt, kCompared, std::vector<float>(adapted.model.adapters().size(), 0.0F));
  Loaded plain(golden_path("tiny/" + name() + ".gguf"), isa(), 1, exact_options(64, 64));
  engine::Sequence sequence(plain.runner.cache());
  std::vector<std::vector<float>> rows;
  engine::append_scored(plain.runner, sequence, adapted.prompt, 0, [&](int64_t index, std::span<const float> logits) {
    if (static_cast<size_t>(index) + kCompared >= adapted.prompt.size())
      rows.emplace_back(logits.begin(), logits.end());
  });
  for (size_t i = 0; i < rows.size(); ++i) EXPECT_TRUE(same_bits(none.logits[i], rows[i])) << i;
}

TEST_P(AdapterRun, BitsDoNotDependOnTheAdaptersOfOthers) {
  Running adapted(name(), isa(), 2, exact_options(64, 64, 3));
  engine::Runner& runner = adapted.runner;
  const auto runs = adapted.golden.at("runs");
  std::vector<std::vector<float>> all_scales;
  for (size_t i = 0; i < 3; ++i) all_scales.push_back(runs[i].at("scales").get<std::vector<float>>());
  const std::span<const int32_t> prompt = std::span(adapted.prompt).first(11);
  std::vector<std::vector<float>> alone;
  for (const auto& scales : all_scales) {
    engine::Sequence sequence(runner.cache(), false, scales);
    const auto logits = engine::append(runner, sequence, prompt);
    alone.emplace_back(logits.begin(), logits.end());
  }
  std::vector<engine::Sequence> sequences;
  std::vector<graph::SequenceStep> steps;
  std::vector<int32_t> ids, outputs;
  for (const auto& scales : all_scales) {
    sequences.emplace_back(runner.cache(), false, scales);
    ASSERT_TRUE(sequences.back().reserve(11));
  }
  for (const engine::Sequence& sequence : sequences) {
    steps.push_back(sequence.step(static_cast<int64_t>(ids.size()), 11));
    ids.insert(ids.end(), prompt.begin(), prompt.end());
    outputs.push_back(static_cast<int32_t>(ids.size()) - 1);
  }
  const auto together = runner.step({ids, outputs, steps});
  const size_t vocabulary = alone[0].size();
  for (size_t i = 0; i < alone.size(); ++i) {
    EXPECT_TRUE(same_bits(together.subspan(i * vocabulary, vocabulary), alone[i])) << i;
  }
  EXPECT_FALSE(same_bits(alone[0], alone[1]));
}

INSTANTIATE_TEST_SUITE_P(Tiny, AdapterRun,
                         ::testing::Combine(::testing::Values("llama", "qwen2"), ::testing::ValuesIn(available_isas())),
                         [](const auto& row) { return std::get<0>(row.param) + "_" + std::get<1>(row.param); });

TEST(AdapterPrefix, IsSharedAmongEqualScalesOnly) {
  Running adapted("llama", "", 1, exact_options(256, 256, 4));
  engine::KvCache& cache = adapted.runner.cache();
  std::vector<int32_t> prompt(130, 7);
  const float one[] = {1.0F, 0.0F};
  const float other[] = {0.0F, 1.0F};
  engine::Sequence first(cache, true, one);
  engine::append(adapted.runner, first, prompt);
  EXPECT_EQ(engine::Sequence(cache, true, one).reuse_prefix(prompt), 128);
  EXPECT_EQ(engine::Sequence(cache, true, other).reuse_prefix(prompt), 0);
  EXPECT_EQ(engine::Sequence(cache, true).reuse_prefix(prompt), 0) << "both at 1";
}

// A file with the keys of an adapter for llama, some changed, and its tensors.
class AdapterFile {
 public:
  AdapterFile() : path_(::testing::TempDir() + "minfer_adapter_test.gguf") {}
  ~AdapterFile() { std::remove(path_.c_str()); }

  std::string type = "adapter", kind = "lora", architecture = "llama";
  float alpha = 8, scale = 1;
  std::vector<std::tuple<std::string, int64_t, int64_t>> tensors = {{"blk.0.attn_q.weight.lora_a", 64, 4},
                                                                    {"blk.0.attn_q.weight.lora_b", 4, 64}};

  std::string error() const {
    gguf::Writer writer(path_);
    writer.add_string("general.type", type);
    writer.add_string("adapter.type", kind);
    writer.add_string("general.architecture", architecture);
    writer.add("adapter.lora.alpha", alpha);
    const std::vector<float> zeros(64 * 96);
    for (const auto& [name, inputs, outputs] : tensors) {
      const int64_t shape[] = {inputs, outputs};
      const size_t count = static_cast<size_t>(inputs * outputs);
      writer.add_tensor(name, tensor::DType::f32, shape, std::as_bytes(std::span(zeros).first(count)));
    }
    writer.finish();
    model::Model model(gguf::File(golden_path("tiny/llama.gguf")));
    return error_of([&] { model.add_adapter(gguf::File(path_), scale); });
  }

 private:
  std::string path_;
};

void expect_says(const AdapterFile& file, const std::string& text) {
  const std::string error = file.error();
  EXPECT_NE(error.find(text), std::string::npos) << error;
}

TEST(AdapterErrors, NameWhatIsWrong) {
  EXPECT_EQ(AdapterFile().error(), "no error");
  AdapterFile file;
  file.type = "model";
  expect_says(file, "general.type is 'model', expected 'adapter'");
  file = {};
  file.kind = "control_vector";
  expect_says(file, "adapter.type is 'control_vector', expected 'lora'");
  file = {};
  file.architecture = "qwen2";
  expect_says(file, "the adapter is of architecture qwen2, the model of llama");
  file = {};
  file.alpha = NAN;
  expect_says(file, "adapter.lora.alpha is nan");
  file = {};
  file.scale = INFINITY;
  expect_says(file, "a scale of inf; expected -1000 to 1000");
  file = {};
  file.tensors.pop_back();
  expect_says(file, "tensor blk.0.attn_q.weight.lora_a has no blk.0.attn_q.weight.lora_b");
  file.tensors.clear();
  expect_says(file, "the adapter has no tensors");
  file.tensors = {{"blk.0.attn_q.weight", 64, 64}};
  expect_says(file, "tensor blk.0.attn_q.weight is no half of a low-rank pair");
  file.tensors = {{"blk.0.attn_q.weight.lora_a", 64, 4}, {"blk.0.attn_q.weight.lora_b", 5, 64}};
  expect_says(file, "blk.0.attn_q.weight.lora_a has rank 4, blk.0.attn_q.weight.lora_b has 5");
  file.tensors = {{"blk.0.attn_q.weight.lora_a", 64, 4}, {"blk.0.attn_q.weight.lora_b", 4, 32}};
  expect_says(file, "expected 64 and 64 outside for blk.0.attn_q.weight");
  file.tensors = {{"blk.9.attn_q.weight.lora_a", 64, 4}, {"blk.9.attn_q.weight.lora_b", 4, 64}};
  expect_says(file, "the adapter changes blk.9.attn_q.weight, which the model does not have");
  file.tensors = {{"token_embd.weight.lora_a", 64, 4}, {"token_embd.weight.lora_b", 4, 64}};
  expect_says(file, "the adapter changes token_embd.weight, which is no matrix of a product of every token");
}

}  // namespace
}  // namespace minfer::test
