// The runners behind the op table, by family: ops_rows.cpp, ops_linear.cpp, ops_attention.cpp. Internal to executor/.
#pragma once

#include <optional>
#include <string>

#include "cpu/executor/op_table.hpp"

namespace minfer::cpu {

void run_embed(const StepState&, const graph::Node&, Worker&);
void run_rms_norm(const StepState&, const graph::Node&, Worker&);
void run_quantize(const StepState&, const graph::Node&, Worker&);
void run_glu(const StepState&, const graph::Node&, Worker&);
void run_add(const StepState&, const graph::Node&, Worker&);
void run_gather_rows(const StepState&, const graph::Node&, Worker&);

void run_linear(const StepState&, const graph::Node&, Worker&);
void run_linear_glu(const StepState&, const graph::Node&, Worker&);

void run_rope_angles(const StepState&, const graph::Node&, Worker&);
void run_rope(const StepState&, const graph::Node&, Worker&);
void run_kv_append(const StepState&, const graph::Node&, Worker&);
void run_rope_append(const StepState&, const graph::Node&, Worker&);
void run_attention(const StepState&, const graph::Node&, Worker&);

std::optional<std::string> attention_unsupported(Isa, const graph::Graph&, const graph::Node&);

}  // namespace minfer::cpu
