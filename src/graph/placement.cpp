// Placement by the devices' op tables. See placement.hpp.
#include "graph/placement.hpp"

#include "base/error.hpp"

namespace minfer::graph {

std::vector<int32_t> place(const Graph& graph, std::span<const Backend* const> devices) {
  std::vector<int32_t> placement;
  for (const Node& node : graph.nodes) {
    std::string reasons;
    int32_t chosen = -1;
    for (size_t d = 0; d < devices.size() && chosen < 0; ++d) {
      const auto reason = devices[d]->unsupported_reason(graph, node);
      if (!reason) {
        chosen = static_cast<int32_t>(d);
      } else {
        reasons += fmt::format("; {}: {}", devices[d]->name(), *reason);
      }
    }
    if (chosen < 0) {
      const std::string& name = graph.values[static_cast<size_t>(node.outputs[0])].name;
      fail(ErrorCode::unsupported, "no device runs {} ({}){}", op_name(node.op), name, reasons);
    }
    placement.push_back(chosen);
  }
  return placement;
}

}  // namespace minfer::graph
