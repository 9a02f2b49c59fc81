// Placement: which device runs each node, decided once when a graph is compiled and never changed. A node goes to the
// first device, in order of preference, whose op table runs it; there is no second path.
#pragma once

#include <span>
#include <vector>

#include "graph/backend.hpp"

namespace minfer::graph {

// For each node the index of its device. Errors: unsupported, naming the op and every device's reason.
std::vector<int32_t> place(const Graph& graph, std::span<const Backend* const> devices);

}  // namespace minfer::graph
