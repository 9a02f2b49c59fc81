// Layers to devices. See placement.hpp.
#include "graph/placement.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace minfer::graph {
namespace {

// The layer that a node shows to belong to: by a weight, or by the cache that it accesses.
int32_t shown_layer(const Node& node, std::span<const WeightShape> weights) {
  for (const WeightId id : node.weights) {
    if (id != kNoWeight && weights[static_cast<size_t>(id)].layer != kNoLayer) {
      return weights[static_cast<size_t>(id)].layer;
    }
  }
  if (const auto* append = std::get_if<KvAppendAttributes>(&node.attributes)) return append->layer;
  if (const auto* attention = std::get_if<AttentionAttributes>(&node.attributes)) return attention->layer;
  return kNoLayer;
}

}  // namespace

std::vector<int32_t> place(const Graph& graph, std::span<const WeightShape> weights,
                           std::span<const int64_t> first_layers) {
  check(!first_layers.empty() && first_layers[0] == 0, "place: the first part begins at layer 0");
  std::vector<int32_t> parts;
  // Nodes are in order of execution: one that shows no layer goes with what ran before it.
  int64_t layer = 0;
  for (const Node& node : graph.nodes) {
    layer = std::max<int64_t>(layer, shown_layer(node, weights));
    const auto next = std::upper_bound(first_layers.begin(), first_layers.end(), layer);
    parts.push_back(static_cast<int32_t>(next - first_layers.begin()) - 1);
  }
  return parts;
}

void check_supported(const Graph& graph, const Backend& device) {
  for (const Node& node : graph.nodes) {
    if (const auto reason = device.unsupported_reason(graph, node)) {
      fail(ErrorCode::unsupported, "device {} does not run {} ({}): {}", device.name(), op_name(node.op),
           graph.values[static_cast<size_t>(node.outputs[0])].name, *reason);
    }
  }
}

int64_t largest_prefix(std::span<const int64_t> layer_bytes, int64_t beside_bytes, int64_t budget_bytes) {
  int64_t left = budget_bytes - beside_bytes;
  int64_t fitting = 0;
  for (const int64_t bytes : layer_bytes) {
    left -= bytes;
    if (left < 0) break;
    ++fitting;
  }
  return fitting;
}

}  // namespace minfer::graph
