// The memory plan against the memory that a process takes: each model is loaded in a process of its own, its context is
// filled and the largest steps are run, and the growth of the anonymous memory (RssAnon of /proc/self/status) is held
// to the plan. Weights that stay in the mapped file are not anonymous: they are left out of both sides. Not built under
// a sanitizer, whose allocator keeps memory of its own.
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>

#include "base/options.hpp"
#include "engine/forward.hpp"
#include "engine/plan.hpp"
#include "model_runs.hpp"

namespace minfer::test {
namespace {

constexpr double kTolerance = 0.03;

struct Case {
  std::string model;
  int64_t context;
  graph::KvFormat format;
  friend void PrintTo(const Case& row, std::ostream* out) { *out << row.model; }
};

int64_t anonymous_bytes() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("RssAnon:")) return std::stoll(line.substr(8)) * 1024;
  }
  return -1;
}

struct Measured {
  int64_t planned_bytes;  // without what stays in the file
  int64_t grown_bytes;
  graph::MemoryUse use;
};

// Fills the context in the largest steps, the last of them with the most rows of logits.
void fill(engine::Runner& runner, int64_t context) {
  engine::Sequence sequence(runner.cache());
  std::vector<int32_t> ids(static_cast<size_t>(context));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(100 + i % 1000);
  engine::append_scored(runner, sequence, ids, context - runner.options().outputs,
                        [](int64_t, std::span<const float>) {});
}

Measured measure(const Case& row, const std::string& path) {
  const model::Model model{gguf::File(path)};
  const graph::Registry registry(cpu_factory(), {0, {}});
  engine::RunnerOptions options;
  options.context_tokens = row.context;
  options.key_format = options.value_format = row.format;
  const int64_t before = anonymous_bytes();
  engine::Runner runner(model, registry.preferred(), options, {});
  fill(runner, row.context);
  Measured measured{runner.memory().total_bytes(), anonymous_bytes() - before, runner.memory()};
  const graph::Backend* devices[] = {&registry.preferred()};
  const engine::PlacementPlan plan = engine::plan_placement(model, devices, options);
  for (const engine::LayoutUse& layout : engine::weights_by_layout(model, *devices[0], plan.parts[0])) {
    if (!layout.copied) measured.planned_bytes -= layout.bytes;
  }
  return measured;
}

// In a process of its own, which starts without threads and without the memory of tests before it.
std::optional<Measured> measure_apart(const Case& row, const std::string& path) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) return std::nullopt;
  const pid_t child = ::fork();
  if (child == 0) {
    int code = 1;
    try {
      const Measured measured = measure(row, path);
      if (::write(ends[1], &measured, sizeof measured) == sizeof measured) code = 0;
    } catch (const std::exception& error) {
      fmt::print(stderr, "{}\n", error.what());
    }
    ::_exit(code);
  }
  ::close(ends[1]);
  Measured measured{};
  const bool whole = ::read(ends[0], &measured, sizeof measured) == sizeof measured;
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return whole && status == 0 ? std::optional(measured) : std::nullopt;
}

class PlannedMemory : public ::testing::TestWithParam<Case> {};

TEST_P(PlannedMemory, IsWhatAProcessTakes) {
  const std::string path = environment_options().model_dir + "/" + GetParam().model + ".gguf";
  if (!std::filesystem::exists(path)) {
    ASSERT_FALSE(environment_options().require_models) << path << " is absent";
    GTEST_SKIP() << path << " is absent; scripts/fetch-model " << GetParam().model << " fetches it";
  }
  const auto measured = measure_apart(GetParam(), path);
  ASSERT_TRUE(measured.has_value());
  const double ratio = static_cast<double>(measured->grown_bytes) / static_cast<double>(measured->planned_bytes);
  fmt::print(
      "{}: planned {:.1f} MB (weights {:.1f}, KV {:.1f}, activations {:.1f}, scratch {:.1f}), measured {:.1f} MB: "
      "{:.4f}\n",
      GetParam().model, static_cast<double>(measured->planned_bytes) / 1e6,
      static_cast<double>(measured->use.weights_bytes) / 1e6, static_cast<double>(measured->use.kv_bytes) / 1e6,
      static_cast<double>(measured->use.activation_bytes) / 1e6, static_cast<double>(measured->use.scratch_bytes) / 1e6,
      static_cast<double>(measured->grown_bytes) / 1e6, ratio);
  EXPECT_NEAR(ratio, 1.0, kTolerance);
}

INSTANTIATE_TEST_SUITE_P(Models, PlannedMemory,
                         ::testing::Values(Case{"smollm2-135m", 1024, graph::KvFormat::f16},
                                           Case{"smollm2-135m", 640, graph::KvFormat::f32},
                                           Case{"smollm2-135m", 4096, graph::KvFormat::q8_0},
                                           Case{"qwen2.5-coder-0.5b", 1024, graph::KvFormat::f16},
                                           Case{"qwen2.5-coder-0.5b", 640, graph::KvFormat::f32},
                                           Case{"gemma3-270m", 1280, graph::KvFormat::f16}));

// The tiny model's cache is small enough to be counted at the largest options; what can't be is refused (cli_test.py
// has a header whose product overflows).
TEST(Plan, CountsTheLargestOptions) {
  const model::Model model{gguf::File(golden_path("tiny/llama.gguf"))};
  const graph::Registry registry(cpu_factory(), {1, {}});
  const auto options = exact_options(engine::kMaxContextTokens, engine::kMaxBatchTokens, engine::kMaxSequences);
  const graph::MemoryUse use = planned_memory(model, registry.preferred(), options);
  EXPECT_EQ(use.kv_bytes, engine::kMaxContextTokens * engine::kMaxSequences * 3 * 2 * 32 * 4);
  EXPECT_EQ(engine::decide_budget(use, registry.preferred().memory(), std::nullopt).verdict,
            engine::Budget::Verdict::too_large);
}

TEST(Plan, HoldsOfAWindowLayerTheWindowAndAStep) {
  const model::Model model{gguf::File(golden_path("tiny/gemma3.gguf"))};
  const graph::KvSpec spec = engine::kv_spec(model, exact_options(100000, 64, 3));
  ASSERT_EQ(spec.groups.size(), 2u);
  size_t layers = 0;
  for (const graph::KvGroup& group : spec.groups) {
    layers += group.layers.size();
    const int64_t pages = group.window == 0 ? (100000 + 63) / 64 : (group.window + 64 + 63) / 64 + 1;
    EXPECT_EQ(group.pages, 3 * pages) << group.window;
  }
  EXPECT_EQ(static_cast<int64_t>(layers), model.config().layers);
}

TEST(Plan, CountsTheLayersThatFit) {
  const model::Model model{gguf::File(golden_path("tiny/llama.gguf"))};
  const graph::Registry registry(cpu_factory(), {1, {}});
  const graph::Backend& device = registry.preferred();
  const graph::Backend* devices[] = {&device, &device};
  engine::RunnerOptions options = exact_options(256, 64);
  const auto layers_within = [&](int64_t bytes) {
    options.memory_limit_bytes = bytes;
    return engine::layers_that_fit(model, device, options);
  };
  // What the first layers take when the others are elsewhere.
  const auto bytes_of = [&](std::vector<int64_t> layers) {
    engine::RunnerOptions told = options;
    told.device_layers = std::move(layers);
    return engine::plan_placement(model, devices, told).parts[0].memory.total_bytes();
  };
  const int64_t all = planned_memory(model, device, options).total_bytes();
  EXPECT_EQ(layers_within(0), 0);
  EXPECT_EQ(layers_within(bytes_of({1, 2}) - 1), 0);
  EXPECT_EQ(layers_within(bytes_of({1, 2})), 1);
  EXPECT_EQ(layers_within(bytes_of({2, 1}) - 1), 1);
  EXPECT_EQ(layers_within(bytes_of({2, 1})), 2);
  EXPECT_EQ(layers_within(all - 1), 2);
  EXPECT_EQ(layers_within(all), 3);
}

TEST(Plan, CountsTheProgramOnTheLastDevice) {
  const model::Model model{gguf::File(golden_path("tiny/llama.gguf"))};
  const graph::Registry registry(cpu_factory(), {1, {}});
  const std::vector<graph::Backend*> devices(2, &registry.preferred());
  engine::RunnerOptions options = exact_options(64, 64);
  options.device_layers = {1, 2};
  const engine::PlacementPlan without = engine::plan_placement(model, devices, options);
  options.program_bytes = 12345678;
  const engine::PlacementPlan with = engine::plan_placement(model, devices, options);
  EXPECT_EQ(with.parts[0].memory.scratch_bytes, without.parts[0].memory.scratch_bytes);
  EXPECT_EQ(with.parts[1].memory.scratch_bytes, without.parts[1].memory.scratch_bytes + options.program_bytes);
  EXPECT_EQ(with.parts[1].kernel_scratch_bytes, without.parts[1].memory.scratch_bytes);
  options.memory_limit_bytes = with.parts[1].memory.total_bytes() - 1;
  EXPECT_THROW(engine::Runner(model, devices, options, {}), Error);
  options.memory_limit_bytes = with.parts[1].memory.total_bytes();
  EXPECT_EQ(engine::Runner(model, devices, options, {}).memory().scratch_bytes,
            without.parts[0].memory.scratch_bytes + with.parts[1].memory.scratch_bytes);
}

class LayoutPlan : public ::testing::TestWithParam<const char*> {};

TEST_P(LayoutPlan, WeightsByLayoutSumToThePlan) {
  const model::Model model{gguf::File(golden_path(fmt::format("tiny/{}.gguf", GetParam())))};
  for (const std::string& isa : available_isas()) {
    const graph::Registry registry(cpu_factory(), {1, isa});
    const graph::Backend* devices[] = {&registry.preferred()};
    const engine::PartPlan whole = engine::plan_placement(model, devices, exact_options(64, 64)).parts[0];
    int64_t bytes = 0, tensors = 0;
    for (const engine::LayoutUse& layout : engine::weights_by_layout(model, *devices[0], whole)) {
      bytes += layout.bytes;
      tensors += layout.tensors;
    }
    EXPECT_EQ(bytes, whole.memory.weights_bytes) << isa;
    EXPECT_EQ(tensors, static_cast<int64_t>(model.weights().size())) << isa;
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, LayoutPlan, ::testing::Values("qwen2", "qwen3moe"));

}  // namespace
}  // namespace minfer::test
