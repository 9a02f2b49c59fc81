// Runners of mixtures of experts: from graph nodes to launch/experts.hpp.
#include "base/checked.hpp"
#include "cpu/executor/ops.hpp"
#include "cpu/launch/experts.hpp"

namespace minfer::cpu {
namespace {

Routes routes_of(const StepState& state, graph::ValueId id) {
  return routes_at(state.bytes(id), state.rows(id), state.type(id).chosen);
}

ExpertInput input_of(const StepState& state, graph::ValueId id) {
  return {activation_of(state, id), state.type(id).width, state.type(id).chosen != 0};
}

// The (matrices, biases) at node.weights[at], [at + 1].
ExpertWeights weights_of(const StepState& state, const graph::Node& node, size_t at) {
  return {state.weights->matrix(node.weights[at]), state.weights->vector(node.weights[at + 1])};
}

}  // namespace

void run_route(const StepState& state, const graph::Node& node, Worker& worker) {
  const auto& attributes = std::get<graph::RouteAttributes>(node.attributes);
  launch_route(worker,
               {state.f32(node.inputs[0]), state.type(node.inputs[0]).width, state.weights->vector(node.weights[0]),
                attributes, routes_of(state, node.outputs[0]), state.f32(node.outputs[1])});
}

void run_expert_linear(const StepState& state, const graph::Node& node, Worker& worker) {
  launch_expert_linear(state.isa, worker, routes_of(state, node.inputs[1]), input_of(state, node.inputs[0]),
                       weights_of(state, node, 0), state.f32(node.outputs[0]), state.scratch);
}

void run_expert_glu(const StepState& state, const graph::Node& node, Worker& worker) {
  ExpertGlu args{};
  args.activation = std::get<graph::GluAttributes>(node.attributes).activation;
  args.gate = weights_of(state, node, 0);
  args.up = weights_of(state, node, 2);
  const graph::ValueId out = node.outputs[0];
  if (state.type(out).format == graph::Format::q8) {
    args.q8 = state.bytes(out);
  } else {
    args.out = state.f32(out);
  }
  launch_expert_glu(state.isa, worker, routes_of(state, node.inputs[1]), input_of(state, node.inputs[0]), args,
                    state.scratch);
}

void run_expert_sum(const StepState& state, const graph::Node& node, Worker& worker) {
  const graph::ValueId y = node.inputs[0];
  const float* residual = node.inputs.size() == 4 ? state.f32(node.inputs[3]) : nullptr;
  launch_expert_sum(worker, routes_of(state, node.inputs[1]),
                    {state.f32(y), state.type(y).chosen == 0, state.f32(node.inputs[2]), residual, state.type(y).width,
                     state.f32(node.outputs[0])});
}

int64_t expert_scratch_bytes(const graph::Graph& graph, const graph::Node& node) {
  if (node.op != graph::Op::expert_linear && node.op != graph::Op::expert_glu) return 0;
  const graph::ValueType& x = graph.values[static_cast<size_t>(node.inputs[0])].type;
  const graph::ValueType& routes = graph.values[static_cast<size_t>(node.inputs[1])].type;
  if (x.chosen != 0) return 0;
  return checked_multiply(cpu_value_bytes(x, graph::row_count(x, graph.shape)), routes.chosen, "bytes of scratch");
}

}  // namespace minfer::cpu
