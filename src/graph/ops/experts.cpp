// Rules of mixtures of experts: route, expert_linear, expert_glu, expert_sum. A row of the step goes to `used` experts:
// these (row, expert) pairs are its entries. Which they are, and in which order they lie, is in a value of format
// `routes`, in the device's layout, so that a device may put the entries of an expert beside one another; values with
// a row an entry (ValueType::chosen) are in that order, and expert_sum alone brings them back to the step's rows. A
// weight of experts has one matrix an expert; a bias likewise.
#include "graph/ops/rules.hpp"

namespace minfer::graph {
namespace {

// The routes of a product's second input against its first: a row of the step, or an entry of these routes.
const ValueType& check_routes(const NodeCheck& node) {
  require(node, node.inputs.size() == 2, "wrong number of inputs");
  const ValueType &x = node.inputs[0], &routes = node.inputs[1];
  require(node, x.format == Format::f32 || x.format == Format::q8 || x.format == Format::bf16,
          "the input must be f32, q8 or bf16");
  require(node, routes.format == Format::routes && routes.rows == x.rows, "the second input must be the rows' routes");
  require(node, x.chosen == 0 || x.chosen == routes.chosen, "the input must have a row a row of the step, or an entry");
  return routes;
}

// The matrices and optional biases at weights[at], [at + 1]; returns the rows of one matrix.
int64_t check_experts(const NodeCheck& node, size_t at, int64_t experts) {
  const WeightShape* matrix = node.weights[at];
  const WeightShape* bias = node.weights[at + 1];
  require(node, matrix != nullptr && matrix->cols == node.inputs[0].width,
          "the matrices must have as many columns as the input is wide");
  require(node, matrix->experts == experts, "there must be a matrix for every expert of the routes");
  require(node, bias == nullptr || (is_vector(bias, matrix->rows) && bias->experts == experts),
          "the biases must have one element a matrix row");
  return matrix->rows;
}

}  // namespace

// (logits f32 [rows][experts]; bias? [experts]) -> (routes, weights f32 [rows][used], by row, the largest score's
// first).
std::vector<ValueType> infer_route(const NodeCheck& node) {
  require_counts(node, 1, 1);
  const auto& attributes = attributes_of<RouteAttributes>(node);
  const ValueType& logits = node.inputs[0];
  require(node, logits.format == Format::f32 && logits.chosen == 0, "the logits must be f32 a row");
  require(node, logits.width <= kMaxExperts, "too many experts");
  require(node, attributes.used > 0 && attributes.used <= kMaxChosen && attributes.used <= logits.width,
          "a row must go to at least one expert, and to no more than there are");
  require(node, node.weights[0] == nullptr || is_vector(node.weights[0], logits.width),
          "there must be a bias an expert");
  const int64_t groups = attributes.groups;
  require(node, groups > 0 && groups <= kMaxExpertGroups && logits.width % groups == 0, "groups must be equal");
  require(node,
          attributes.groups_used > 0 && attributes.groups_used <= groups &&
              attributes.used <= attributes.groups_used * (logits.width / groups),
          "the groups of a row must have as many experts as it goes to");
  return {{Format::routes, logits.rows, logits.width, attributes.used}, {Format::f32, logits.rows, attributes.used}};
}

// (x [rows or entries][k], routes; W experts x [n][k], bias? experts x [n]) -> x W^T + bias of each entry's expert: f32
// [entries][n].
std::vector<ValueType> infer_expert_linear(const NodeCheck& node) {
  const ValueType& routes = check_routes(node);
  require(node, node.weights.size() == 2, "wrong number of weights");
  const int64_t width = check_experts(node, 0, routes.width);
  return {{Format::f32, routes.rows, width, routes.chosen}};
}

// (x [rows or entries][k], routes; gate, gate bias?, up, up bias?) -> activation(gate x) * (up x) of each entry's
// expert: [entries][n], f32, q8 or bf16.
std::vector<ValueType> infer_expert_glu(const NodeCheck& node) {
  const ValueType& routes = check_routes(node);
  require(node, node.weights.size() == 4, "wrong number of weights");
  require_gate(node);
  const int64_t width = check_experts(node, 0, routes.width);
  require(node, width == check_experts(node, 2, routes.width), "gate and up must have equal rows");
  require_activation_output(node, width);
  return {{node.output_format, routes.rows, width, routes.chosen}};
}

// (y f32 [entries][n], routes, weights f32 [rows][used], residual? f32 [rows][n]) -> f32 [rows][n]: of each row the
// sum of its entries times their weights, in the weights' order, + residual. Where a row goes to one expert, y may have
// a row a row of the step: weights alone, of a shared expert.
std::vector<ValueType> infer_expert_sum(const NodeCheck& node) {
  require(node, node.inputs.size() == 3 || node.inputs.size() == 4, "wrong number of inputs");
  require(node, node.weights.empty(), "wrong number of weights");
  const ValueType &y = node.inputs[0], &routes = node.inputs[1], &weights = node.inputs[2];
  require(node, routes.format == Format::routes && routes.rows == y.rows, "the second input must be the rows' routes");
  require(node, y.format == Format::f32 && (y.chosen == routes.chosen || (y.chosen == 0 && routes.chosen == 1)),
          "y must be f32 an entry");
  require(node, weights == ValueType{Format::f32, y.rows, routes.chosen}, "the weights must be f32, one an entry");
  const ValueType sum{Format::f32, y.rows, y.width};
  require(node, node.inputs.size() == 3 || node.inputs[3] == sum, "a residual must equal the output's type");
  return {sum};
}

}  // namespace minfer::graph
