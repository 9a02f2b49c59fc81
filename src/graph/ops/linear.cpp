// Rules of the matrix products. A linear node may have several weights that share its input, one output each: its
// weights are (matrix, bias) pairs. With one weight it may take a second input, a residual that is added to the
// product.
#include "graph/ops/rules.hpp"

namespace minfer::graph {
namespace {

// The matrix and the optional bias at weights[at], [at + 1] against an input of `width`; returns the matrix's rows.
int64_t check_pair(const NodeCheck& node, size_t at, int64_t width) {
  const WeightShape* matrix = node.weights[at];
  const WeightShape* bias = node.weights[at + 1];
  require(node, matrix != nullptr && matrix->cols == width,
          "the matrix must have as many columns as the input is wide");
  require(node, bias == nullptr || is_vector(bias, matrix->rows), "the bias must have one element a matrix row");
  return matrix->rows;
}

void check_input(const NodeCheck& node) {
  require(node, !node.inputs.empty(), "the input is missing");
  const Format format = node.inputs[0].format;
  require(node, format == Format::f32 || format == Format::q8 || format == Format::bf16,
          "the input must be f32, q8 or bf16");
}

void check_normed_input(const NodeCheck& node) {
  require(node, node.inputs.size() == 1 && node.inputs[0].format == Format::f32, "the input must be one f32 value");
  require(node, !node.weights.empty() && is_vector(node.weights[0], node.inputs[0].width),
          "the norm must have one element a column");
}

}  // namespace

// (x [rows][k], residual? f32 [rows][n]; (W [n][k], bias? [n]) ...) -> x W^T + bias + residual, f32, one a weight.
std::vector<ValueType> infer_linear(const NodeCheck& node) {
  check_input(node);
  require(node, !node.weights.empty() && node.weights.size() % 2 == 0, "weights must be (matrix, bias) pairs");
  std::vector<ValueType> outputs;
  for (size_t at = 0; at < node.weights.size(); at += 2) {
    outputs.push_back({Format::f32, node.inputs[0].rows, check_pair(node, at, node.inputs[0].width)});
  }
  require(node, node.inputs.size() <= 2, "too many inputs");
  if (node.inputs.size() == 2) {
    require(node, outputs.size() == 1 && node.inputs[1] == outputs[0], "a residual must equal the one output's type");
  }
  return outputs;
}

// (x [rows][k]; gate [n][k], gate bias?, up [n][k], up bias?) -> activation(gate x) * (up x), f32, q8 or bf16.
std::vector<ValueType> infer_linear_glu(const NodeCheck& node) {
  check_input(node);
  require_counts(node, 1, 4);
  require_gate(node);
  const int64_t gate_rows = check_pair(node, 0, node.inputs[0].width);
  require(node, gate_rows == check_pair(node, 2, node.inputs[0].width), "gate and up must have equal rows");
  require_activation_output(node, gate_rows);
  return {{node.output_format, node.inputs[0].rows, gate_rows}};
}

// (x f32 [rows][k]; norm [k], (W [n][k], bias? [n]) ...) -> (x / rms(x) * norm) W^T + bias, f32, one a weight.
std::vector<ValueType> infer_norm_linear(const NodeCheck& node) {
  attributes_of<NormLinearAttributes>(node);
  check_normed_input(node);
  require(node, node.weights.size() >= 3 && node.weights.size() % 2 == 1, "weights must be norm, (matrix, bias) pairs");
  std::vector<ValueType> outputs;
  for (size_t at = 1; at < node.weights.size(); at += 2) {
    outputs.push_back({Format::f32, node.inputs[0].rows, check_pair(node, at, node.inputs[0].width)});
  }
  return outputs;
}

// (x f32 [rows][k]; norm [k], gate, gate bias?, up, up bias?) -> activation(gate y) * (up y) of y = x / rms(x) * norm.
std::vector<ValueType> infer_norm_linear_glu(const NodeCheck& node) {
  attributes_of<NormLinearGluAttributes>(node);
  check_normed_input(node);
  require_counts(node, 1, 5);
  const int64_t gate_rows = check_pair(node, 1, node.inputs[0].width);
  require(node, gate_rows == check_pair(node, 3, node.inputs[0].width), "gate and up must have equal rows");
  require_activation_output(node, gate_rows);
  return {{node.output_format, node.inputs[0].rows, gate_rows}};
}

}  // namespace minfer::graph
