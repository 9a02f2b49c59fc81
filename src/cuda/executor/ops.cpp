// From graph nodes to launches. See ops.hpp.
#include "cuda/executor/ops.hpp"

#include "base/error.hpp"
#include "cuda/launch/rows.hpp"
#include "cuda/launch/sampling.hpp"

namespace minfer::cuda {

void run_embed(const StepState& state, const graph::Node& node) {
  const auto& attributes = std::get<graph::EmbedAttributes>(node.attributes);
  const int32_t* ids = attributes.first_row ? nullptr : state.input(node.inputs[0]);
  launch_embed(*state.queue,
               {state.weights->matrix(node.weights[0]), ids, attributes.scale, state.rows(node.outputs[0])});
}

void run_rms_norm(const StepState& state, const graph::Node& node) {
  const auto& attributes = std::get<graph::RmsNormAttributes>(node.attributes);
  launch_rms_norm(*state.queue, {state.rows(node.inputs[0]), state.weights->vector(node.weights[0]), attributes.group,
                                 attributes.eps, state.rows(node.outputs[0])});
}

void run_layer_norm(const StepState& state, const graph::Node& node) {
  const auto& attributes = std::get<graph::LayerNormAttributes>(node.attributes);
  launch_layer_norm(*state.queue, {state.rows(node.inputs[0]), state.weights->vector(node.weights[0]),
                                   state.weights->vector(node.weights[1]), attributes.group, attributes.own_weights,
                                   attributes.eps, state.rows(node.outputs[0])});
}

void run_quantize(const StepState& state, const graph::Node& node) {
  launch_convert(*state.queue, state.rows(node.inputs[0]), state.rows(node.outputs[0]));
}

namespace {

// The products of a node whose (matrix, bias) pairs begin at weights[first].
LinearArgs linear_args(const StepState& state, const graph::Node& node, size_t first) {
  LinearArgs args;
  args.x = state.rows(node.inputs[0]);
  args.segments = static_cast<int>(node.outputs.size());
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const size_t at = first + 2 * i;
    args.segment[i] = {state.weights->matrix(node.weights[at]), state.weights->vector(node.weights[at + 1]),
                       state.rows(node.outputs[i])};
  }
  return args;
}

LinearGluArgs glu_args(const StepState& state, const graph::Node& node, size_t first, graph::Activation activation) {
  LinearGluArgs args;
  args.x = state.rows(node.inputs[0]);
  args.gate = state.weights->matrix(node.weights[first]);
  args.gate_bias = state.weights->vector(node.weights[first + 1]);
  args.up = state.weights->matrix(node.weights[first + 2]);
  args.up_bias = state.weights->vector(node.weights[first + 3]);
  args.activation = activation;
  args.out = state.rows(node.outputs[0]);
  return args;
}

}  // namespace

void run_linear(const StepState& state, const graph::Node& node) {
  LinearArgs args = linear_args(state, node, 0);
  args.residual = node.inputs.size() == 2 ? state.f32(node.inputs[1]) : nullptr;
  launch_linear(*state.queue, args, state.linear_scratch);
}

void run_linear_glu(const StepState& state, const graph::Node& node) {
  const auto& attributes = std::get<graph::GluAttributes>(node.attributes);
  launch_linear_glu(*state.queue, glu_args(state, node, 0, attributes.activation), state.linear_scratch);
}

void run_norm_linear(const StepState& state, const graph::Node& node) {
  LinearArgs args = linear_args(state, node, 1);
  args.norm = {state.weights->vector(node.weights[0]), std::get<graph::NormLinearAttributes>(node.attributes).eps};
  launch_linear(*state.queue, args, state.linear_scratch);
}

void run_norm_linear_glu(const StepState& state, const graph::Node& node) {
  const auto& attributes = std::get<graph::NormLinearGluAttributes>(node.attributes);
  LinearGluArgs args = glu_args(state, node, 1, attributes.activation);
  args.norm = {state.weights->vector(node.weights[0]), attributes.eps};
  launch_linear_glu(*state.queue, args, state.linear_scratch);
}

void run_glu(const StepState& state, const graph::Node& node) {
  const auto& attributes = std::get<graph::GluAttributes>(node.attributes);
  launch_glu(*state.queue, {state.rows(node.inputs[0]), state.rows(node.inputs[1]), attributes.activation,
                            state.rows(node.outputs[0])});
}

void run_activate(const StepState& state, const graph::Node& node) {
  launch_activate(*state.queue, state.rows(node.inputs[0]),
                  std::get<graph::ActivateAttributes>(node.attributes).activation, state.rows(node.outputs[0]));
}

void run_add(const StepState& state, const graph::Node& node) {
  launch_add(*state.queue, state.rows(node.inputs[0]), state.rows(node.inputs[1]), state.rows(node.outputs[0]));
}

void run_scale(const StepState& state, const graph::Node& node) {
  const auto& attributes = std::get<graph::ScaleAttributes>(node.attributes);
  launch_scale(*state.queue, state.rows(node.inputs[0]), attributes.factor, attributes.cap,
               state.rows(node.outputs[0]));
}

void run_adapter_scale(const StepState& state, const graph::Node& node) {
  const auto& attributes = std::get<graph::AdapterScaleAttributes>(node.attributes);
  AdapterScaleArgs args;
  args.x = state.rows(node.inputs[0]);
  args.scales = state.adapter_scales + attributes.adapter * state.graph->shape.tokens;
  if (state.type(node.inputs[0]).rows == graph::Rows::outputs) args.tokens = state.output_rows();
  args.factor = attributes.factor;
  args.out = state.rows(node.outputs[0]);
  launch_adapter_scale(*state.queue, args);
}

void run_gather_rows(const StepState& state, const graph::Node& node) {
  launch_gather_rows(*state.queue, state.rows(node.inputs[0]), state.input(node.inputs[1]),
                     state.rows(node.outputs[0]));
}

std::vector<float> rope_frequencies(const graph::Graph& graph) {
  std::vector<float> all;
  for (const graph::Node& node : graph.nodes) {
    if (node.op != graph::Op::rope_angles) continue;
    const auto& own = std::get<graph::RopeAnglesAttributes>(node.attributes).inverse_frequencies;
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

int64_t frequencies_offset(const graph::Graph& graph, const graph::Node& node) {
  int64_t offset = 0;
  for (const graph::Node& other : graph.nodes) {
    if (&other == &node) break;
    if (other.op != graph::Op::rope_angles) continue;
    const auto& attributes = std::get<graph::RopeAnglesAttributes>(other.attributes);
    offset += static_cast<int64_t>(attributes.inverse_frequencies.size());
  }
  return offset;
}

void run_rope_angles(const StepState& state, const graph::Node& node) {
  const auto& attributes = std::get<graph::RopeAnglesAttributes>(node.attributes);
  launch_rope_angles(
      *state.queue,
      {state.input(node.inputs[0]), state.frequencies + frequencies_offset(*state.graph, node), attributes.magnitude,
       state.rows(node.outputs[0]), attributes.temperature, attributes.temperature_length});
}

void run_rope(const StepState& state, const graph::Node& node) {
  const auto& attributes = std::get<graph::RopeAttributes>(node.attributes);
  launch_rope(*state.queue, {state.rows(node.inputs[0]), state.rows(node.inputs[1]), attributes.heads,
                             attributes.head_size, attributes.style, state.rows(node.outputs[0])});
}

void run_join_heads(const StepState& state, const graph::Node& node) {
  const auto& attributes = std::get<graph::JoinHeadsAttributes>(node.attributes);
  const auto slice = [](const graph::JoinHeadsAttributes::Slice& part) {
    return HeadSlice{part.offset, part.stride, part.size};
  };
  launch_join_heads(*state.queue, {state.rows(node.inputs[0]), state.rows(node.inputs[1]), slice(attributes.first),
                                   slice(attributes.second), state.rows(node.outputs[0])});
}

namespace {

const StepView& step_of(const StepState& state, int32_t layer) {
  return state.steps[state.kv->group_of(layer)];
}

}  // namespace

void run_kv_append(const StepState& state, const graph::Node& node) {
  const int32_t layer = std::get<graph::KvAppendAttributes>(node.attributes).layer;
  launch_kv_append(*state.queue, state.rows(node.inputs[0]), state.rows(node.inputs[1]), state.kv->layer(layer),
                   step_of(state, layer));
}

namespace {

// What rope_append and rope_attention name alike.
RopeAppendArgs rope_append_args(const StepState& state, const graph::Node& node, int32_t layer) {
  RopeAppendArgs args;
  args.q = state.rows(node.inputs[0]);
  args.k = state.rows(node.inputs[1]);
  args.v = state.rows(node.inputs[2]);
  args.angles = state.rows(node.inputs[3]);
  args.q_norm = state.weights->vector(node.weights[0]);
  args.k_norm = state.weights->vector(node.weights[1]);
  args.kv = state.kv->layer(layer);
  args.step = step_of(state, layer);
  return args;
}

}  // namespace

void run_rope_append(const StepState& state, const graph::Node& node) {
  const auto& attributes = std::get<graph::RopeAppendAttributes>(node.attributes);
  RopeAppendArgs args = rope_append_args(state, node, attributes.layer);
  args.eps = attributes.norm_eps;
  args.heads = attributes.heads;
  args.style = attributes.style;
  args.q_out = state.rows(node.outputs[0]);
  launch_rope_append(*state.queue, args);
}

namespace {

AttentionArgs attention_args(const StepState& state, const graph::Node& node, graph::WeightId sinks) {
  const graph::AttentionAttributes& attributes = attention_of(node);
  AttentionArgs args;
  args.q = state.rows(node.inputs[0]);
  args.out = state.rows(node.outputs[0]);
  args.heads = attributes.heads;
  args.scale = attributes.scale;
  args.window = attributes.window;
  args.softcap = attributes.softcap;
  args.causal = attributes.causal;
  args.sinks = state.weights->vector(sinks);
  args.kv = state.kv->layer(attributes.layer);
  args.step = step_of(state, attributes.layer);
  args.scratch = state.attention_scratch;
  return args;
}

}  // namespace

const graph::AttentionAttributes& attention_of(const graph::Node& node) {
  const auto* fused = std::get_if<graph::RopeAttentionAttributes>(&node.attributes);
  return fused != nullptr ? fused->attention : std::get<graph::AttentionAttributes>(node.attributes);
}

void run_attention(const StepState& state, const graph::Node& node) {
  launch_attention(*state.queue, attention_args(state, node, node.weights[0]));
}

// q is rotated in place: nothing else reads it.
void run_rope_attention(const StepState& state, const graph::Node& node) {
  const auto& attributes = std::get<graph::RopeAttentionAttributes>(node.attributes);
  RopeAppendArgs rope = rope_append_args(state, node, attributes.attention.layer);
  rope.eps = attributes.norm_eps;
  rope.heads = attributes.attention.heads;
  rope.style = attributes.style;
  rope.q_out = rope.q;
  launch_rope_attention(*state.queue, rope, attention_args(state, node, node.weights[2]));
}

// The output head's rows go to the sampler.
std::optional<std::string> linear_unsupported(const graph::Graph& graph, const graph::Node& node) {
  for (const graph::ValueId out : node.outputs) {
    const graph::ValueType& type = graph.values[static_cast<size_t>(out)].type;
    if (type.rows == graph::Rows::outputs && type.width > kMaxSampledVocabulary) {
      return "a vocabulary larger than its sampler takes";
    }
  }
  if (node.outputs.size() > static_cast<size_t>(kMaxSegments)) return "too many matrices in one product";
  return std::nullopt;
}

std::optional<std::string> normed_unsupported(const graph::Graph& graph, const graph::Node& node) {
  const graph::ValueType& x = graph.values[static_cast<size_t>(node.inputs[0])].type;
  if (graph::row_count(x.rows, graph.shape) > kNormRows || x.width > kNormColumns) return "norm of a large input";
  return linear_unsupported(graph, node);
}

// A q8 row has blocks of 32 within a head.
std::optional<std::string> attention_node_unsupported(const graph::Graph& graph, const graph::Node& node) {
  const graph::AttentionAttributes& attributes = attention_of(node);
  const graph::Format format = graph.values[static_cast<size_t>(node.outputs[0])].type.format;
  if (format == graph::Format::q8 && attributes.value_size % kQ8Block != 0) return "heads that are no whole q8 blocks";
  KvLayerView view;
  view.kv_heads = attributes.kv_heads;
  view.key_size = attributes.head_size;
  view.value_size = attributes.value_size;
  if (const char* reason = attention_unsupported(view, attributes.heads)) return reason;
  return std::nullopt;
}

}  // namespace minfer::cuda
