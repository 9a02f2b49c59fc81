// Runners of the row ops: from graph nodes to the launchers of launch/rows.hpp and launch/embedding.hpp.
#include <cstring>

#include "cpu/executor/ops.hpp"
#include "cpu/launch/embedding.hpp"
#include "cpu/launch/rows.hpp"
#include "tensor/dtype.hpp"

namespace minfer::cpu {
namespace {

// Where a node's output goes: one of the two, by its format.
struct Output {
  float* f32 = nullptr;
  std::byte* q8 = nullptr;
};

Output output_of(const StepState& state, graph::ValueId id) {
  if (state.type(id).format == graph::Format::q8) return {nullptr, state.bytes(id)};
  return {state.f32(id), nullptr};
}

}  // namespace

void run_embed(const StepState& state, const graph::Node& node, Worker& worker) {
  const LinearWeight& table = state.weights->matrix(node.weights[0]);
  const auto& attributes = std::get<graph::EmbedAttributes>(node.attributes);
  const auto decode = [&](int64_t id, float* target) {
    dequantize_panel_row(table.dtype, table.layout, table.k, table.data, id, target);
  };
  const int32_t* ids = attributes.first_row ? nullptr : state.i32(node.inputs[0]);
  const EmbeddingArgs args{ids,     state.rows(node.inputs[0]), table.rows,
                           table.k, attributes.scale,           state.f32(node.outputs[0])};
  launch_embedding(state.isa, worker, args, decode);
}

void run_rms_norm(const StepState& state, const graph::Node& node, Worker& worker) {
  const auto& attributes = std::get<graph::RmsNormAttributes>(node.attributes);
  const graph::ValueType& type = state.type(node.inputs[0]);
  const Output out = output_of(state, node.outputs[0]);
  // Groups of a row lie one after the other: they are rows of their own. (8-bit rows are padded, so there a group is a
  // row.)
  const int64_t groups = type.width / attributes.group;
  launch_rms_norm(state.isa, worker,
                  {state.f32(node.inputs[0]), attributes.group, state.rows(node.inputs[0]) * groups, attributes.group,
                   state.weights->vector(node.weights[0]), attributes.eps, out.f32, attributes.group, out.q8});
}

void run_layer_norm(const StepState& state, const graph::Node& node, Worker& worker) {
  const auto& attributes = std::get<graph::LayerNormAttributes>(node.attributes);
  const int64_t width = state.type(node.inputs[0]).width;
  const Output out = output_of(state, node.outputs[0]);
  launch_layer_norm(state.isa, worker,
                    {state.f32(node.inputs[0]), width, state.rows(node.inputs[0]), width, attributes.group,
                     state.weights->vector(node.weights[0]), state.weights->vector(node.weights[1]),
                     attributes.own_weights, attributes.eps, out.f32, width, out.q8});
}

void run_quantize(const StepState& state, const graph::Node& node, Worker& worker) {
  const int64_t width = state.type(node.inputs[0]).width;
  launch_quantize(state.isa, worker,
                  {state.f32(node.inputs[0]), width, state.rows(node.inputs[0]), width, state.bytes(node.outputs[0])});
}

void run_glu(const StepState& state, const graph::Node& node, Worker& worker) {
  const auto& attributes = std::get<graph::GluAttributes>(node.attributes);
  const int64_t width = state.type(node.inputs[0]).width;
  const Output out = output_of(state, node.outputs[0]);
  launch_gated(state.isa, worker,
               {attributes.activation, state.f32(node.inputs[0]), width, state.f32(node.inputs[1]), width,
                state.rows(node.inputs[0]), width, out.f32, width, out.q8});
}

void run_activate(const StepState& state, const graph::Node& node, Worker& worker) {
  const auto activation = std::get<graph::ActivateAttributes>(node.attributes).activation;
  const int64_t width = state.type(node.inputs[0]).width;
  const Output out = output_of(state, node.outputs[0]);
  launch_activate(
      state.isa, worker,
      {activation, state.f32(node.inputs[0]), width, state.rows(node.inputs[0]), width, out.f32, width, out.q8});
}

void run_add(const StepState& state, const graph::Node& node, Worker& worker) {
  const int64_t width = state.type(node.inputs[0]).width;
  launch_add(state.isa, worker,
             {state.f32(node.inputs[0]), width, state.f32(node.inputs[1]), width, state.rows(node.inputs[0]), width,
              state.f32(node.outputs[0]), width});
}

void run_scale(const StepState& state, const graph::Node& node, Worker& worker) {
  const auto& attributes = std::get<graph::ScaleAttributes>(node.attributes);
  const int64_t width = state.type(node.inputs[0]).width;
  launch_scale(state.isa, worker,
               {state.f32(node.inputs[0]), width, state.rows(node.inputs[0]), width, attributes.factor, attributes.cap,
                state.f32(node.outputs[0]), width});
}

void run_gather_rows(const StepState& state, const graph::Node& node, Worker& worker) {
  const int64_t width = state.type(node.inputs[0]).width;
  const float* source = state.f32(node.inputs[0]);
  const int32_t* rows = state.i32(node.inputs[1]);
  float* target = state.f32(node.outputs[0]);
  worker.parallel_for(state.outputs, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(target + i * width, source + rows[i] * width, static_cast<size_t>(width) * sizeof(float));
    }
  });
}

void run_adapter_scale(const StepState& state, const graph::Node& node, Worker& worker) {
  const auto& attributes = std::get<graph::AdapterScaleAttributes>(node.attributes);
  const graph::ValueType& type = state.type(node.inputs[0]);
  const bool of_outputs = type.rows == graph::Rows::outputs;
  const float* source = state.f32(node.inputs[0]);
  float* target = state.f32(node.outputs[0]);
  worker.parallel_for(state.rows(node.inputs[0]), 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int32_t token = of_outputs ? state.output_rows[row] : static_cast<int32_t>(row);
      const auto scales = state.adapters[state.row_sequence[token]];
      const float scale = scales[static_cast<size_t>(attributes.adapter)] * attributes.factor;
      // Nothing of an adapter is nothing, whatever its product is.
      for (int64_t i = row * type.width; i < (row + 1) * type.width; ++i) {
        target[i] = scale == 0.0F ? 0.0F : source[i] * scale;
      }
    }
  });
}

}  // namespace minfer::cpu
