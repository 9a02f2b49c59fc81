// The fusion patterns and the quantization of activations. See passes.hpp.
#include "graph/passes.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "graph/rewrite.hpp"

namespace minfer::graph {
namespace {

bool is_plain_linear(const Node& node) {
  return node.op == Op::linear && node.inputs.size() == 1;
}

// Linears whose products a glu may take: both of one kind.
bool is_gateable(const Node& node) {
  return is_plain_linear(node) || node.op == Op::expert_linear;
}

// The node that makes `value` if it is of `op` and nothing else reads the value.
const Node* sole_producer(const Graph& graph, const Uses& uses, ValueId value, Op op) {
  const int32_t producer = uses.producer[static_cast<size_t>(value)];
  if (producer == kNoNode || uses.count[static_cast<size_t>(value)] != 1) return nullptr;
  const Node& node = graph.nodes[static_cast<size_t>(producer)];
  return node.op == op ? &node : nullptr;
}

// What a linear of a graph reads.
Format read_format(const Graph& graph, const Node& linear, const DeviceTraits& device) {
  const ValueType& x = graph.values[static_cast<size_t>(linear.inputs[0])].type;
  return device.activation_format(linear.weights[0], row_count(x.rows, graph.shape));
}

std::vector<ValueType> types_of(const Graph& graph, std::span<const ValueId> ids) {
  std::vector<ValueType> types;
  for (const ValueId id : ids) types.push_back(graph.values[static_cast<size_t>(id)].type);
  return types;
}

// Whether the device runs a node, with outputs of these types: asked of a graph of that node alone. A device may lack
// it for some sizes: heads that are no whole blocks, say, or many rows.
bool runs_alone(const DeviceTraits& device, const Graph& graph, const Node& node, std::span<const ValueType> inputs,
                std::span<const ValueType> outputs) {
  Graph lone{};
  lone.shape = graph.shape;
  Node alone = node;
  alone.inputs.clear();
  alone.outputs.clear();
  for (const ValueType& type : inputs) {
    alone.inputs.push_back(static_cast<ValueId>(lone.values.size()));
    lone.values.push_back({type, {}});
  }
  for (const ValueType& type : outputs) {
    alone.outputs.push_back(static_cast<ValueId>(lone.values.size()));
    lone.values.push_back({type, {}});
  }
  return device.runs(lone, alone);
}

size_t index_of(const Graph& graph, const Node& node) {
  return static_cast<size_t>(&node - graph.nodes.data());
}

}  // namespace

Graph fuse_linear_inputs(const Graph& graph, std::span<const WeightShape> weights, const DeviceTraits& device) {
  Rewriter rewriter(graph, weights);
  std::vector<bool> done(graph.nodes.size(), false);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (done[i]) continue;
    if (!is_plain_linear(node)) {
      rewriter.copy(node);
      continue;
    }
    // The group is made where its first member stands: all that the others read is the same input.
    const Format format = read_format(graph, node, device);
    Node group = node;
    for (size_t j = i + 1; j < graph.nodes.size(); ++j) {
      const Node& other = graph.nodes[j];
      if (done[j] || !is_plain_linear(other) || other.inputs[0] != node.inputs[0]) continue;
      if (read_format(graph, other, device) != format) continue;
      Node larger = group;
      larger.weights.insert(larger.weights.end(), other.weights.begin(), other.weights.end());
      larger.outputs.insert(larger.outputs.end(), other.outputs.begin(), other.outputs.end());
      // A device may take so many matrices at once; the others are a group of their own.
      const auto types = types_of(graph, larger.outputs);
      if (!runs_alone(device, graph, larger, types_of(graph, larger.inputs), types)) continue;
      group = std::move(larger);
      done[j] = true;
    }
    rewriter.emit(Op::linear, group.inputs, group.weights, {}, group.outputs);
  }
  return rewriter.finish();
}

Graph fuse_gated(const Graph& graph, std::span<const WeightShape> weights, const DeviceTraits& device) {
  if (!device.has_op(Op::linear_glu)) return graph;
  const Uses uses(graph);
  // First find the pairs, so that their linears are left out where they stand.
  std::vector<bool> absorbed(graph.nodes.size(), false);
  const auto pair_of = [&](const Node& node) -> std::optional<std::pair<const Node*, const Node*>> {
    if (node.op != Op::glu) return std::nullopt;
    const bool routed = graph.values[static_cast<size_t>(node.inputs[0])].type.chosen != 0;
    if (routed && !device.has_op(Op::expert_glu)) return std::nullopt;
    const Op op = routed ? Op::expert_linear : Op::linear;
    const Node* gate = sole_producer(graph, uses, node.inputs[0], op);
    const Node* up = sole_producer(graph, uses, node.inputs[1], op);
    if (gate == nullptr || up == nullptr || gate == up || !is_gateable(*gate) || !is_gateable(*up)) return {};
    if (gate->outputs.size() != 1 || up->outputs.size() != 1 || gate->inputs != up->inputs) return {};
    if (read_format(graph, *gate, device) != read_format(graph, *up, device)) return {};
    return std::pair{gate, up};
  };
  for (const Node& node : graph.nodes) {
    if (const auto pair = pair_of(node)) {
      absorbed[index_of(graph, *pair->first)] = absorbed[index_of(graph, *pair->second)] = true;
    }
  }
  Rewriter rewriter(graph, weights);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (absorbed[i]) continue;
    if (const auto pair = pair_of(node)) {
      std::vector<WeightId> both = pair->first->weights;
      both.insert(both.end(), pair->second->weights.begin(), pair->second->weights.end());
      const Op op = pair->first->op == Op::linear ? Op::linear_glu : Op::expert_glu;
      rewriter.emit(op, pair->first->inputs, both, node.attributes, node.outputs);
    } else {
      rewriter.copy(node);
    }
  }
  return rewriter.finish();
}

Graph fuse_residual(const Graph& graph, std::span<const WeightShape> weights, const DeviceTraits&) {
  const Uses uses(graph);
  // Which operand of an add, if one, is a product, or a sum of experts, that nothing else reads.
  const auto product_of = [&](const Node& node) -> std::optional<size_t> {
    if (node.op != Op::add) return std::nullopt;
    for (size_t side = 0; side < 2; ++side) {
      const Node* linear = sole_producer(graph, uses, node.inputs[side], Op::linear);
      if (linear != nullptr && is_plain_linear(*linear) && linear->outputs.size() == 1) return side;
      const Node* sum = sole_producer(graph, uses, node.inputs[side], Op::expert_sum);
      if (sum != nullptr && sum->inputs.size() == 3) return side;
    }
    return std::nullopt;
  };
  std::vector<bool> absorbed(graph.nodes.size(), false);
  for (const Node& node : graph.nodes) {
    if (const auto side = product_of(node)) {
      absorbed[static_cast<size_t>(uses.producer[static_cast<size_t>(node.inputs[*side])])] = true;
    }
  }
  Rewriter rewriter(graph, weights);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (absorbed[i]) continue;
    if (const auto side = product_of(node)) {
      const Node& product = graph.nodes[static_cast<size_t>(uses.producer[static_cast<size_t>(node.inputs[*side])])];
      std::vector<ValueId> inputs = product.inputs;
      inputs.push_back(node.inputs[1 - *side]);
      rewriter.emit(product.op, inputs, product.weights, {}, node.outputs);
    } else {
      rewriter.copy(node);
    }
  }
  return rewriter.finish();
}

namespace {

// The graph with `fused_of(node)` in place of each node that has one, and without the absorbed nodes.
template <class FusedOf>
Graph replace_nodes(const Graph& graph, std::span<const WeightShape> weights, const std::vector<bool>& absorbed,
                    const FusedOf& fused_of) {
  Rewriter rewriter(graph, weights);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (absorbed[i]) continue;
    if (const auto fused = fused_of(node)) {
      rewriter.emit(fused->op, fused->inputs, fused->weights, fused->attributes, fused->outputs);
    } else {
      rewriter.copy(node);
    }
  }
  return rewriter.finish();
}

// The product with the norm of its input in it.
Node with_norm(const Node& product, const Node& norm) {
  const float eps = std::get<RmsNormAttributes>(norm.attributes).eps;
  Node fused{Op::norm_linear, norm.inputs, {norm.weights[0]}, product.outputs, NormLinearAttributes{eps}};
  fused.weights.insert(fused.weights.end(), product.weights.begin(), product.weights.end());
  if (product.op == Op::linear_glu) {
    fused.op = Op::norm_linear_glu;
    fused.attributes = NormLinearGluAttributes{eps, std::get<GluAttributes>(product.attributes).activation};
  }
  return fused;
}

}  // namespace

Graph fuse_norm(const Graph& graph, std::span<const WeightShape> weights, const DeviceTraits& device) {
  if (!device.has_op(Op::norm_linear) || !device.has_op(Op::norm_linear_glu)) return graph;
  const Uses uses(graph);
  const auto fused_of = [&](const Node& node) -> std::optional<Node> {
    if (!is_plain_linear(node) && node.op != Op::linear_glu) return std::nullopt;
    const Node* norm = sole_producer(graph, uses, node.inputs[0], Op::rms_norm);
    if (norm == nullptr) return std::nullopt;
    const ValueType& x = graph.values[static_cast<size_t>(norm->inputs[0])].type;
    if (std::get<RmsNormAttributes>(norm->attributes).group != x.width) return std::nullopt;
    Node fused = with_norm(node, *norm);
    const bool runs = runs_alone(device, graph, fused, types_of(graph, fused.inputs), types_of(graph, fused.outputs));
    return runs ? std::optional(std::move(fused)) : std::nullopt;
  };
  std::vector<bool> absorbed(graph.nodes.size(), false);
  for (const Node& node : graph.nodes) {
    if (fused_of(node)) absorbed[static_cast<size_t>(uses.producer[static_cast<size_t>(node.inputs[0])])] = true;
  }
  return replace_nodes(graph, weights, absorbed, fused_of);
}

namespace {

// One side of what precedes attention: rope over an optional per-head norm.
struct RopeChain {
  const Node* rope;
  const Node* norm;  // or nullptr
  ValueId source;    // what enters the chain
};

RopeChain rope_chain(const Graph& graph, const Uses& uses, const Node& rope) {
  const auto& attributes = std::get<RopeAttributes>(rope.attributes);
  const Node* norm = sole_producer(graph, uses, rope.inputs[0], Op::rms_norm);
  if (norm != nullptr && std::get<RmsNormAttributes>(norm->attributes).group != attributes.head_size) norm = nullptr;
  return {&rope, norm, norm == nullptr ? rope.inputs[0] : norm->inputs[0]};
}

// The rope that makes an attention's q and the append that it waits for, where both can become one rope_append.
struct RopeAppendMatch {
  RopeChain q, k;
  const Node* append;
};

std::optional<RopeAppendMatch> match_rope_append(const Graph& graph, const Uses& uses, const Node& attention) {
  if (attention.op != Op::attention) return std::nullopt;
  const Node* q_rope = sole_producer(graph, uses, attention.inputs[0], Op::rope);
  const Node* append = sole_producer(graph, uses, attention.inputs[1], Op::kv_append);
  if (q_rope == nullptr || append == nullptr) return std::nullopt;
  const Node* k_rope = sole_producer(graph, uses, append->inputs[0], Op::rope);
  if (k_rope == nullptr || k_rope->inputs[1] != q_rope->inputs[1]) return std::nullopt;
  const RopeAppendMatch match{rope_chain(graph, uses, *q_rope), rope_chain(graph, uses, *k_rope), append};
  const auto& q = std::get<RopeAttributes>(q_rope->attributes);
  const auto& k = std::get<RopeAttributes>(k_rope->attributes);
  if (q.style != k.style || q.head_size != k.head_size) return std::nullopt;
  // The fused op may rotate k where it lies: nothing else may read it.
  if (uses.count[static_cast<size_t>(match.k.source)] != 1) return std::nullopt;
  if (match.q.norm != nullptr && match.k.norm != nullptr &&
      std::get<RmsNormAttributes>(match.q.norm->attributes).eps !=
          std::get<RmsNormAttributes>(match.k.norm->attributes).eps) {
    return std::nullopt;
  }
  return match;
}

void emit_rope_append(Rewriter& rewriter, const RopeAppendMatch& match) {
  const auto& q = std::get<RopeAttributes>(match.q.rope->attributes);
  const auto& k = std::get<RopeAttributes>(match.k.rope->attributes);
  const Node* any_norm = match.q.norm != nullptr ? match.q.norm : match.k.norm;
  const float eps = any_norm == nullptr ? 0.0F : std::get<RmsNormAttributes>(any_norm->attributes).eps;
  const int32_t layer = std::get<KvAppendAttributes>(match.append->attributes).layer;
  const ValueId inputs[] = {match.q.source, match.k.source, match.append->inputs[1], match.q.rope->inputs[1]};
  const ValueId outputs[] = {match.q.rope->outputs[0], match.append->outputs[0]};
  const auto norm_weight = [](const Node* norm) { return norm == nullptr ? kNoWeight : norm->weights[0]; };
  rewriter.emit(Op::rope_append, inputs, {norm_weight(match.q.norm), norm_weight(match.k.norm)},
                RopeAppendAttributes{layer, q.heads, k.heads, q.head_size, q.style, eps}, outputs);
}

}  // namespace

Graph fuse_rope_append(const Graph& graph, std::span<const WeightShape> weights, const DeviceTraits& device) {
  if (!device.has_op(Op::rope_append)) return graph;
  const Uses uses(graph);
  std::vector<bool> absorbed(graph.nodes.size(), false);
  for (const Node& node : graph.nodes) {
    const auto match = match_rope_append(graph, uses, node);
    if (!match) continue;
    for (const Node* part : {match->q.rope, match->q.norm, match->k.rope, match->k.norm, match->append}) {
      if (part != nullptr) absorbed[index_of(graph, *part)] = true;
    }
  }
  Rewriter rewriter(graph, weights);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (absorbed[i]) continue;
    if (const auto match = match_rope_append(graph, uses, node)) emit_rope_append(rewriter, *match);
    rewriter.copy(node);
  }
  return rewriter.finish();
}

Graph fuse_rope_attention(const Graph& graph, std::span<const WeightShape> weights, const DeviceTraits& device) {
  if (!device.has_op(Op::rope_attention)) return graph;
  const Uses uses(graph);
  const auto fused_of = [&](const Node& node) -> std::optional<Node> {
    if (node.op != Op::attention) return std::nullopt;
    const Node* rope = sole_producer(graph, uses, node.inputs[0], Op::rope_append);
    if (rope == nullptr || sole_producer(graph, uses, node.inputs[1], Op::rope_append) != rope) return std::nullopt;
    // The fused op may rotate q where it lies.
    if (uses.count[static_cast<size_t>(rope->inputs[0])] != 1) return std::nullopt;
    const auto& attributes = std::get<RopeAppendAttributes>(rope->attributes);
    Node fused{
        Op::rope_attention,
        rope->inputs,
        {rope->weights[0], rope->weights[1], node.weights[0]},
        node.outputs,
        RopeAttentionAttributes{attributes.style, attributes.norm_eps, std::get<AttentionAttributes>(node.attributes)}};
    const bool runs = runs_alone(device, graph, fused, types_of(graph, fused.inputs), types_of(graph, fused.outputs));
    return runs ? std::optional(std::move(fused)) : std::nullopt;
  };
  std::vector<bool> absorbed(graph.nodes.size(), false);
  for (const Node& node : graph.nodes) {
    if (fused_of(node)) absorbed[static_cast<size_t>(uses.producer[static_cast<size_t>(node.inputs[0])])] = true;
  }
  return replace_nodes(graph, weights, absorbed, fused_of);
}

namespace {

bool can_output_other(Op op) {
  return op == Op::rms_norm || op == Op::layer_norm || op == Op::glu || op == Op::activate || op == Op::linear_glu ||
         op == Op::norm_linear_glu || op == Op::expert_glu || op == Op::attention || op == Op::rope_attention;
}

bool reads_activation(Op op) {
  return op == Op::linear || op == Op::linear_glu || op == Op::expert_linear || op == Op::expert_glu;
}

// The formats in which products read each value of a graph.
struct Reads {
  std::vector<Format> format;  // by value: of the first reader that wants another format than f32; f32: none does
  std::vector<int32_t> count;  // readers that want that one

  Reads(const Graph& graph, const DeviceTraits& device)
      : format(graph.values.size(), Format::f32), count(graph.values.size(), 0) {
    for (const Node& node : graph.nodes) {
      if (!reads_activation(node.op)) continue;
      const size_t value = static_cast<size_t>(node.inputs[0]);
      const Format wanted = read_format(graph, node, device);
      if (format[value] == Format::f32) format[value] = wanted;
      if (wanted != Format::f32 && wanted == format[value]) ++count[value];
    }
  }
};

}  // namespace

Graph quantize_activations(const Graph& graph, std::span<const WeightShape> weights, const DeviceTraits& device) {
  // A producer that can writes another format itself where all its readers want that.
  const Reads reads(graph, device);
  const Uses uses(graph);
  std::map<std::pair<ValueId, Format>, ValueId> converted;
  Rewriter rewriter(graph, weights);
  const auto output_format = [&](const Node& node, std::span<const ValueId> inputs) {
    const size_t out = static_cast<size_t>(node.outputs[0]);
    ValueType type = graph.values[out].type;
    type.format = reads.format[out];
    if (!can_output_other(node.op) || type.format == Format::f32 || reads.count[out] != uses.count[out]) {
      return Format::f32;
    }
    std::vector<ValueType> types;
    for (const ValueId input : inputs) types.push_back(rewriter.builder().type(input));
    return runs_alone(device, graph, node, types, {&type, 1}) ? type.format : Format::f32;
  };
  for (const Node& node : graph.nodes) {
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(rewriter.mapped(input));
    const Format wanted = reads_activation(node.op) ? read_format(graph, node, device) : Format::f32;
    if (wanted != Format::f32 && rewriter.builder().type(inputs[0]).format != wanted) {
      const auto [made, is_new] = converted.try_emplace({node.inputs[0], wanted}, kNoValue);
      if (is_new) {
        made->second = rewriter.builder().add_node(Op::quantize, {inputs[0]}, {}, {}, "quantize", wanted)[0];
      }
      inputs[0] = made->second;
    }
    const Format format = output_format(node, inputs);
    const std::string& name = graph.values[static_cast<size_t>(node.outputs[0])].name;
    const auto outputs = rewriter.builder().add_node(node.op, inputs, node.weights, node.attributes, name, format);
    for (size_t i = 0; i < outputs.size(); ++i) rewriter.map(node.outputs[i], outputs[i]);
  }
  return rewriter.finish();
}

Graph optimize(const Graph& graph, std::span<const WeightShape> weights, const DeviceTraits& device, bool fuse) {
  if (!fuse) return quantize_activations(graph, weights, device);
  Graph fused = fuse_gated(graph, weights, device);
  fused = fuse_residual(fused, weights, device);
  fused = fuse_linear_inputs(fused, weights, device);
  fused = fuse_norm(fused, weights, device);
  fused = fuse_rope_append(fused, weights, device);
  fused = fuse_rope_attention(fused, weights, device);
  return quantize_activations(fused, weights, device);
}

}  // namespace minfer::graph
