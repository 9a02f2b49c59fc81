// Rules of positions and attention: rope_angles, rope, join_heads, kv_append, rope_append, attention, rope_attention.
// Rows are tokens; a head is a slice of the width. The cache itself is data of the step; nodes name its layer.
#include "graph/ops/rules.hpp"

namespace minfer::graph {
namespace {

bool is_f32(const ValueType& value, int64_t width) {
  return value.format == Format::f32 && value.rows == Rows::tokens && value.width == width;
}

// The optional norms of q and k, the first two weights.
void require_head_norms(const NodeCheck& node, int64_t head_size) {
  for (const WeightShape* norm : {node.weights[0], node.weights[1]}) {
    require(node, norm == nullptr || is_vector(norm, head_size), "a norm must have one element a head element");
  }
}

// What attention makes of its heads.
std::vector<ValueType> attended(const NodeCheck& node, const AttentionAttributes& attributes,
                                const WeightShape* sinks) {
  require(node, is_f32(node.inputs[0], attributes.heads * attributes.head_size), "q must be heads of f32");
  require(node, attributes.kv_heads > 0 && attributes.heads % attributes.kv_heads == 0, "heads must be whole groups");
  require(node, attributes.causal || attributes.window == 0, "a window of attention to a whole sequence");
  require(node, sinks == nullptr || is_vector(sinks, attributes.heads), "there must be one sink a head");
  require_activation_output(node, attributes.heads * attributes.value_size);
  return {{node.output_format, Rows::tokens, attributes.heads * attributes.value_size}};
}

}  // namespace

// (positions i32 [tokens][1]) -> f32 [tokens][2 * pairs]: cos and sin of each rotated pair, interleaved.
std::vector<ValueType> infer_rope_angles(const NodeCheck& node) {
  require_counts(node, 1, 0);
  const auto& attributes = attributes_of<RopeAnglesAttributes>(node);
  require(node, node.inputs[0].format == Format::i32 && node.inputs[0].width == 1, "positions must be i32 of width 1");
  require(node, !attributes.inverse_frequencies.empty(), "no frequencies");
  require(node, attributes.temperature == 0 || attributes.temperature_length > 0, "a temperature without a length");
  return {{Format::f32, node.inputs[0].rows, 2 * static_cast<int64_t>(attributes.inverse_frequencies.size())}};
}

// (x f32 [tokens][heads * head_size], angles) -> x rotated; elements past the rotated ones are unchanged.
std::vector<ValueType> infer_rope(const NodeCheck& node) {
  require_counts(node, 2, 0);
  const auto& attributes = attributes_of<RopeAttributes>(node);
  require(node, is_f32(node.inputs[0], attributes.heads * attributes.head_size), "x must be heads of f32");
  require(node, node.inputs[1].width <= attributes.head_size, "more rotated elements than a head has");
  return {node.inputs[0]};
}

// (a f32 [rows][..], b f32 [rows][..]) -> f32 [rows][heads * (slice of a + slice of b)].
std::vector<ValueType> infer_join_heads(const NodeCheck& node) {
  require_counts(node, 2, 0);
  const auto& attributes = attributes_of<JoinHeadsAttributes>(node);
  const ValueType &a = node.inputs[0], &b = node.inputs[1];
  require(node, a.format == Format::f32 && b.format == Format::f32 && a.rows == b.rows,
          "a and b must be f32 of equal rows");
  require(node, attributes.heads > 0 && attributes.first.size > 0 && attributes.second.size >= 0, "heads of no size");
  const auto within = [&](const JoinHeadsAttributes::Slice& slice, const ValueType& x) {
    const int64_t end = slice.offset + (attributes.heads - 1) * slice.stride + slice.size;
    return slice.offset >= 0 && slice.stride >= 0 && (slice.size == 0 || end <= x.width);
  };
  require(node, within(attributes.first, a) && within(attributes.second, b), "a slice beyond its row");
  return {{Format::f32, a.rows, attributes.heads * (attributes.first.size + attributes.second.size)}};
}

// (k f32 [tokens][kv_heads * head_size], v f32 [tokens][kv_heads * value_size]) -> the effect of writing them.
std::vector<ValueType> infer_kv_append(const NodeCheck& node) {
  require_counts(node, 2, 0);
  attributes_of<KvAppendAttributes>(node);
  require(node, is_f32(node.inputs[0], node.inputs[0].width) && is_f32(node.inputs[1], node.inputs[1].width),
          "k and v must be f32 a token");
  return {{Format::kv, Rows::tokens, 0}};
}

// (q, k, v, angles; q norm? [head_size], k norm? [head_size]) -> (q normed and rotated, the effect of writing k and v).
std::vector<ValueType> infer_rope_append(const NodeCheck& node) {
  require_counts(node, 4, 2);
  const auto& attributes = attributes_of<RopeAppendAttributes>(node);
  require(node, is_f32(node.inputs[0], attributes.heads * attributes.head_size), "q must be heads of f32");
  require(node, is_f32(node.inputs[1], attributes.kv_heads * attributes.head_size), "k must be kv heads of f32");
  require(node, is_f32(node.inputs[2], node.inputs[2].width), "v must be f32 a token");
  require(node, node.inputs[3].width <= attributes.head_size, "more rotated elements than a head has");
  require_head_norms(node, attributes.head_size);
  return {node.inputs[0], {Format::kv, Rows::tokens, 0}};
}

// (q f32 [tokens][heads * head_size], effect of this layer's append; sinks? [heads]) -> [tokens][heads * value_size],
// f32, q8 or bf16. A head's sink is a score that joins the sum of its softmax, without a value.
std::vector<ValueType> infer_attention(const NodeCheck& node) {
  require_counts(node, 2, 1);
  require(node, node.inputs[1].format == Format::kv, "the second input must be the layer's append");
  return attended(node, attributes_of<AttentionAttributes>(node), node.weights[0]);
}

// (q, k, v, angles; q norm? [head_size], k norm? [head_size], sinks? [heads]) -> what rope_append and attention make.
std::vector<ValueType> infer_rope_attention(const NodeCheck& node) {
  require_counts(node, 4, 3);
  const auto& attributes = attributes_of<RopeAttentionAttributes>(node).attention;
  require(node, is_f32(node.inputs[1], attributes.kv_heads * attributes.head_size), "k must be kv heads of f32");
  require(node, is_f32(node.inputs[2], attributes.kv_heads * attributes.value_size), "v must be kv heads of f32");
  require(node, node.inputs[3].width <= attributes.head_size, "more rotated elements than a head has");
  require_head_norms(node, attributes.head_size);
  return attended(node, attributes, node.weights[2]);
}

}  // namespace minfer::graph
