// What the tests that run whole models share: golden files, a model on the CPU with one instruction set, greedy runs,
// and distances between logits. A Loaded owns everything that its runner needs; one thread uses it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/options.hpp"
#include "devices.hpp"
#include "engine/forward.hpp"
#include "engine/placement_plan.hpp"
#include "engine/runner.hpp"
#include "model/model.hpp"

namespace minfer::test {

inline std::string golden_path(const std::string& name) {
  return std::string(MINFER_SOURCE_DIR) + "/tests/golden/" + name;
}

inline nlohmann::json read_json(const std::string& path) {
  std::ifstream in(path);
  EXPECT_TRUE(in.good()) << path;
  return nlohmann::json::parse(in);
}

// The CPU alone: bounds and bits of these tests are its own, also where there is a card.
inline std::vector<graph::DeviceFactory> cpu_factory() {
  return {device_factories().back()};
}

// The instruction sets that this machine has.
inline std::vector<std::string> available_isas() {
  std::vector<std::string> isas;
  for (const char* isa : {"scalar", "avx2", "avxvnni", "avx512", "amx"}) {
    try {
      const graph::Registry registry(cpu_factory(), {1, isa});
      isas.emplace_back(isa);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported) << error.what();
    }
  }
  return isas;
}

inline engine::RunnerOptions exact_options(int64_t context, int64_t batch, int64_t sequences = 1) {
  engine::RunnerOptions options;
  options.context_tokens = context;
  options.sequences = sequences;
  options.batch_tokens = batch;
  options.key_format = options.value_format = graph::KvFormat::f32;
  return options;
}

inline engine::RunnerOptions fast_options(int64_t context, int64_t batch, bool fuse = true) {
  engine::RunnerOptions options;
  options.context_tokens = context;
  options.batch_tokens = batch;
  options.fuse = fuse;
  return options;
}

// What the whole model takes on a device.
inline graph::MemoryUse planned_memory(const model::Model& model, const graph::Backend& device,
                                       const engine::RunnerOptions& options) {
  const graph::Backend* devices[] = {&device};
  return engine::plan_placement(model, devices, options).parts[0].memory;
}

inline std::string model_path(const std::string& name) {
  return environment_options().model_dir + "/" + name + ".gguf";
}

// Whether a test of this file can't run; fails it where models are required.
inline bool is_absent(const std::string& path) {
  if (std::filesystem::exists(path)) return false;
  EXPECT_FALSE(environment_options().require_models) << path << " is absent";
  return true;
}

// A model file on the CPU, ready to run.
struct Loaded {
  Loaded(const std::string& path, const std::string& isa, int threads, const engine::RunnerOptions& options)
      : model(gguf::File(path)),
        registry(cpu_factory(), {threads, isa}),
        runner(model, registry.preferred(), options, {}) {}

  model::Model model;
  graph::Registry registry;
  engine::Runner runner;
};

// A tiny model with the adapters of its golden file <name>.lora.json, each at 1.
struct Adapted {
  explicit Adapted(const std::string& name)
      : golden(read_json(golden_path("tiny/" + name + ".lora.json"))),
        model(gguf::File(golden_path("tiny/" + name + ".gguf"))),
        prompt(golden.at("prompt").get<std::vector<int32_t>>()) {
    for (const auto& file : golden.at("adapters")) {
      model.add_adapter(gguf::File(golden_path("tiny/" + file.get<std::string>())), 1.0F);
    }
  }

  nlohmann::json golden;
  model::Model model;
  std::vector<int32_t> prompt;
};

// The index of the largest, the lowest on ties.
inline int32_t argmax(std::span<const float> values) {
  return static_cast<int32_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

inline constexpr size_t kCompared = 4;  // of the golden files: prompt positions, and as many decode steps

// Logits of the prompt's last positions and of the first steps, and the greedy continuation.
struct Trace {
  std::vector<std::vector<float>> logits;
  std::vector<int32_t> greedy;
};

// The prompt in steps of the runner's batch, then `steps` greedy tokens. `scales`: of the model's adapters.
inline Trace trace(engine::Runner& runner, const std::vector<int32_t>& prompt, size_t steps,
                   std::span<const float> scales = {}) {
  Trace result;
  engine::Sequence sequence(runner.cache(), false, scales);
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

inline float largest_magnitude(std::span<const float> values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::fabs(value));
  return largest;
}

// The largest difference, relative to the largest magnitude of `expected`; infinite for a NaN or another size.
inline double relative_error(std::span<const float> actual, std::span<const float> expected) {
  if (actual.size() != expected.size()) return INFINITY;
  double worst = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double difference = std::fabs(static_cast<double>(actual[i]) - static_cast<double>(expected[i]));
    if (!(difference <= worst)) worst = std::isnan(difference) ? INFINITY : difference;
  }
  return worst / static_cast<double>(largest_magnitude(expected));
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace minfer::test
