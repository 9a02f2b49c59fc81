// Which nodes a part has, what crosses, and the parts' graphs. See split.hpp.
#include "graph/split.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "graph/builder.hpp"
#include "graph/rewrite.hpp"

namespace minfer::graph {
namespace {

class Splitter {
 public:
  Splitter(const Graph& graph, std::span<const WeightShape> weights, std::span<const int32_t> part_of_node)
      : graph_(graph), weights_(weights), part_of_node_(part_of_node), uses_(graph) {
    check(part_of_node.size() == graph.nodes.size(), "split: a part for every node");
    check(graph.imports.empty() && graph.exports.empty(), "split: the graph is a part already");
  }

  // What part `p` has of the nodes, and the values that it reads of other parts, in the order of their makers.
  void visit(size_t p) {
    std::vector<bool> in_part(graph_.nodes.size(), false);
    std::vector<bool> imported(graph_.values.size(), false);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (is_cheap(n) || static_cast<size_t>(part_of_node_[n]) != p) continue;
      in_part[n] = true;
      for (const ValueId input : graph_.nodes[n].inputs) {
        const int32_t producer = uses_.producer[static_cast<size_t>(input)];
        if (producer == kNoNode) continue;
        const size_t maker = static_cast<size_t>(producer);
        if (is_cheap(maker)) {
          in_part[maker] = true;
        } else if (static_cast<size_t>(part_of_node_[maker]) != p) {
          check(static_cast<size_t>(part_of_node_[maker]) < p, "split: a part reads what a later one makes");
          imported[static_cast<size_t>(input)] = true;
        }
      }
    }
    in_part_.push_back(std::move(in_part));
    imports_.emplace_back();
    for (size_t v = 0; v < imported.size(); ++v) {
      if (imported[v]) imports_.back().push_back(static_cast<ValueId>(v));
    }
  }

  // Values of part `p` that later parts read. All parts were visited.
  std::vector<ValueId> exports_of(size_t p) const {
    std::vector<ValueId> exports;
    for (size_t later = p + 1; later < imports_.size(); ++later) {
      for (const ValueId value : imports_[later]) {
        if (maker_part(value) == p && std::find(exports.begin(), exports.end(), value) == exports.end()) {
          exports.push_back(value);
        }
      }
    }
    return exports;
  }

  Part build(size_t p) const {
    Builder builder(weights_, graph_.shape);
    std::vector<ValueId> mapped(graph_.values.size(), kNoValue);
    const auto set = [&](ValueId old, ValueId now) { mapped[static_cast<size_t>(old)] = now; };
    const auto get = [&](ValueId old) { return mapped[static_cast<size_t>(old)]; };
    for (int i = 0; i < kInputCount; ++i) set(graph_.inputs[i], builder.input(static_cast<Input>(i)));
    Part part;
    for (const ValueId value : imports_[p]) {
      set(value, builder.import_value(graph_.values[static_cast<size_t>(value)]));
      const size_t maker = maker_part(value);
      const auto exports = exports_of(maker);
      const auto found = std::find(exports.begin(), exports.end(), value);
      part.imports.push_back({maker, static_cast<size_t>(found - exports.begin())});
    }
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (!in_part_[p][n]) continue;
      const Node& node = graph_.nodes[n];
      std::vector<ValueId> inputs;
      for (const ValueId input : node.inputs) inputs.push_back(get(input));
      const Value& first = graph_.values[static_cast<size_t>(node.outputs[0])];
      const auto outputs =
          builder.add_node(node.op, inputs, node.weights, node.attributes, first.name, first.type.format);
      for (size_t i = 0; i < outputs.size(); ++i) set(node.outputs[i], outputs[i]);
    }
    std::vector<ValueId> exports;
    for (const ValueId value : exports_of(p)) exports.push_back(get(value));
    part.graph = builder.finish(get(graph_.logits), std::move(exports));
    return part;
  }

 private:
  bool is_cheap(size_t n) const {
    const Node& node = graph_.nodes[n];
    return node.weights.empty() && std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
             return uses_.producer[static_cast<size_t>(input)] == kNoNode;
           });
  }
  size_t maker_part(ValueId value) const {
    return static_cast<size_t>(part_of_node_[static_cast<size_t>(uses_.producer[static_cast<size_t>(value)])]);
  }

  const Graph& graph_;
  std::span<const WeightShape> weights_;
  std::span<const int32_t> part_of_node_;
  Uses uses_;
  std::vector<std::vector<bool>> in_part_;     // by part and node
  std::vector<std::vector<ValueId>> imports_;  // by part
};

}  // namespace

std::vector<Part> split(const Graph& graph, std::span<const WeightShape> weights, std::span<const int32_t> part_of_node,
                        size_t parts) {
  Splitter splitter(graph, weights, part_of_node);
  for (size_t p = 0; p < parts; ++p) splitter.visit(p);
  std::vector<Part> result;
  for (size_t p = 0; p < parts; ++p) result.push_back(splitter.build(p));
  return result;
}

int64_t import_bytes(const Graph& graph, const StepShape& step) {
  int64_t bytes = 0;
  for (const ValueId id : graph.imports) {
    const ValueType& type = graph.values[static_cast<size_t>(id)].type;
    bytes += row_count(type.rows, step) * type.width * static_cast<int64_t>(sizeof(float));
  }
  return bytes;
}

}  // namespace minfer::graph
