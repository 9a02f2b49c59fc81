// The op table of the CPU and the sizes that follow from it. See op_table.hpp.
#include "cpu/executor/op_table.hpp"

#include <algorithm>
#include <string_view>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "cpu/executor/ops.hpp"
#include "cpu/launch/activation.hpp"
#include "cpu/launch/experts.hpp"

namespace minfer::cpu {
namespace {

std::optional<std::string> always(Isa, const graph::Graph&, const graph::Node&) {
  return std::nullopt;
}

// Entries are 32-bit numbers.
constexpr int64_t kMaxEntries = int64_t{1} << 30;

// The scalar kernels are the oracle: they compute on f32 activations and have no 8-bit form.
std::optional<std::string> vector_only(Isa isa, const graph::Graph&, const graph::Node&) {
  if (isa == Isa::scalar) return "the scalar kernels take f32 activations";
  return std::nullopt;
}

constexpr OpRow kRows[] = {
    {graph::Op::embed, always, run_embed},
    {graph::Op::rms_norm, always, run_rms_norm},
    {graph::Op::layer_norm, always, run_layer_norm},
    {graph::Op::quantize, vector_only, run_quantize},
    {graph::Op::linear, always, run_linear},
    {graph::Op::glu, always, run_glu},
    {graph::Op::activate, always, run_activate},
    {graph::Op::linear_glu, always, run_linear_glu},
    {graph::Op::add, always, run_add},
    {graph::Op::scale, always, run_scale},
    {graph::Op::rope_angles, always, run_rope_angles},
    {graph::Op::rope, always, run_rope},
    {graph::Op::join_heads, always, run_join_heads},
    {graph::Op::kv_append, always, run_kv_append},
    {graph::Op::rope_append, always, run_rope_append},
    {graph::Op::attention, attention_unsupported, run_attention},
    {graph::Op::gather_rows, always, run_gather_rows},
    {graph::Op::route, always, run_route},
    {graph::Op::expert_linear, always, run_expert_linear},
    {graph::Op::expert_glu, always, run_expert_glu},
    {graph::Op::expert_sum, always, run_expert_sum},
    {graph::Op::adapter_scale, always, run_adapter_scale},
};

}  // namespace

const OpRow* find_op(graph::Op op) {
  const auto* row = std::find_if(std::begin(kRows), std::end(kRows), [&](const OpRow& r) { return r.op == op; });
  return row == std::end(kRows) ? nullptr : row;
}

AttentionCapacity attention_capacity(const graph::Graph& graph, const graph::KvSpec& kv, int threads) {
  return {graph.shape.tokens, kv.sequence_tokens, threads};
}

int64_t graph_scratch_bytes(const graph::Graph& graph, const graph::KvSpec& kv, int threads) {
  int64_t bytes = 0;
  const AttentionCapacity capacity = attention_capacity(graph, kv, threads);
  for (const graph::Node& node : graph.nodes) {
    bytes = std::max(bytes, expert_scratch_bytes(graph, node));
    if (node.op != graph::Op::attention) continue;
    const auto& attributes = std::get<graph::AttentionAttributes>(node.attributes);
    const KvLayerSpec layer = kv_layer_spec(kv, static_cast<size_t>(attributes.layer));
    bytes = std::max(bytes, attention_scratch_bytes(attention_spec(graph, node, layer), capacity));
  }
  return bytes;
}

int64_t cpu_value_bytes(const graph::ValueType& type, int64_t rows) {
  constexpr std::string_view kWhat = "bytes of an activation";
  switch (type.format) {
    case graph::Format::f32:
    case graph::Format::i32:
      return checked_multiply(checked_multiply(rows, type.width, kWhat), 4, kWhat);
    case graph::Format::q8:
      return checked_multiply(rows, q8_row_bytes(type.width), kWhat);
    case graph::Format::bf16:
      break;  // a format that the CPU never asks for
    case graph::Format::kv:
      return 0;
    case graph::Format::routes:
      check(checked_multiply(rows, type.chosen, kWhat) <= kMaxEntries, "more entries of experts than 32 bits number");
      return routes_bytes(rows, type.chosen);
  }
  fail(ErrorCode::internal, "internal error: value of an unknown format");
}

}  // namespace minfer::cpu
