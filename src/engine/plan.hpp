// What a model will take on a device, and whether the device has it: planned from the file's header, before anything is
// loaded. Pure but for the questions to the device, which are pure themselves: tensor data is not read, nothing is
// allocated. A plan is exact: loading allocates what it says, and a test holds the measured memory to within 3% of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/placement_plan.hpp"
#include "engine/runner.hpp"
#include "graph/backend.hpp"
#include "model/model.hpp"

namespace minfer::engine {

// A plan beyond it is refused: no machine has as much, and below it no sum of sizes overflows.
inline constexpr int64_t kMaxPlanBytes = int64_t{1} << 50;

// Errors: invalid_input for options out of range.
void check_options(const RunnerOptions& options);
// The options that a model runs with: an encoder's steps have room for a text of the whole context, and for the hidden
// state of each of its tokens. Errors: invalid_input for a context that an encoder can't have.
RunnerOptions options_for(const model::Config& config, RunnerOptions options);

// The KV cache of a model: layers of equal window are a group.
graph::KvSpec kv_spec(const model::Model& model, const RunnerOptions& options);

// What a cache takes on a device. Errors: out_of_memory beyond kMaxPlanBytes.
int64_t planned_kv_bytes(const graph::Backend& device, const graph::KvSpec& spec);

// The weights that a device holds in the same way.
struct LayoutUse {
  std::string_view dtype;
  std::string_view layout;
  graph::Format activation_format;  // in a step of one row
  bool copied;                      // false: read from the mapped file, whose pages the system may take back
  int64_t tensors = 0;
  int64_t bytes = 0;
};
std::vector<LayoutUse> weights_by_layout(const model::Model& model, const graph::Backend& device, const PartPlan& part);

// Whether a plan fits, and the number that decides it.
struct Budget {
  enum class Verdict { fits, too_large, unknown };
  Verdict verdict = Verdict::unknown;  // unknown: the device can't say what it has, and no limit was set
  int64_t needed_bytes = 0;
  int64_t budget_bytes = 0;  // what the device has available, or the limit where that is less; 0 if unknown
  bool limited = false;      // the limit decides
};
Budget decide_budget(const graph::MemoryUse& use, const graph::DeviceMemory& memory, std::optional<int64_t> limit);

// What makes the cache smaller, in the words of the command line.
std::string_view less_cache(const RunnerOptions& options);

// Errors: out_of_memory with the numbers and a way out where the plan does not fit.
void check_budget(const graph::MemoryUse& use, const graph::Backend& device, const RunnerOptions& options);

}  // namespace minfer::engine
