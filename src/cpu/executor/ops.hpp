// The runners behind the op table, by family: ops_rows.cpp, ops_linear.cpp, ops_experts.cpp, ops_attention.cpp.
// Internal to executor/.
#pragma once

#include <optional>
#include <string>

#include "cpu/executor/op_table.hpp"
#include "cpu/launch/linear.hpp"

namespace minfer::cpu {

void run_embed(const StepState&, const graph::Node&, Worker&);
void run_rms_norm(const StepState&, const graph::Node&, Worker&);
void run_layer_norm(const StepState&, const graph::Node&, Worker&);
void run_quantize(const StepState&, const graph::Node&, Worker&);
void run_glu(const StepState&, const graph::Node&, Worker&);
void run_activate(const StepState&, const graph::Node&, Worker&);
void run_add(const StepState&, const graph::Node&, Worker&);
void run_scale(const StepState&, const graph::Node&, Worker&);
void run_adapter_scale(const StepState&, const graph::Node&, Worker&);
void run_gather_rows(const StepState&, const graph::Node&, Worker&);

void run_linear(const StepState&, const graph::Node&, Worker&);
void run_linear_glu(const StepState&, const graph::Node&, Worker&);

void run_route(const StepState&, const graph::Node&, Worker&);
void run_expert_linear(const StepState&, const graph::Node&, Worker&);
void run_expert_glu(const StepState&, const graph::Node&, Worker&);
void run_expert_sum(const StepState&, const graph::Node&, Worker&);

void run_rope_angles(const StepState&, const graph::Node&, Worker&);
void run_rope(const StepState&, const graph::Node&, Worker&);
void run_join_heads(const StepState&, const graph::Node&, Worker&);
void run_kv_append(const StepState&, const graph::Node&, Worker&);
void run_rope_append(const StepState&, const graph::Node&, Worker&);
void run_attention(const StepState&, const graph::Node&, Worker&);

// A value in the forms that its format has.
ActivationRows activation_of(const StepState& state, graph::ValueId id);
// What a product of experts needs beside its values.
int64_t expert_scratch_bytes(const graph::Graph& graph, const graph::Node& node);

std::optional<std::string> attention_unsupported(Isa, const graph::Graph&, const graph::Node&);

}  // namespace minfer::cpu
