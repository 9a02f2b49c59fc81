// The graph builder. See builder.hpp.
#include "graph/builder.hpp"

#include <utility>

#include "base/error.hpp"
#include "graph/ops.hpp"

namespace minfer::graph {

Builder::Builder(std::span<const WeightShape> weights, const StepShape& shape, std::span<const LowRank> adapters)
    : weights_(weights), adapters_(adapters) {
  graph_.shape = shape;
  for (size_t i = 0; i < weights.size(); ++i) by_name_.emplace(weights[i].name, static_cast<WeightId>(i));
  const auto add_input = [&](Input which, Rows rows, const char* name) {
    graph_.inputs[static_cast<size_t>(which)] = static_cast<ValueId>(graph_.values.size());
    graph_.values.push_back({{Format::i32, rows, 1}, name});
  };
  add_input(Input::token_ids, Rows::tokens, "token_ids");
  add_input(Input::positions, Rows::tokens, "positions");
  add_input(Input::output_rows, Rows::outputs, "output_rows");
}

WeightId Builder::find_weight(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? kNoWeight : found->second;
}

WeightId Builder::weight(std::string_view name) const {
  const WeightId id = find_weight(name);
  if (id == kNoWeight) fail(ErrorCode::internal, "internal error: graph names weight {}, which was not loaded", name);
  return id;
}

std::vector<ValueId> Builder::add_node(Op op, std::vector<ValueId> inputs, std::vector<WeightId> weights,
                                       Attributes attributes, const std::string& name, Format output_format) {
  NodeCheck node{op, {}, {}, attributes, output_format};
  for (const ValueId id : inputs) node.inputs.push_back(type(id));
  for (const WeightId id : weights) node.weights.push_back(id == kNoWeight ? nullptr : &weight_shape(id));
  std::vector<ValueId> outputs;
  for (const ValueType& output : infer_outputs(node)) {
    outputs.push_back(static_cast<ValueId>(graph_.values.size()));
    graph_.values.push_back({output, name});
  }
  graph_.nodes.push_back({op, std::move(inputs), std::move(weights), outputs, std::move(attributes)});
  return outputs;
}

ValueId Builder::embed(ValueId ids, WeightId table, float scale, bool first_row) {
  return add_node(Op::embed, {ids}, {table}, EmbedAttributes{scale, first_row}, weight_shape(table).name)[0];
}

ValueId Builder::rms_norm(ValueId x, WeightId weight, float eps, int64_t group) {
  return add_node(Op::rms_norm, {x}, {weight}, RmsNormAttributes{eps, group}, weight_shape(weight).name)[0];
}

ValueId Builder::layer_norm(ValueId x, WeightId weight, WeightId bias, float eps, int64_t group) {
  const WeightShape& shape = weight_shape(weight);
  return add_node(Op::layer_norm, {x}, {weight, bias}, LayerNormAttributes{eps, group, shape.experts > 1},
                  shape.name)[0];
}

ValueId Builder::linear(ValueId x, WeightId matrix, WeightId bias) {
  ValueId y = add_node(Op::linear, {x}, {matrix, bias}, {}, weight_shape(matrix).name)[0];
  for (const LowRank& pair : adapters_) {
    if (pair.matrix != matrix) continue;
    const auto product = [&](ValueId input, WeightId weight) {
      return add_node(Op::linear, {input}, {weight, kNoWeight}, {}, weight_shape(weight).name)[0];
    };
    const AdapterScaleAttributes scale{pair.adapter, pair.factor};
    const ValueId narrow = add_node(Op::adapter_scale, {product(x, pair.down)}, {}, scale, "adapter_scale")[0];
    y = add(product(narrow, pair.up), y);
  }
  return y;
}

ValueId Builder::glu(ValueId gate, ValueId up, Activation activation) {
  return add_node(Op::glu, {gate, up}, {}, GluAttributes{activation}, "glu")[0];
}

ValueId Builder::activate(ValueId x, Activation activation) {
  return add_node(Op::activate, {x}, {}, ActivateAttributes{activation}, "activate")[0];
}

ValueId Builder::add(ValueId a, ValueId b) {
  return add_node(Op::add, {a, b}, {}, {}, "add")[0];
}

ValueId Builder::scale(ValueId x, ScaleAttributes attributes) {
  return add_node(Op::scale, {x}, {}, attributes, "scale")[0];
}

ValueId Builder::rope_angles(ValueId positions, RopeAnglesAttributes attributes) {
  return add_node(Op::rope_angles, {positions}, {}, std::move(attributes), "rope_angles")[0];
}

ValueId Builder::rope(ValueId x, ValueId angles, RopeAttributes attributes) {
  return add_node(Op::rope, {x, angles}, {}, attributes, "rope")[0];
}

ValueId Builder::join_heads(ValueId a, ValueId b, JoinHeadsAttributes attributes) {
  return add_node(Op::join_heads, {a, b}, {}, attributes, "join_heads")[0];
}

ValueId Builder::kv_append(ValueId k, ValueId v, int32_t layer) {
  return add_node(Op::kv_append, {k, v}, {}, KvAppendAttributes{layer}, "kv_append")[0];
}

ValueId Builder::attention(ValueId q, ValueId appended, AttentionAttributes attributes, WeightId sinks) {
  return add_node(Op::attention, {q, appended}, {sinks}, attributes, "attention")[0];
}

ValueId Builder::gather_rows(ValueId x, ValueId rows) {
  return add_node(Op::gather_rows, {x, rows}, {}, {}, "outputs")[0];
}

Builder::Routed Builder::route(ValueId logits, RouteAttributes attributes, WeightId biases) {
  const auto outputs = add_node(Op::route, {logits}, {biases}, attributes, "route");
  return {outputs[0], outputs[1]};
}

ValueId Builder::expert_linear(ValueId x, ValueId routes, WeightId matrices, WeightId biases) {
  return add_node(Op::expert_linear, {x, routes}, {matrices, biases}, {}, weight_shape(matrices).name)[0];
}

ValueId Builder::expert_sum(ValueId y, Routed routed) {
  return add_node(Op::expert_sum, {y, routed.routes, routed.weights}, {}, {}, "expert_sum")[0];
}

ValueId Builder::import_value(const Value& value) {
  check(value.type.format == Format::f32, "only f32 values go from one part of a model to another");
  graph_.imports.push_back(static_cast<ValueId>(graph_.values.size()));
  graph_.values.push_back(value);
  return graph_.imports.back();
}

Graph Builder::finish(ValueId logits, std::vector<ValueId> exports) {
  check(logits != kNoValue || !exports.empty(), "a graph without a result");
  if (logits != kNoValue) {
    const ValueType& result = type(logits);
    check(result.format == Format::f32 && result.rows == Rows::outputs, "a graph's logits must be f32 an output");
  }
  for (const ValueId value : exports) {
    check(type(value).format == Format::f32, "only f32 values go from one part of a model to another");
  }
  graph_.logits = logits;
  graph_.exports = std::move(exports);
  return std::move(graph_);
}

}  // namespace minfer::graph
