// Prints a graph for people and tools: Graphviz DOT, or JSON (`--dump-graph FILE`, format by the file's ending).
#pragma once

#include <span>
#include <string>

#include "graph/ir.hpp"

namespace minfer::graph {

std::string to_dot(const Graph& graph, std::span<const WeightShape> weights);
// {"shape": {"tokens", "outputs"}, "values": [{"id", "name", "format", "rows", "width"}],
//  "nodes": [{"op", "inputs", "weights", "outputs"}], "imports": [id], "exports": [id], "logits": id or -1}
std::string to_json(const Graph& graph, std::span<const WeightShape> weights);

}  // namespace minfer::graph
