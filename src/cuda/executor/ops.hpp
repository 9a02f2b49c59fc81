// The runners behind the op table: from graph nodes to the launchers of launch/. Internal to executor/.
#pragma once

#include <optional>
#include <string>

#include "cuda/executor/op_table.hpp"

namespace minfer::cuda {

void run_embed(const StepState& state, const graph::Node& node);
void run_rms_norm(const StepState& state, const graph::Node& node);
void run_layer_norm(const StepState& state, const graph::Node& node);
void run_quantize(const StepState& state, const graph::Node& node);
void run_linear(const StepState& state, const graph::Node& node);
void run_glu(const StepState& state, const graph::Node& node);
void run_linear_glu(const StepState& state, const graph::Node& node);
void run_norm_linear(const StepState& state, const graph::Node& node);
void run_norm_linear_glu(const StepState& state, const graph::Node& node);
void run_activate(const StepState& state, const graph::Node& node);
void run_add(const StepState& state, const graph::Node& node);
void run_rope_angles(const StepState& state, const graph::Node& node);
void run_rope(const StepState& state, const graph::Node& node);
void run_join_heads(const StepState&, const graph::Node&);
void run_kv_append(const StepState& state, const graph::Node& node);
void run_rope_append(const StepState& state, const graph::Node& node);
void run_attention(const StepState& state, const graph::Node& node);
void run_rope_attention(const StepState& state, const graph::Node& node);
void run_scale(const StepState& state, const graph::Node& node);
void run_adapter_scale(const StepState& state, const graph::Node& node);
void run_gather_rows(const StepState& state, const graph::Node& node);
// ops_experts.cpp
void run_route(const StepState& state, const graph::Node& node);
void run_expert_linear(const StepState& state, const graph::Node& node);
void run_expert_glu(const StepState& state, const graph::Node& node);
void run_expert_sum(const StepState& state, const graph::Node& node);

std::optional<std::string> linear_unsupported(const graph::Graph& graph, const graph::Node& node);
std::optional<std::string> normed_unsupported(const graph::Graph& graph, const graph::Node& node);
std::optional<std::string> attention_node_unsupported(const graph::Graph& graph, const graph::Node& node);
// The attention of an attention or rope_attention node.
const graph::AttentionAttributes& attention_of(const graph::Node& node);

// The frequencies of a graph's rope_angles nodes, behind one another in the order of the nodes; and where those of one
// node begin.
std::vector<float> rope_frequencies(const graph::Graph& graph);
int64_t frequencies_offset(const graph::Graph& graph, const graph::Node& node);

}  // namespace minfer::cuda
