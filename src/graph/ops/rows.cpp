// Rules of the ops that act on rows: embed, rms_norm, layer_norm, quantize, glu, activate, add, scale, gather_rows,
// adapter_scale.
// Each takes [rows][width] values; none mixes rows, so a row's result depends on that row alone.
#include "graph/ops/rules.hpp"

namespace minfer::graph {

// (ids i32 [tokens][1]; table [vocabulary][width]) -> f32 [tokens][width], times scale.
std::vector<ValueType> infer_embed(const NodeCheck& node) {
  require_counts(node, 1, 1);
  attributes_of<EmbedAttributes>(node);
  require(node, node.inputs[0].format == Format::i32 && node.inputs[0].width == 1, "ids must be i32 of width 1");
  require(node, node.weights[0] != nullptr, "the table is missing");
  return {{Format::f32, node.inputs[0].rows, node.weights[0]->cols}};
}

// (x f32 [rows][width]; weight [group]) -> x / rms(x over each group) * weight, f32, q8 or bf16.
std::vector<ValueType> infer_rms_norm(const NodeCheck& node) {
  require_counts(node, 1, 1);
  const auto& attributes = attributes_of<RmsNormAttributes>(node);
  const ValueType& x = node.inputs[0];
  require(node, x.format == Format::f32, "x must be f32");
  require(node, attributes.group > 0 && x.width % attributes.group == 0, "the width must be whole groups");
  require(node, is_vector(node.weights[0], attributes.group), "the weight must have one element a group element");
  require_activation_output(node, x.width);
  require(node, node.output_format == Format::f32 || attributes.group == x.width, "another format must be one group");
  return {{node.output_format, x.rows, x.width, x.chosen}};
}

// (x f32 [rows][width]; weight, bias?: [group], or width / group such vectors) -> (x - mean) / sqrt(variance + eps) *
// weight
// + bias over each group, f32, q8 or bf16.
std::vector<ValueType> infer_layer_norm(const NodeCheck& node) {
  require_counts(node, 1, 2);
  const auto& attributes = attributes_of<LayerNormAttributes>(node);
  const ValueType& x = node.inputs[0];
  const WeightShape *weight = node.weights[0], *bias = node.weights[1];
  require(node, x.format == Format::f32, "x must be f32");
  require(node, attributes.group > 0 && x.width % attributes.group == 0, "the width must be whole groups");
  const int64_t vectors = attributes.own_weights ? x.width / attributes.group : 1;
  const auto fits = [&](const WeightShape& vector) {
    return is_vector(&vector, attributes.group) && vector.experts == vectors;
  };
  require(node, weight != nullptr && fits(*weight), "the weight must have one element a group element");
  require(node, bias == nullptr || fits(*bias), "the bias must be as long as the weight");
  require_activation_output(node, x.width);
  require(node, node.output_format == Format::f32 || attributes.group == x.width, "another format must be one group");
  return {{node.output_format, x.rows, x.width, x.chosen}};
}

// (x f32) -> q8 or bf16 of the same shape.
std::vector<ValueType> infer_quantize(const NodeCheck& node) {
  require_counts(node, 1, 0);
  require(node, node.inputs[0].format == Format::f32, "x must be f32");
  require(node, node.output_format != Format::f32, "the output must be of another format");
  require_activation_output(node, node.inputs[0].width);
  return {{node.output_format, node.inputs[0].rows, node.inputs[0].width, node.inputs[0].chosen}};
}

// (gate f32, up f32) -> activation(gate) * up, f32, q8 or bf16.
std::vector<ValueType> infer_glu(const NodeCheck& node) {
  require_counts(node, 2, 0);
  require_gate(node);
  require(node, node.inputs[0] == node.inputs[1] && node.inputs[0].format == Format::f32,
          "gate and up must be equal f32");
  require_activation_output(node, node.inputs[0].width);
  return {{node.output_format, node.inputs[0].rows, node.inputs[0].width, node.inputs[0].chosen}};
}

// (x f32) -> activation(x), f32, q8 or bf16.
std::vector<ValueType> infer_activate(const NodeCheck& node) {
  require_counts(node, 1, 0);
  require(node, attributes_of<ActivateAttributes>(node).activation != Activation::swiglu_oai, "it needs a gate");
  require(node, node.inputs[0].format == Format::f32, "x must be f32");
  require_activation_output(node, node.inputs[0].width);
  return {{node.output_format, node.inputs[0].rows, node.inputs[0].width, node.inputs[0].chosen}};
}

// (a f32, b f32) -> a + b.
std::vector<ValueType> infer_add(const NodeCheck& node) {
  require_counts(node, 2, 0);
  require(node, node.inputs[0] == node.inputs[1] && node.inputs[0].format == Format::f32, "a and b must be equal f32");
  return {node.inputs[0]};
}

// (x f32) -> factor * x, or cap * tanh(factor * x / cap).
std::vector<ValueType> infer_scale(const NodeCheck& node) {
  require_counts(node, 1, 0);
  const auto& attributes = attributes_of<ScaleAttributes>(node);
  require(node, node.inputs[0].format == Format::f32, "x must be f32");
  require(node, attributes.cap >= 0, "a cap is a limit of magnitudes");
  return {node.inputs[0]};
}

// (x f32) -> x times what each row's sequence gives the adapter.
std::vector<ValueType> infer_adapter_scale(const NodeCheck& node) {
  require_counts(node, 1, 0);
  require(node, attributes_of<AdapterScaleAttributes>(node).adapter >= 0, "the adapter has no number");
  require(node, node.inputs[0].format == Format::f32 && node.inputs[0].chosen == 0, "x must be f32 a row");
  return {node.inputs[0]};
}

// (x f32 [tokens][width], rows i32 [outputs][1]) -> f32 [outputs][width].
std::vector<ValueType> infer_gather_rows(const NodeCheck& node) {
  require_counts(node, 2, 0);
  require(node, node.inputs[0].format == Format::f32 && node.inputs[0].rows == Rows::tokens, "x must be f32 a token");
  const bool rows = node.inputs[1].format == Format::i32 && node.inputs[1].rows == Rows::outputs;
  require(node, rows && node.inputs[1].width == 1, "the row numbers must be i32 an output");
  return {{Format::f32, Rows::outputs, node.inputs[0].width}};
}

}  // namespace minfer::graph
