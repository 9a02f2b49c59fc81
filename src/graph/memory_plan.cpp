// Liveness and first-fit placement. See memory_plan.hpp.
#include "graph/memory_plan.hpp"

#include <algorithm>
#include <string_view>

#include "base/checked.hpp"
#include "base/error.hpp"

namespace minfer::graph {
namespace {

constexpr std::string_view kWhat = "bytes of activations";

struct Range {
  ValueId value;
  int64_t bytes;
  int32_t first;  // node index; -1 for inputs
  int32_t last;
  ValueId reuses;  // a value whose bytes this one takes over, or kNoValue
};

std::vector<Range> live_ranges(const Graph& graph, const ValueBytesFn& value_bytes) {
  std::vector<Range> ranges;
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const ValueType& type = graph.values[v].type;
    const int64_t bytes = type.format == Format::kv ? 0 : value_bytes(type, row_count(type, graph.shape));
    const int64_t aligned = checked_round_up(bytes, MemoryPlan::kAlignment, kWhat);
    ranges.push_back({static_cast<ValueId>(v), aligned, -1, -1, kNoValue});
  }
  const int32_t end = static_cast<int32_t>(graph.nodes.size());
  for (int32_t n = 0; n < end; ++n) {
    const Node& node = graph.nodes[static_cast<size_t>(n)];
    for (const ValueId output : node.outputs) {
      Range& range = ranges[static_cast<size_t>(output)];
      range.first = n;
      range.last = std::max(range.last, n);
    }
    for (const ValueId input : node.inputs) ranges[static_cast<size_t>(input)].last = n;
  }
  // Inputs and imports are filled before the first node, results are read after the last.
  for (const ValueId input : graph.inputs) ranges[static_cast<size_t>(input)].last = end;
  for (const ValueId value : graph.exports) ranges[static_cast<size_t>(value)].last = end;
  if (graph.logits != kNoValue) ranges[static_cast<size_t>(graph.logits)].last = end;
  return ranges;
}

// Lets the output of a linear, or of a sum of experts, take over a residual (the last input) that dies there.
void reuse_residuals(const Graph& graph, std::vector<Range>& ranges) {
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    const bool added =
        (node.op == Op::linear && node.inputs.size() == 2) || (node.op == Op::expert_sum && node.inputs.size() == 4);
    if (!added || node.inputs[0] == node.inputs.back()) continue;
    const Range& residual = ranges[static_cast<size_t>(node.inputs.back())];
    if (residual.last != static_cast<int32_t>(n)) continue;
    ranges[static_cast<size_t>(node.outputs[0])].reuses = node.inputs.back();
  }
}

// The lowest offset at which `bytes` fit beside the placed ranges that live at the same time.
int64_t lowest_fit(const std::vector<const Range*>& placed, const std::vector<int64_t>& offsets, const Range& range) {
  std::vector<std::pair<int64_t, int64_t>> taken;
  for (const Range* other : placed) {
    if (other->first <= range.last && range.first <= other->last) {
      const int64_t offset = offsets[static_cast<size_t>(other->value)];
      taken.emplace_back(offset, offset + other->bytes);  // within the arena, which was checked
    }
  }
  std::sort(taken.begin(), taken.end());
  int64_t at = 0;
  for (const auto& [begin, end] : taken) {
    if (checked_add(at, range.bytes, kWhat) <= begin) break;
    at = std::max(at, end);
  }
  return at;
}

}  // namespace

MemoryPlan plan_memory(const Graph& graph, const ValueBytesFn& value_bytes) {
  std::vector<Range> ranges = live_ranges(graph, value_bytes);
  reuse_residuals(graph, ranges);
  // A chain of takeovers is placed once, as one range over the chain's whole life.
  std::vector<ValueId> root(ranges.size());
  for (size_t v = 0; v < ranges.size(); ++v) {
    root[v] = ranges[v].reuses == kNoValue ? static_cast<ValueId>(v) : root[static_cast<size_t>(ranges[v].reuses)];
    Range& first = ranges[static_cast<size_t>(root[v])];
    first.last = std::max(first.last, ranges[v].last);
  }
  std::vector<Range*> order;
  for (size_t v = 0; v < ranges.size(); ++v) {
    if (root[v] == static_cast<ValueId>(v) && ranges[v].bytes > 0) order.push_back(&ranges[v]);
  }
  std::stable_sort(order.begin(), order.end(), [](const Range* a, const Range* b) { return a->bytes > b->bytes; });

  MemoryPlan plan;
  plan.offsets.assign(ranges.size(), -1);
  std::vector<const Range*> placed;
  for (const Range* range : order) {
    const int64_t offset = lowest_fit(placed, plan.offsets, *range);
    plan.offsets[static_cast<size_t>(range->value)] = offset;
    plan.arena_bytes = std::max(plan.arena_bytes, checked_add(offset, range->bytes, kWhat));
    placed.push_back(range);
  }
  for (size_t v = 0; v < ranges.size(); ++v) plan.offsets[v] = plan.offsets[static_cast<size_t>(root[v])];
  return plan;
}

MemoryPlan plan_memory_within(const Graph& graph, const ValueBytesFn& value_bytes, const MemoryPlan& largest) {
  MemoryPlan plan = plan_memory(graph, value_bytes);
  if (plan.arena_bytes <= largest.arena_bytes) return plan;
  check(plan.offsets.size() == largest.offsets.size(), "a plan of another graph");
  return largest;
}

int64_t MemoryUse::total_bytes() const {
  int64_t total = 0;
  for (const int64_t part : {weights_bytes, kv_bytes, activation_bytes, scratch_bytes}) {
    total = checked_add(total, part, "bytes of the loaded model");
  }
  return total;
}

}  // namespace minfer::graph
