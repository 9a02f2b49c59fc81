// Cutting a model's graph into parts that run one after the other on different devices. A part is a graph of its own:
// what it reads of earlier parts it imports, what later ones read it exports, as f32 rows that the engine copies
// between the devices. A node that costs less than the copy of its result (no weights, reads only the step's inputs:
// the angles of RoPE) is made in every part that reads it. Passes run on each part, with its device's traits. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "graph/ir.hpp"

namespace minfer::graph {

// Where an imported value comes from: an export of an earlier part.
struct PartImport {
  size_t part;
  size_t export_index;  // into Graph::exports of that part
};

struct Part {
  Graph graph;
  std::vector<PartImport> imports;  // one for each of the graph's imports
};

// `part_of_node`: 0 .. parts - 1, never descending in a node's inputs. Errors: internal where a part would read what a
// later one makes, or anything but f32 crosses.
std::vector<Part> split(const Graph& graph, std::span<const WeightShape> weights, std::span<const int32_t> part_of_node,
                        size_t parts);

// Bytes that a part's imports take in a step of these counts.
int64_t import_bytes(const Graph& graph, const StepShape& step);

}  // namespace minfer::graph
