// From graph nodes to launches: mixtures of experts. See ops.hpp.
#include "cuda/executor/ops.hpp"
#include "cuda/launch/experts.hpp"

namespace minfer::cuda {
namespace {

Routes routes_of(const StepState& state, graph::ValueId id) {
  const graph::ValueType& type = state.type(id);
  return routes_at(state.bytes(id), state.row_count(id), type.width, type.chosen);
}

bool is_by_entry(const StepState& state, graph::ValueId id) {
  return state.type(id).chosen != 0;
}

// The (matrices, biases) at node.weights[at], [at + 1].
ExpertMatrix matrix_of(const StepState& state, const graph::Node& node, size_t at) {
  return {state.weights->matrix(node.weights[at]), state.weights->vector(node.weights[at + 1])};
}

}  // namespace

void run_route(const StepState& state, const graph::Node& node) {
  const auto& attributes = std::get<graph::RouteAttributes>(node.attributes);
  launch_route(*state.queue, {state.rows(node.inputs[0]), state.weights->vector(node.weights[0]), attributes,
                              routes_of(state, node.outputs[0]), state.rows(node.outputs[1])});
}

void run_expert_linear(const StepState& state, const graph::Node& node) {
  const graph::ValueId x = node.inputs[0];
  launch_expert_linear(*state.queue, {routes_of(state, node.inputs[1]), state.rows(x), is_by_entry(state, x),
                                      matrix_of(state, node, 0), state.rows(node.outputs[0])});
}

void run_expert_glu(const StepState& state, const graph::Node& node) {
  const graph::ValueId x = node.inputs[0];
  launch_expert_glu(*state.queue,
                    {routes_of(state, node.inputs[1]), state.rows(x), is_by_entry(state, x), matrix_of(state, node, 0),
                     matrix_of(state, node, 2), std::get<graph::GluAttributes>(node.attributes).activation,
                     state.rows(node.outputs[0])});
}

void run_expert_sum(const StepState& state, const graph::Node& node) {
  const graph::ValueId y = node.inputs[0];
  const float* residual = node.inputs.size() == 4 ? state.f32(node.inputs[3]) : nullptr;
  launch_expert_sum(*state.queue, {routes_of(state, node.inputs[1]), state.rows(y), !is_by_entry(state, y),
                                   state.rows(node.inputs[2]), residual, state.rows(node.outputs[0])});
}

}  // namespace minfer::cuda
