// A model on its devices, ready to run steps: weights, KV pages and workspaces, and the executables of the step shapes
// met so far. Which layers go where and what they take is planned from the header and checked against the devices
// before anything is loaded (plan.hpp, placement_plan.hpp). Parts run in the order of the layers; rows of the hidden
// state are copied from one to the next. One thread, the engine's, makes all calls. The Model and the Backends outlive
// the runner.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/kv/kv_cache.hpp"
#include "engine/placement_plan.hpp"
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
  int64_t outputs = 64;   // most rows of logits of one step, and most sequences of one
  // Layers on each of the devices, in order; empty: as many as each has memory for.
  std::vector<int64_t> device_layers;
  // Of each device, where it is less than what the device has available; beyond it loading is refused.
  std::optional<int64_t> memory_limit_bytes = std::nullopt;
  int64_t program_bytes = 0;  // that the program takes on the last device beside the model; part of the plan's scratch
};

inline constexpr int64_t kMaxBatchTokens = 1 << 16;
inline constexpr int64_t kMaxContextTokens = int64_t{1} << 30;
inline constexpr int64_t kMaxSequences = 1024;

class Runner {
 public:
  // Plans for the devices, in order of preference; checks the budgets; loads. Errors: those of planning, budget and
  // loading.
  Runner(const model::Model& model, std::span<graph::Backend* const> devices, const RunnerOptions& options,
         const graph::ProgressFn& progress);
  // On one device.
  Runner(const model::Model& model, graph::Backend& device, const RunnerOptions& options,
         const graph::ProgressFn& progress);

  const model::Model& model() const { return model_; }
  // That of the most layers.
  graph::Backend& main_device() const;
  // Of all parts.
  graph::MemoryUse memory() const;
  const RunnerOptions& options() const { return options_; }
  const graph::KvSpec& kv_spec() const { return kv_spec_; }
  KvCache& cache() { return *cache_; }
  // Copied from device to device by all steps so far.
  int64_t copied_bytes() const { return copied_bytes_; }

  // Errors: invalid_input for an id that is not in the vocabulary.
  void check_tokens(std::span<const int32_t> ids) const;
  // Starts one step of at most batch_tokens rows and `outputs` outputs; ids are checked (check_tokens). Steps are
  // waited for in their order; one that gives no logits may be submitted while one other is in flight that gives none,
  // where runs_ahead(). Errors: those of Executable::submit; nothing is to be waited for then.
  void submit(const graph::StepData& data);
  // Whether its model is an encoder: steps have whole texts, and give hidden states alone.
  bool encodes() const { return model_.config().encoder; }
  // The result of the earliest step in flight, valid until the next submit(). Errors: device; that step is over then.
  graph::StepResult wait();
  // Both; returns the logits.
  std::span<const float> step(const graph::StepData& data);
  int64_t in_flight() const { return in_flight_; }
  // Which layers are where.
  const PlacementPlan& placement() const { return placement_; }
  // Whether steps may ask for draws; and whether such steps may be submitted behind one in flight.
  bool draws() const { return devices_[placement_.parts.back().device]->draws(); }
  bool runs_ahead() const { return placement_.parts.size() == 1 && draws(); }

 private:
  // What a part has on its device.
  struct Loaded {
    std::unique_ptr<graph::WeightSet> weights;
    std::unique_ptr<graph::KvStore> kv;
    std::unique_ptr<graph::Workspace> workspace;
  };
  // A part's executable for one shape.
  struct Stage {
    std::unique_ptr<graph::Executable> executable;
    std::vector<graph::PartImport> imports;
  };

  void load(const graph::ProgressFn& progress);
  void check_step(const graph::StepData& data) const;
  void check_texts(const graph::StepData& data) const;
  std::span<const Stage> stages(const graph::StepShape& shape);

  const model::Model& model_;
  std::vector<graph::Backend*> devices_;
  RunnerOptions options_;
  graph::KvSpec kv_spec_;
  PlacementPlan placement_;
  std::vector<Loaded> loaded_;                // by part
  std::unique_ptr<graph::KvStore> split_kv_;  // over the parts' stores, where there are several
  std::unique_ptr<KvCache> cache_;
  std::map<graph::StepShape, std::vector<Stage>> stages_;
  std::vector<std::span<const float>> imports_;                             // of the stage that runs
  std::array<graph::Executable*, graph::kMostStepsInFlight> waited_for_{};  // the earliest first
  int64_t in_flight_ = 0;
  bool gives_logits_ = false;  // the last step submitted
  int64_t last_draws_ = 0;     // of that step
  int64_t copied_bytes_ = 0;
};

}  // namespace minfer::engine
