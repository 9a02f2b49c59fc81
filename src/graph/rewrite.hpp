// What the passes share: a use count of every value, and a Rewriter that copies a graph node by node through a Builder,
// so that a pass says only which nodes it replaces. Internal to graph/.
#pragma once

#include <span>
#include <vector>

#include "graph/builder.hpp"
#include "graph/ir.hpp"

namespace minfer::graph {

inline constexpr int32_t kNoNode = -1;

// For each value: the node that makes it (kNoNode for inputs) and how many node inputs (and results) read it.
struct Uses {
  explicit Uses(const Graph& graph);
  std::vector<int32_t> producer;
  std::vector<int32_t> count;
};

class Rewriter {
 public:
  Rewriter(const Graph& source, std::span<const WeightShape> weights)
      : source_(source), builder_(weights, source.shape), mapped_(source.values.size(), kNoValue) {
    for (int i = 0; i < kInputCount; ++i) map(source.inputs[i], builder_.input(static_cast<Input>(i)));
    for (const ValueId id : source.imports) map(id, builder_.import_value(source.values[static_cast<size_t>(id)]));
  }

  ValueId mapped(ValueId old) const;  // the new value that stands for an old one (checked: it exists)
  void map(ValueId old, ValueId now) { mapped_[static_cast<size_t>(old)] = now; }
  Builder& builder() { return builder_; }

  // Appends a node whose inputs are old values; maps `old_outputs` to what it makes, in order.
  void emit(Op op, std::span<const ValueId> old_inputs, std::vector<WeightId> weights, Attributes attributes,
            std::span<const ValueId> old_outputs, Format output_format = Format::f32);
  void copy(const Node& node);
  Graph finish();

 private:
  const Graph& source_;
  Builder builder_;
  std::vector<ValueId> mapped_;
};

}  // namespace minfer::graph
