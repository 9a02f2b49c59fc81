// Which layers of a model go to which device, and what each device then takes: decided from the file's header and what
// the devices report, before anything is loaded. Devices are filled in order: each takes as many leading layers as fit,
// the last one the rest. The first part also has the embedding, the last one the output head; a weight that both need
// is loaded by both. The plan is pure but for the devices' answers about their memory.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/backend.hpp"
#include "graph/split.hpp"
#include "model/model.hpp"

namespace minfer::engine {

struct RunnerOptions;

// The devices that a model may use, in order of preference; at least one.
using Devices = std::span<const graph::Backend* const>;

// What a device does with a product in steps of one shape.
struct Reader {
  tensor::DType dtype;
  int64_t experts;
  graph::Rows rows;
  auto operator<=>(const Reader&) const = default;
};

struct ReaderTraits {
  graph::Format format;  // that it reads
  bool takes_norm;       // the norm before it can be part of it
  auto operator<=>(const ReaderTraits&) const = default;
};

// Step shapes whose products a device treats alike: their graphs have the same values, and those of the largest bound
// all others.
struct StepRegime {
  std::vector<ReaderTraits> traits;  // by PartPlan::readers
  bool hidden;                       // of shapes of that kind, which end without the output matrix
  graph::MemoryPlan largest;         // of the largest shape's graph
};

// Consecutive layers on one device.
struct PartPlan {
  size_t device;  // index into the devices
  int64_t first_layer;
  int64_t layers;
  std::vector<graph::WeightRole> roles;      // by weight id: what the part uses each for
  std::vector<graph::WeightLayout> layouts;  // by weight id; of no bytes where the role is `elsewhere`
  graph::KvSpec kv;                          // groups and layers as in the whole model's, less the layers elsewhere
  // What the part's products are made of: types of weights, and which rows they read.
  std::vector<Reader> readers;
  std::vector<StepRegime> regimes;
  int64_t kernel_scratch_bytes = 0;  // of memory.scratch_bytes, without RunnerOptions::program_bytes
  graph::MemoryUse memory;
};

struct PlacementPlan {
  std::vector<PartPlan> parts;      // in order of execution
  std::vector<std::string> unused;  // for people: why a device that was offered got no layers
};

// With options.device_layers as they say, else by what the devices have available. Errors: invalid_input for options
// out of range; unsupported, naming node, weight or cache, where a part's device can't run it, or the last device the
// rest.
PlacementPlan plan_placement(const model::Model& model, Devices devices, const RunnerOptions& options);

// Errors: out_of_memory with the numbers where a device has less than its part takes, or the options' limit is less.
void check_budgets(const PlacementPlan& plan, Devices devices, const RunnerOptions& options);

// How many layers a device would hold, from the first on, with the embedding; the output head too where it is all.
int64_t layers_that_fit(const model::Model& model, const graph::Backend& device, const RunnerOptions& options);

// The step shape that no step of a runner exceeds.
graph::StepShape largest_shape(const RunnerOptions& options);

// The memory plan that bounds those of a shape on the part's device.
const graph::MemoryPlan& largest_plan(const PartPlan& part, const graph::Backend& device,
                                      const graph::StepShape& shape);

// The graphs of a step shape as the parts' devices will run them.
std::vector<graph::Part> part_graphs(const model::Model& model, Devices devices, std::span<const PartPlan> parts,
                                     const graph::StepShape& shape, bool fuse);

}  // namespace minfer::engine
