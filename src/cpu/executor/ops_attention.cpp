// Runners of positions, cache and attention: from graph nodes to launch/rope.hpp, kv_append.hpp and attention.hpp.
#include <algorithm>

#include "base/error.hpp"
#include "cpu/executor/ops.hpp"
#include "cpu/launch/activation.hpp"
#include "cpu/launch/attention.hpp"
#include "cpu/launch/kv_append.hpp"
#include "cpu/launch/rope.hpp"

namespace minfer::cpu {
namespace {

// How the heads of x are rotated (after an optional norm) into out, at a stride of one row.
PrepareHeadsArgs prepare_args(const StepState& state, graph::ValueId x, graph::ValueId angles, graph::ValueId out,
                              int64_t heads, int64_t head_size, graph::RopeStyle style, const float* norm, float eps) {
  PrepareHeadsArgs args;
  args.x = state.f32(x);
  args.x_stride = heads * head_size;
  args.rows = state.tokens;
  args.heads = heads;
  args.head_dim = head_size;
  args.weight = norm;
  args.eps = eps;
  args.angles = state.f32(angles);
  args.rotated = state.type(angles).width;
  args.style = style;
  args.out = state.f32(out);
  args.out_stride = heads * head_size;
  return args;
}

KvAppendArgs append_args(const StepState& state, graph::ValueId k, graph::ValueId v, int32_t layer_index) {
  const CpuKvStore::Layer& layer = state.kv->layer(layer_index);
  KvAppendArgs args;
  args.spec = layer.spec;
  args.tokens = state.tokens;
  args.slots = state.slots[layer.group];
  args.k = state.f32(k);
  args.k_stride = state.type(k).width;
  args.v = state.f32(v);
  args.v_stride = state.type(v).width;
  args.k_base = layer.k_base;
  args.v_base = layer.v_base;
  args.k_page_stride = layer.k_page_stride;
  args.v_page_stride = layer.v_page_stride;
  return args;
}

}  // namespace

void run_rope_angles(const StepState& state, const graph::Node& node, Worker& worker) {
  const auto& attributes = std::get<graph::RopeAnglesAttributes>(node.attributes);
  launch_rope_angles(worker, {state.i32(node.inputs[0]), state.tokens, attributes.inverse_frequencies.data(),
                              static_cast<int64_t>(attributes.inverse_frequencies.size()), attributes.magnitude,
                              state.f32(node.outputs[0]), attributes.temperature, attributes.temperature_length});
}

void run_rope(const StepState& state, const graph::Node& node, Worker& worker) {
  const auto& attributes = std::get<graph::RopeAttributes>(node.attributes);
  launch_prepare_heads(state.isa, worker,
                       prepare_args(state, node.inputs[0], node.inputs[1], node.outputs[0], attributes.heads,
                                    attributes.head_size, attributes.style, nullptr, 0.0F));
}

void run_join_heads(const StepState& state, const graph::Node& node, Worker& worker) {
  const auto& attributes = std::get<graph::JoinHeadsAttributes>(node.attributes);
  const float *a = state.f32(node.inputs[0]), *b = state.f32(node.inputs[1]);
  const int64_t a_width = state.type(node.inputs[0]).width, b_width = state.type(node.inputs[1]).width;
  float* out = state.f32(node.outputs[0]);
  const int64_t size = attributes.first.size + attributes.second.size;
  worker.parallel_for(state.rows(node.outputs[0]), 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t head = 0; head < attributes.heads; ++head) {
        const auto slice = [&](const float* x, int64_t width, const graph::JoinHeadsAttributes::Slice& part) {
          return x + row * width + part.offset + head * part.stride;
        };
        float* to = out + (row * attributes.heads + head) * size;
        std::copy_n(slice(a, a_width, attributes.first), attributes.first.size, to);
        std::copy_n(slice(b, b_width, attributes.second), attributes.second.size, to + attributes.first.size);
      }
    }
  });
}

void run_kv_append(const StepState& state, const graph::Node& node, Worker& worker) {
  const auto& attributes = std::get<graph::KvAppendAttributes>(node.attributes);
  launch_kv_append(state.isa, worker, append_args(state, node.inputs[0], node.inputs[1], attributes.layer));
}

void run_rope_append(const StepState& state, const graph::Node& node, Worker& worker) {
  const auto& attributes = std::get<graph::RopeAppendAttributes>(node.attributes);
  const float* q_norm = state.weights->vector(node.weights[0]);
  const float* k_norm = state.weights->vector(node.weights[1]);
  // K is rotated in place: nothing reads it unrotated.
  launch_rope_append(state.isa, worker,
                     prepare_args(state, node.inputs[0], node.inputs[3], node.outputs[0], attributes.heads,
                                  attributes.head_size, attributes.style, q_norm, attributes.norm_eps),
                     prepare_args(state, node.inputs[1], node.inputs[3], node.inputs[1], attributes.kv_heads,
                                  attributes.head_size, attributes.style, k_norm, attributes.norm_eps),
                     append_args(state, node.inputs[1], node.inputs[2], attributes.layer));
}

AttentionSpec attention_spec(const graph::Graph& graph, const graph::Node& node, const KvLayerSpec& kv) {
  const auto& attributes = std::get<graph::AttentionAttributes>(node.attributes);
  const graph::Format format = graph.values[static_cast<size_t>(node.outputs[0])].type.format;
  AttentionSpec spec;
  spec.kv = kv;
  spec.heads = attributes.heads;
  spec.output = format == graph::Format::q8 ? AttentionOutput::q8 : AttentionOutput::f32;
  spec.scale = attributes.scale;
  spec.window = attributes.window;
  spec.softcap = attributes.softcap;
  return spec;
}

std::optional<std::string> attention_unsupported(Isa isa, const graph::Graph& graph, const graph::Node& node) {
  const auto& attributes = std::get<graph::AttentionAttributes>(node.attributes);
  const KvLayerSpec kv{attributes.kv_heads, attributes.head_size, attributes.value_size, {}, {}};
  if (supports_attention(isa, attention_spec(graph, node, kv))) return std::nullopt;
  return fmt::format("the {} kernels have no attention with heads of {} and values of {}", isa_name(isa),
                     attributes.head_size, attributes.value_size);
}

void run_attention(const StepState& state, const graph::Node& node, Worker& worker) {
  const auto& attributes = std::get<graph::AttentionAttributes>(node.attributes);
  const CpuKvStore::Layer& layer = state.kv->layer(attributes.layer);
  const graph::ValueId out = node.outputs[0];
  AttentionArgs args;
  args.spec = attention_spec(*state.graph, node, layer.spec);
  args.spec.sinks = state.weights->vector(node.weights[0]);
  args.rows = state.tokens;
  args.row_sequence = state.row_sequence;
  const bool causal = std::get<graph::AttentionAttributes>(node.attributes).causal;
  args.row_position = causal ? state.row_position : state.row_last;
  args.sequences = state.sequences[layer.group];
  args.q = state.f32(node.inputs[0]);
  args.q_stride = state.type(node.inputs[0]).width;
  args.k_base = layer.k_base;
  args.v_base = layer.v_base;
  args.k_page_stride = layer.k_page_stride;
  args.v_page_stride = layer.v_page_stride;
  args.out = state.bytes(out);
  args.out_stride = cpu_value_bytes(state.type(out), 1);
  launch_attention(state.isa, worker, args, state.attention_capacity, state.scratch);
}

}  // namespace minfer::cpu
