// Runners of the matrix products: from graph nodes to launch/linear.hpp.
#include <array>

#include "base/error.hpp"
#include "cpu/executor/ops.hpp"
#include "cpu/launch/linear.hpp"

namespace minfer::cpu {

ActivationRows activation_of(const StepState& state, graph::ValueId id) {
  ActivationRows x{};
  x.rows = state.rows(id);
  if (state.type(id).format == graph::Format::q8) {
    x.q8 = state.bytes(id);
  } else {
    x.f32 = state.f32(id);
    x.f32_stride = state.type(id).width;
  }
  return x;
}

void run_linear(const StepState& state, const graph::Node& node, Worker& worker) {
  std::array<LinearTask, kMaxLinearTasks> tasks;
  check(node.outputs.size() <= kMaxLinearTasks, "a linear node has too many weights");
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    LinearTask& task = tasks[i];
    task.weight = state.weights->matrix(node.weights[2 * i]);
    task.bias = state.weights->vector(node.weights[2 * i + 1]);
    task.residual = node.inputs.size() == 2 ? state.f32(node.inputs[1]) : nullptr;
    task.out = state.f32(node.outputs[i]);
    task.out_stride = state.type(node.outputs[i]).width;
  }
  launch_linear(state.isa, worker, activation_of(state, node.inputs[0]), std::span(tasks).first(node.outputs.size()));
}

void run_linear_glu(const StepState& state, const graph::Node& node, Worker& worker) {
  GatedLinear args{};
  args.activation = std::get<graph::GluAttributes>(node.attributes).activation;
  args.gate = state.weights->matrix(node.weights[0]);
  args.gate_bias = state.weights->vector(node.weights[1]);
  args.up = state.weights->matrix(node.weights[2]);
  args.up_bias = state.weights->vector(node.weights[3]);
  const graph::ValueId out = node.outputs[0];
  if (state.type(out).format == graph::Format::q8) {
    args.q8 = state.bytes(out);
  } else {
    args.out = state.f32(out);
    args.out_stride = state.type(out).width;
  }
  launch_linear_gated(state.isa, worker, activation_of(state, node.inputs[0]), args);
}

}  // namespace minfer::cpu
