// What the op rules share: a check that names the op, and the common comparisons. Internal to graph/ops/.
#pragma once

#include <string_view>

#include "base/error.hpp"
#include "graph/ops.hpp"

namespace minfer::graph {

inline void require(const NodeCheck& node, bool condition, std::string_view rule) {
  if (!condition) fail(ErrorCode::internal, "internal error: graph node {}: {}", op_name(node.op), rule);
}

inline void require_counts(const NodeCheck& node, size_t inputs, size_t weights) {
  require(node, node.inputs.size() == inputs, "wrong number of inputs");
  require(node, node.weights.size() == weights, "wrong number of weights");
}

inline bool is_vector(const WeightShape* weight, int64_t length) {
  return weight != nullptr && weight->rows == 1 && weight->cols == length;
}

template <class T>
const T& attributes_of(const NodeCheck& node) {
  const T* attributes = std::get_if<T>(&node.attributes);
  require(node, attributes != nullptr, "wrong attributes");
  return *attributes;
}

// The activation of a gated layer: gelu_erf has no gated form.
inline void require_gate(const NodeCheck& node) {
  require(node, attributes_of<GluAttributes>(node).activation != Activation::gelu_erf, "no gated form of gelu_erf");
}

// f32, bf16, or q8 where the width is whole blocks of 32.
inline void require_activation_output(const NodeCheck& node, int64_t width) {
  const bool q8 = node.output_format == Format::q8 && width % 32 == 0;
  require(node, node.output_format == Format::f32 || node.output_format == Format::bf16 || q8,
          "output must be f32, bf16, or q8 of whole blocks");
}

}  // namespace minfer::graph
