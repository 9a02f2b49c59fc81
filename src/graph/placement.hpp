// Placement: which device runs each node. It is decided by layers, before anything is loaded, and never changes: a
// device runs a range of layers with all their nodes, the first one also the embedding, the last one also the output
// head. There is no second path: a device that lacks an op, a layout or the memory for a layer gets another range, or
// the load is refused.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/backend.hpp"

namespace minfer::graph {

// For each node of a model's graph its part: part p has the layers from first_layers[p] up to those of the next.
// `first_layers` ascends from 0. What stands before the first layer goes with it, what follows the last likewise.
std::vector<int32_t> place(const Graph& graph, std::span<const WeightShape> weights,
                           std::span<const int64_t> first_layers);

// Errors: unsupported, naming the op and the device's reason, for a part with a node that the device does not run.
void check_supported(const Graph& graph, const Backend& device);

// The most leading layers that fit into `budget_bytes` of a device, where layer i takes layer_bytes[i], any of them
// take `beside_bytes` more. Pure.
int64_t largest_prefix(std::span<const int64_t> layer_bytes, int64_t beside_bytes, int64_t budget_bytes);

}  // namespace minfer::graph
