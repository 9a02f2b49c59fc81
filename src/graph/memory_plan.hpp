// Where the values of a graph lie while it runs: one arena, offsets by liveness. A value lives from the node that makes
// it to its last reader; values that do not live together share bytes. The residual of a linear or an expert_sum may be
// overwritten by its output where nothing reads it later (the kernels allow that alias). Pure: a graph and the device's
// size of a value in, offsets out. Invariant, tested on random graphs: two values that live at the same time never
// overlap.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "graph/ir.hpp"

namespace minfer::graph {

// Bytes of a value of `rows` rows on the device at hand (its formats and strides).
using ValueBytesFn = std::function<int64_t(const ValueType& type, int64_t rows)>;

struct MemoryPlan {
  static constexpr int64_t kAlignment = 64;
  std::vector<int64_t> offsets;  // by ValueId, bytes from the arena's start; -1 for a value without storage (kv)
  int64_t arena_bytes = 0;
};

// Errors: out_of_memory where the arena's size is beyond 64 bits.
MemoryPlan plan_memory(const Graph& graph, const ValueBytesFn& value_bytes);

// For a step shape of which `largest` is the plan of a larger one: takes no more bytes than that. First fit is a
// heuristic, so that a smaller step may come out larger; then the larger one's offsets serve it. Errors: internal where
// the two graphs have other values.
MemoryPlan plan_memory_within(const Graph& graph, const ValueBytesFn& value_bytes, const MemoryPlan& largest);

// What a loaded model takes on a device, by purpose.
struct MemoryUse {
  int64_t weights_bytes = 0;
  int64_t kv_bytes = 0;
  int64_t activation_bytes = 0;  // the arena of the largest step
  int64_t scratch_bytes = 0;     // what kernels need beside the values
  int64_t total_bytes() const;   // Errors: out_of_memory where the sum is beyond 64 bits
};

}  // namespace minfer::graph
