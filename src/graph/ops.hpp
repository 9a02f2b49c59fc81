// Contracts of the ops: for each a name, and a rule that checks a node's inputs, weights and attributes and says which
// types its outputs have. Every way of making a node (builder, passes) goes through infer_outputs, so a graph that
// exists is well formed. One file a family under ops/, one row in the table of ops.cpp adds an op; a device opts in
// with a row of its own (backend.hpp).
#pragma once

#include <span>
#include <vector>

#include "graph/ir.hpp"

namespace minfer::graph {

// What a rule sees of a node that is being made.
struct NodeCheck {
  Op op;
  std::vector<ValueType> inputs;
  std::vector<const WeightShape*> weights;  // nullptr where absent
  const Attributes& attributes;
  Format output_format;  // asked for by the maker: f32, or q8 where the op can quantize its output
};

using InferFn = std::vector<ValueType> (*)(const NodeCheck&);

struct OpInfo {
  Op op;
  std::string_view name;
  InferFn infer;
};

const OpInfo& op_info(Op op);

// Output types of a node, checked. Errors: internal, naming the op and the broken rule: graphs are made by minfer's own
// code from a checked Config and checked weight shapes, so no input reaches them.
std::vector<ValueType> infer_outputs(const NodeCheck& node);

// The rules, one a family file.
std::vector<ValueType> infer_embed(const NodeCheck&);
std::vector<ValueType> infer_rms_norm(const NodeCheck&);
std::vector<ValueType> infer_layer_norm(const NodeCheck&);
std::vector<ValueType> infer_quantize(const NodeCheck&);
std::vector<ValueType> infer_linear(const NodeCheck&);
std::vector<ValueType> infer_linear_glu(const NodeCheck&);
std::vector<ValueType> infer_norm_linear(const NodeCheck&);
std::vector<ValueType> infer_norm_linear_glu(const NodeCheck&);
std::vector<ValueType> infer_glu(const NodeCheck&);
std::vector<ValueType> infer_activate(const NodeCheck&);
std::vector<ValueType> infer_add(const NodeCheck&);
std::vector<ValueType> infer_scale(const NodeCheck&);
std::vector<ValueType> infer_rope_angles(const NodeCheck&);
std::vector<ValueType> infer_rope(const NodeCheck&);
std::vector<ValueType> infer_join_heads(const NodeCheck&);
std::vector<ValueType> infer_kv_append(const NodeCheck&);
std::vector<ValueType> infer_rope_append(const NodeCheck&);
std::vector<ValueType> infer_attention(const NodeCheck&);
std::vector<ValueType> infer_rope_attention(const NodeCheck&);
std::vector<ValueType> infer_gather_rows(const NodeCheck&);
std::vector<ValueType> infer_route(const NodeCheck&);
std::vector<ValueType> infer_expert_linear(const NodeCheck&);
std::vector<ValueType> infer_expert_glu(const NodeCheck&);
std::vector<ValueType> infer_expert_sum(const NodeCheck&);
std::vector<ValueType> infer_adapter_scale(const NodeCheck&);

}  // namespace minfer::graph
