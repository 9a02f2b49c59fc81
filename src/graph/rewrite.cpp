// The rewriting helpers of the passes. See rewrite.hpp.
#include "graph/rewrite.hpp"

#include <utility>

#include "base/error.hpp"

namespace minfer::graph {

Uses::Uses(const Graph& graph) : producer(graph.values.size(), kNoNode), count(graph.values.size(), 0) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const ValueId output : graph.nodes[i].outputs) producer[static_cast<size_t>(output)] = static_cast<int32_t>(i);
    for (const ValueId input : graph.nodes[i].inputs) ++count[static_cast<size_t>(input)];
  }
  for (const ValueId value : graph.exports) ++count[static_cast<size_t>(value)];
  if (graph.logits != kNoValue) ++count[static_cast<size_t>(graph.logits)];
}

ValueId Rewriter::mapped(ValueId old) const {
  const ValueId now = mapped_[static_cast<size_t>(old)];
  check(now != kNoValue, "graph pass read a value before it was made");
  return now;
}

void Rewriter::emit(Op op, std::span<const ValueId> old_inputs, std::vector<WeightId> weights, Attributes attributes,
                    std::span<const ValueId> old_outputs, Format output_format) {
  std::vector<ValueId> inputs;
  for (const ValueId input : old_inputs) inputs.push_back(mapped(input));
  const std::string& name = source_.values[static_cast<size_t>(old_outputs[0])].name;
  const auto outputs =
      builder_.add_node(op, std::move(inputs), std::move(weights), std::move(attributes), name, output_format);
  check(outputs.size() == old_outputs.size(), "graph pass replaced outputs by another number of outputs");
  for (size_t i = 0; i < outputs.size(); ++i) map(old_outputs[i], outputs[i]);
}

void Rewriter::copy(const Node& node) {
  const Format format = source_.values[static_cast<size_t>(node.outputs[0])].type.format;
  emit(node.op, node.inputs, node.weights, node.attributes, node.outputs, format);
}

Graph Rewriter::finish() {
  std::vector<ValueId> exports;
  for (const ValueId value : source_.exports) exports.push_back(mapped(value));
  return builder_.finish(source_.logits == kNoValue ? kNoValue : mapped(source_.logits), std::move(exports));
}

}  // namespace minfer::graph
