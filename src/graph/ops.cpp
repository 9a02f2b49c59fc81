// The op table. See ops.hpp.
#include "graph/ops.hpp"

#include <array>

#include "base/error.hpp"

namespace minfer::graph {
namespace {

constexpr std::array<OpInfo, kOpCount> kOps = {{
    {Op::embed, "embed", infer_embed},
    {Op::rms_norm, "rms_norm", infer_rms_norm},
    {Op::layer_norm, "layer_norm", infer_layer_norm},
    {Op::quantize, "quantize", infer_quantize},
    {Op::linear, "linear", infer_linear},
    {Op::glu, "glu", infer_glu},
    {Op::activate, "activate", infer_activate},
    {Op::linear_glu, "linear_glu", infer_linear_glu},
    {Op::norm_linear, "norm_linear", infer_norm_linear},
    {Op::norm_linear_glu, "norm_linear_glu", infer_norm_linear_glu},
    {Op::add, "add", infer_add},
    {Op::scale, "scale", infer_scale},
    {Op::rope_angles, "rope_angles", infer_rope_angles},
    {Op::rope, "rope", infer_rope},
    {Op::join_heads, "join_heads", infer_join_heads},
    {Op::kv_append, "kv_append", infer_kv_append},
    {Op::rope_append, "rope_append", infer_rope_append},
    {Op::attention, "attention", infer_attention},
    {Op::rope_attention, "rope_attention", infer_rope_attention},
    {Op::gather_rows, "gather_rows", infer_gather_rows},
    {Op::route, "route", infer_route},
    {Op::expert_linear, "expert_linear", infer_expert_linear},
    {Op::expert_glu, "expert_glu", infer_expert_glu},
    {Op::expert_sum, "expert_sum", infer_expert_sum},
    {Op::adapter_scale, "adapter_scale", infer_adapter_scale},
}};

// The table is indexed by op: its order is the enum's.
constexpr bool in_enum_order() {
  for (size_t i = 0; i < kOps.size(); ++i) {
    if (static_cast<size_t>(kOps[i].op) != i) return false;
  }
  return true;
}
static_assert(in_enum_order());

}  // namespace

const OpInfo& op_info(Op op) {
  return kOps[static_cast<size_t>(op)];
}

std::vector<ValueType> infer_outputs(const NodeCheck& node) {
  return op_info(node.op).infer(node);
}

}  // namespace minfer::graph
