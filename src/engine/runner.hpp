// A model on a device, ready to run steps: its weights, its KV pages, and the executables of the step shapes met so
// far. What it takes in memory is planned from the header (plan.hpp) and checked against the device before anything is
// loaded. One thread, the engine's, makes all calls. The Model and the Backend outlive the runner.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/kv/kv_cache.hpp"
#include "graph/backend.hpp"
#include "model/model.hpp"

namespace minfer::engine {

struct RunnerOptions {
  int64_t context_tokens = 4096;  // the most tokens of a sequence
  int64_t batch_tokens = 512;     // most tokens of one step
  graph::KvFormat key_format = graph::KvFormat::f16;
  graph::KvFormat value_format = graph::KvFormat::f16;
  bool fuse = true;       // false: run the graph as the model wrote it, for comparing
  int64_t sequences = 1;  // how many of the context's length the KV cache holds at once
  std::optional<int64_t> memory_limit_bytes = std::nullopt;  // of the device; beyond it loading is refused
};

inline constexpr int64_t kMaxBatchTokens = 1 << 16;
inline constexpr int64_t kMaxContextTokens = int64_t{1} << 30;
inline constexpr int64_t kMaxSequences = graph::kMaxOutputs;

// The graph of a step shape as the device will run it.
graph::Graph device_graph(const model::Model& model, const graph::Backend& device, const graph::StepShape& shape,
                          bool fuse);

class Runner {
 public:
  // Plans, checks the budget, loads. Errors: those of planning, budget and loading.
  Runner(const model::Model& model, graph::Backend& device, const RunnerOptions& options,
         const graph::ProgressFn& progress);

  const model::Model& model() const { return model_; }
  const graph::MemoryUse& memory() const { return memory_; }
  const RunnerOptions& options() const { return options_; }
  const graph::KvSpec& kv_spec() const { return kv_spec_; }
  KvCache& cache() { return *cache_; }

  // Errors: invalid_input for an id that is not in the vocabulary.
  void check_tokens(std::span<const int32_t> ids) const;
  // Runs one step of at most batch_tokens rows and kMaxOutputs outputs; ids are checked (check_tokens).
  // Returns logits [outputs][vocabulary], valid until the next step.
  std::span<const float> step(const graph::StepData& data);

 private:
  graph::Executable& executable(const graph::StepShape& shape);

  const model::Model& model_;
  graph::Backend& device_;
  RunnerOptions options_;
  graph::KvSpec kv_spec_;
  graph::MemoryUse memory_;
  std::unique_ptr<graph::WeightSet> weights_;
  std::unique_ptr<graph::KvStore> kv_;
  std::unique_ptr<KvCache> cache_;
  std::map<graph::StepShape, std::unique_ptr<graph::Executable>> executables_;
};

}  // namespace minfer::engine
