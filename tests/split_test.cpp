// A model on two devices: the CPU twice, each with a name and a memory of its own. Whatever the split, logits are bit
// for bit those of one device; KV pages are moved on both; memory and copies are what the plan says; what fits neither
// device or what a device can't run is refused before anything is loaded. And the workspaces: runners that share a
// device keep their own, and no step exceeds what was planned.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/options.hpp"
#include "base/test_support.hpp"
#include "graph/backend_test_support.hpp"
#include "graph/memory_plan.hpp"
#include "model_runs.hpp"

namespace minfer::test {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

// A device that is another one with its own name, memory and lack of ops; counts what is loaded on it.
class TestDevice final : public graph::ForwardingBackend {
 public:
  TestDevice(std::string name, int64_t memory_bytes, const std::string& isa = "", int threads = 1)
      : ForwardingBackend(device_factories().back().create({threads, isa})),
        name_(std::move(name)),
        memory_bytes_(memory_bytes) {}

  std::optional<graph::Op> lacks;
  int64_t loaded_bytes = 0;

  std::string name() const override { return name_; }
  graph::DeviceMemory memory() const override {
    return {graph::DeviceMemory::Answer::reported, memory_bytes_, memory_bytes_, {}};
  }
  std::optional<std::string> unsupported_reason(const graph::Graph& graph, const graph::Node& node) const override {
    if (lacks == node.op) return "not on this device";
    return ForwardingBackend::unsupported_reason(graph, node);
  }
  bool has_op(graph::Op op) const override { return lacks != op && ForwardingBackend::has_op(op); }
  std::unique_ptr<graph::WeightSet> load_weights(std::span<const graph::WeightSource> sources,
                                                 const graph::ProgressFn& progress) override {
    return counted(ForwardingBackend::load_weights(sources, progress));
  }
  std::unique_ptr<graph::KvStore> create_kv_store(const graph::KvSpec& spec) override {
    return counted(ForwardingBackend::create_kv_store(spec));
  }
  std::unique_ptr<graph::Workspace> create_workspace(int64_t activation_bytes, int64_t scratch_bytes) override {
    return counted(ForwardingBackend::create_workspace(activation_bytes, scratch_bytes));
  }

 private:
  template <class Part>
  std::unique_ptr<Part> counted(std::unique_ptr<Part> part) {
    loaded_bytes += part->bytes();
    return part;
  }

  std::string name_;
  int64_t memory_bytes_;
};

// A model on two of them.
struct Split {
  Split(const std::string& path, const engine::RunnerOptions& options, int64_t first_bytes = kUnlimited,
        int64_t second_bytes = kUnlimited)
      : model(gguf::File(path)), first("one", first_bytes), second("two", second_bytes), options_(options) {}

  std::vector<graph::Backend*> devices() { return {&first, &second}; }
  engine::PlacementPlan plan() { return engine::plan_placement(model, devices(), options_); }
  engine::Runner& load() {
    runner = std::make_unique<engine::Runner>(model, devices(), options_, nullptr);
    return *runner;
  }

  model::Model model;
  TestDevice first, second;
  std::unique_ptr<engine::Runner> runner;

 private:
  engine::RunnerOptions options_;
};

engine::RunnerOptions options_of(int64_t context, int64_t batch, std::vector<int64_t> device_layers) {
  auto options = exact_options(context, batch, 3);
  options.device_layers = std::move(device_layers);
  return options;
}

std::vector<float> copy(std::span<const float> logits) {
  return {logits.begin(), logits.end()};
}

// The logits of every position of a prompt in steps of the batch, then of some decode steps.
std::vector<float> all_logits(engine::Runner& runner, std::span<const int32_t> prompt) {
  std::vector<float> all;
  engine::Sequence sequence(runner.cache());
  int32_t next = 0;
  engine::append_scored(runner, sequence, prompt, 0, [&](int64_t, std::span<const float> logits) {
    all.insert(all.end(), logits.begin(), logits.end());
    next = argmax(logits);
  });
  for (int i = 0; i < 6; ++i) {
    const auto logits = engine::append(runner, sequence, {&next, 1});
    all.insert(all.end(), logits.begin(), logits.end());
    next = argmax(logits);
  }
  return all;
}

// --- every architecture ---

class SplitModels : public ::testing::TestWithParam<std::string> {
 protected:
  std::string path() const { return golden_path("tiny/" + GetParam() + ".gguf"); }
  std::vector<int32_t> prompt() const {
    return read_json(golden_path("tiny/" + GetParam() + ".json")).at("prompt").get<std::vector<int32_t>>();
  }
  int64_t layers() const { return model::Model(gguf::File(path())).config().layers; }
};

TEST_P(SplitModels, EverySplitHasTheBitsOfOneDevice) {
  Loaded one(path(), "", 1, exact_options(128, 16));
  const auto expected = all_logits(one.runner, prompt());
  for (int64_t n = 0; n <= layers(); ++n) {
    Split two(path(), options_of(128, 16, {n, layers() - n}));
    EXPECT_TRUE(same_bits(all_logits(two.load(), prompt()), expected)) << n << " layers on the first device";
    EXPECT_EQ(two.plan().parts.size(), n == 0 || n == layers() ? 1U : 2U);
  }
}

TEST_P(SplitModels, PartsCopyTheHiddenStateAndNothingElse) {
  Split two(path(), options_of(128, 16, {1, layers() - 1}));
  engine::Runner& runner = two.load();
  const int64_t row_bytes = two.model.config().width * 4;
  engine::Sequence sequence(runner.cache());
  engine::append(runner, sequence, std::span<const int32_t>(prompt()).first(11));
  EXPECT_EQ(runner.copied_bytes(), 11 * row_bytes);
  engine::append(runner, sequence, std::span<const int32_t>(prompt()).first(1));
  EXPECT_EQ(runner.copied_bytes(), 12 * row_bytes);
  const auto parts = engine::part_graphs(two.model, two.devices(), two.plan().parts, {11, 1}, true);
  EXPECT_EQ(graph::import_bytes(parts[0].graph, {11, 1}), 0);
  EXPECT_EQ(graph::import_bytes(parts[1].graph, {11, 1}), 11 * row_bytes);
}

TEST_P(SplitModels, EachDeviceTakesWhatItsPartWasPlanned) {
  Split two(path(), options_of(128, 16, {1, layers() - 1}));
  const auto parts = two.plan().parts;
  two.load();
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(two.first.loaded_bytes, parts[0].memory.total_bytes());
  EXPECT_EQ(two.second.loaded_bytes, parts[1].memory.total_bytes());
  const graph::MemoryUse whole = planned_memory(two.model, two.first, options_of(128, 16, {}));
  EXPECT_EQ(parts[0].memory.kv_bytes + parts[1].memory.kv_bytes, whole.kv_bytes);
  EXPECT_EQ(parts[0].memory.kv_bytes * layers(), whole.kv_bytes) << "tiny windows hold the whole context";
  EXPECT_LT(parts[0].memory.weights_bytes, whole.weights_bytes);
  EXPECT_LT(parts[1].memory.weights_bytes, whole.weights_bytes);
}

TEST_P(SplitModels, ForksAndRemovalsMoveThePagesOfBothDevices) {
  Loaded one(path(), "", 1, options_of(128, 16, {}));
  Split two(path(), options_of(128, 16, {1, layers() - 1}));
  const auto edited = [&](engine::Runner& runner) {
    std::vector<float> all;
    const auto run = [&](engine::Sequence& sequence, std::span<const int32_t> ids) {
      const auto logits = engine::append(runner, sequence, ids);
      all.insert(all.end(), logits.begin(), logits.end());
    };
    const auto ids = prompt();
    engine::Sequence sequence(runner.cache());
    run(sequence, std::span(ids).first(30));
    engine::Sequence fork = sequence.fork();
    run(fork, std::span(ids).subspan(5, 7));
    EXPECT_TRUE(sequence.remove(3, 9));
    run(sequence, std::span(ids).subspan(20, 6));
    run(fork, std::span(ids).first(2));
    return all;
  };
  EXPECT_TRUE(same_bits(edited(two.load()), edited(one.runner)));
}

TEST_P(SplitModels, PagesAreReadAndWrittenAcrossDevices) {
  Split two(path(), options_of(128, 16, {1, layers() - 1}));
  engine::Runner& runner = two.load();
  graph::KvStore& store = runner.cache().store();
  EXPECT_EQ(store.layout(), "cpu-page64+cpu-page64");
  engine::Sequence sequence(runner.cache());
  engine::append(runner, sequence, std::span<const int32_t>(prompt()).first(20));
  engine::Sequence restored(runner.cache());
  const std::vector<int64_t> first_pages(runner.cache().groups(), 0);
  ASSERT_TRUE(restored.restore(sequence.tokens(), first_pages));
  for (size_t group = 0; group < runner.cache().groups(); ++group) {
    std::vector<std::byte> page(static_cast<size_t>(store.page_bytes(static_cast<int32_t>(group))));
    store.read_page(static_cast<int32_t>(group), sequence.pages(group)[0], 20, page);
    store.write_page(static_cast<int32_t>(group), restored.pages(group)[0], page);
  }
  const std::vector<int32_t> next = {prompt()[3]};
  const auto expected = copy(engine::append(runner, sequence, next));
  EXPECT_TRUE(same_bits(engine::append(runner, restored, next), expected));
}

TEST_P(SplitModels, NoStepExceedsTheWorkspaceThatWasPlanned) {
  const model::Model model{gguf::File(path())};
  TestDevice device("one", kUnlimited);
  const graph::Backend* devices[] = {&device};
  for (const int64_t batch : {1, 2, 3, 5, 13, 64, 65, 100, 300}) {
    const auto options = exact_options(512, batch);
    const auto plan = engine::plan_placement(model, devices, options);
    std::set<graph::StepShape> shapes;
    for (int64_t tokens = 1; tokens <= batch; ++tokens) {
      for (int64_t outputs = 0; outputs <= std::min(tokens, options.outputs); ++outputs) {
        shapes.insert(graph::bucket_shape(tokens, outputs, batch));
      }
    }
    for (const graph::StepShape& shape : shapes) {
      const auto parts = engine::part_graphs(model, devices, plan.parts, shape, true);
      const auto bytes = [&](const graph::ValueType& type, int64_t rows) { return device.value_bytes(type, rows); };
      EXPECT_LE(graph::plan_memory(parts[0].graph, bytes).arena_bytes, plan.parts[0].memory.activation_bytes)
          << batch << ": " << shape.tokens << " x " << shape.outputs;
      EXPECT_LE(device.scratch_bytes(parts[0].graph, plan.parts[0].kv), plan.parts[0].memory.scratch_bytes);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, SplitModels,
                         ::testing::Values("llama", "llama_rope_yarn", "qwen2", "qwen3", "qwen2moe", "gemma3", "phi3",
                                           "olmo2", "cohere2"),
                         [](const auto& row) { return row.param; });

// --- the decision ---

const std::string kLlamaPath = golden_path("tiny/llama.gguf");

TEST(SplitPlan, TheFirstDeviceTakesTheLayersThatFitItsMemory) {
  const auto told = [](int64_t n) { return Split(kLlamaPath, options_of(64, 16, {n, 3 - n})).plan(); };
  for (const int64_t n : {1, 2}) {
    const int64_t bytes = told(n).parts[0].memory.total_bytes();
    const auto fitting = Split(kLlamaPath, options_of(64, 16, {}), bytes).plan();
    ASSERT_EQ(fitting.parts.size(), 2U);
    EXPECT_EQ(fitting.parts[0].layers, n);
    EXPECT_EQ(fitting.parts[1].first_layer, n);
    EXPECT_EQ(fitting.parts[1].layers, 3 - n);
    EXPECT_EQ(fitting.parts[0].memory.total_bytes(), bytes);
    const auto short_of = Split(kLlamaPath, options_of(64, 16, {}), bytes - 1).plan();
    EXPECT_EQ(short_of.parts[0].layers, n == 1 ? 3 : n - 1);
    EXPECT_EQ(short_of.parts[0].device, n == 1 ? 1U : 0U);
    EXPECT_EQ(short_of.unused.size(), n == 1 ? 1U : 0U);
  }
  const auto all = Split(kLlamaPath, options_of(64, 16, {})).plan();
  ASSERT_EQ(all.parts.size(), 1U);
  EXPECT_EQ(all.parts[0].layers, 3);
  EXPECT_EQ(all.parts[0].device, 0U);
}

TEST(SplitPlan, RefusesWithTheNumbersWhatFitsNeither) {
  const auto half = Split(kLlamaPath, options_of(64, 16, {1, 2})).plan();
  Split two(kLlamaPath, options_of(64, 16, {}), half.parts[0].memory.total_bytes(),
            half.parts[1].memory.total_bytes() - 1);
  const std::string error = error_of([&] { two.load(); });
  EXPECT_THAT(error, HasSubstr("out_of_memory: the model does not fit its devices; one needs "));
  EXPECT_THAT(error, HasSubstr("MB for layers 0 to 0 and has "));
  EXPECT_THAT(error, HasSubstr("; two needs "));
  EXPECT_THAT(error, HasSubstr("MB for layers 1 to 2 and has "));
  EXPECT_EQ(two.first.loaded_bytes + two.second.loaded_bytes, 0);
}

TEST(SplitPlan, ADeviceThatLacksAnOpGetsNoLayersAndTheLastOneIsRefused) {
  Split two(kLlamaPath, options_of(64, 16, {}));
  two.first.lacks = graph::Op::attention;
  const auto plan = two.plan();
  ASSERT_EQ(plan.parts.size(), 1U);
  EXPECT_EQ(plan.parts[0].device, 1U);
  ASSERT_EQ(plan.unused.size(), 1U);
  EXPECT_THAT(plan.unused[0], HasSubstr("one: device one does not run attention (attention): not on this device"));
  two.second.lacks = graph::Op::gather_rows;
  EXPECT_THAT(error_of([&] { two.load(); }),
              HasSubstr("unsupported: device two does not run gather_rows (outputs): not on this device"));
  EXPECT_EQ(two.first.loaded_bytes + two.second.loaded_bytes, 0);
}

TEST(SplitPlan, ADeviceThatLacksTheHeadsOpGetsTheLayersBeforeIt) {
  Split two(kLlamaPath, options_of(64, 16, {}));
  two.first.lacks = graph::Op::gather_rows;
  const auto plan = two.plan();
  ASSERT_EQ(plan.parts.size(), 2U);
  EXPECT_EQ(plan.parts[0].layers, 2);
  EXPECT_EQ(plan.parts[1].layers, 1);
}

TEST(SplitPlan, RefusesCountsThatAreNotTheModels) {
  for (const std::vector<int64_t>& counts : {std::vector<int64_t>{1, 1}, {3}, {4, -1}, {1, 1, 1}, {kUnlimited, 2}}) {
    EXPECT_THAT(error_of([&] { Split(kLlamaPath, options_of(64, 16, counts)).plan(); }),
                HasSubstr("expected 2 counts that sum to the model's 3 layers"));
  }
}

// --- workspaces ---

TEST(Workspaces, RunnersOfOneDeviceKeepTheirLogits) {
  const auto prompt = read_json(golden_path("tiny/llama.json")).at("prompt").get<std::vector<int32_t>>();
  const model::Model model{gguf::File(kLlamaPath)};
  TestDevice device("one", kUnlimited);
  engine::Runner small(model, device, exact_options(64, 4), nullptr);
  engine::Sequence sequence(small.cache());
  const auto logits = engine::append(small, sequence, prompt);
  const auto expected = copy(logits);
  engine::Runner large(model, device, exact_options(128, 128), nullptr);
  engine::Sequence other(large.cache());
  engine::append(large, other, std::span(prompt).first(9));
  EXPECT_TRUE(same_bits(logits, expected));
  engine::append(small, sequence, std::span(prompt).first(5));
  engine::Sequence again(large.cache());
  EXPECT_TRUE(same_bits(engine::append(large, again, prompt), expected));
}

TEST(Workspaces, StepsOfEveryCountRunAndMoreOutputsAreRefused) {
  const auto prompt = read_json(golden_path("tiny/llama.json")).at("prompt").get<std::vector<int32_t>>();
  const model::Model model{gguf::File(kLlamaPath)};
  TestDevice device("one", kUnlimited);
  engine::Runner runner(model, device, exact_options(512, 512), nullptr);
  const std::vector<int32_t> ids(200, prompt[0]);
  std::vector<int32_t> rows;
  for (int32_t row = 0; row < 65; ++row) rows.push_back(row);
  for (const size_t tokens : {65U, 96U, 128U, 200U}) {
    for (const size_t outputs : {0U, 1U, 9U, 33U, 64U}) {
      engine::Sequence sequence(runner.cache());
      ASSERT_TRUE(sequence.reserve(static_cast<int64_t>(tokens)));
      const graph::SequenceStep step[] = {sequence.step(0, static_cast<int64_t>(tokens))};
      const auto logits = runner.step({std::span(ids).first(tokens), std::span(rows).first(outputs), step});
      EXPECT_EQ(logits.size(), outputs * static_cast<size_t>(model.config().vocabulary));
    }
  }
  engine::Sequence sequence(runner.cache());
  ASSERT_TRUE(sequence.reserve(200));
  const graph::SequenceStep step[] = {sequence.step(0, 200)};
  EXPECT_EQ(error_of([&] { runner.step({ids, rows, step}); }),
            "invalid_input: logits of 65 rows in a step of 200 tokens; expected one a token, and at most 64");
  EXPECT_EQ(error_of([&] { runner.step({{}, {}, {}}); }), "invalid_input: a step of 0 tokens; expected 1 to 512");
}

TEST(Workspaces, OneThatIsTooSmallIsAnInternalError) {
  const model::Model model{gguf::File(kLlamaPath)};
  TestDevice device("one", kUnlimited);
  const graph::Backend* devices[] = {&device};
  const auto options = exact_options(64, 16);
  const auto plan = engine::plan_placement(model, devices, options);
  const graph::MemoryUse& use = plan.parts[0].memory;
  const auto weights = device.load_weights(model.weights(), nullptr);
  const auto kv = device.create_kv_store(plan.parts[0].kv);
  const auto compiled = [&](int64_t activation_bytes, int64_t scratch_bytes) {
    return error_of([&] {
      const auto workspace = device.create_workspace(activation_bytes, scratch_bytes);
      auto parts = engine::part_graphs(model, devices, plan.parts, engine::largest_shape(options), true);
      const auto bytes = [&](const graph::ValueType& type, int64_t rows) { return device.value_bytes(type, rows); };
      auto offsets = graph::plan_memory(parts[0].graph, bytes);
      device.compile(std::move(parts[0].graph), std::move(offsets), *weights, *kv, *workspace);
    });
  };
  EXPECT_EQ(compiled(use.activation_bytes, use.scratch_bytes), "no error");
  EXPECT_THAT(compiled(use.activation_bytes - 1, use.scratch_bytes), HasSubstr("internal: "));
  EXPECT_THAT(compiled(use.activation_bytes, use.scratch_bytes - 1), HasSubstr("internal: "));
}

// --- a real model ---

TEST(SplitModel, Smollm2InHalvesHasTheBitsOfOneDevice) {
  const std::string path = environment_options().model_dir + "/smollm2-135m.gguf";
  if (!std::ifstream(path).good()) {
    if (environment_options().require_models) FAIL() << path << " is absent";
    GTEST_SKIP() << path << " is absent; scripts/fetch-model smollm2-135m gets it";
  }
  const std::vector<int32_t> prompt = {504, 3575, 282, 4649, 314, 253, 2240, 28};
  auto options = options_of(256, 64, {});
  options.key_format = options.value_format = graph::KvFormat::f16;
  std::vector<float> expected;
  {
    Loaded one(path, "", 2, options);
    expected = all_logits(one.runner, prompt);
  }
  options.device_layers = {15, 15};
  Split two(path, options);
  EXPECT_TRUE(same_bits(all_logits(two.load(), prompt), expected));
  const auto parts = two.plan().parts;
  EXPECT_EQ(two.first.loaded_bytes, parts[0].memory.total_bytes());
  EXPECT_EQ(two.second.loaded_bytes, parts[1].memory.total_bytes());
  EXPECT_EQ(two.runner->copied_bytes(), (8 + 6) * 576 * 4);
}

}  // namespace
}  // namespace minfer::test
