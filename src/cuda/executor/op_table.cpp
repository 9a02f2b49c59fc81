// The op table of a card, and the sizes that follow from it. See op_table.hpp.
#include "cuda/executor/op_table.hpp"

#include <algorithm>
#include <string_view>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "cuda/executor/ops.hpp"
#include "cuda/launch/experts.hpp"
#include "cuda/launch/sampling.hpp"

namespace minfer::cuda {
namespace {

std::optional<std::string> always(const graph::Graph&, const graph::Node&) {
  return std::nullopt;
}

constexpr OpRow kRows[] = {
    {graph::Op::embed, always, run_embed},
    {graph::Op::rms_norm, always, run_rms_norm},
    {graph::Op::layer_norm, always, run_layer_norm},
    {graph::Op::quantize, always, run_quantize},
    {graph::Op::linear, linear_unsupported, run_linear},
    {graph::Op::glu, always, run_glu},
    {graph::Op::activate, always, run_activate},
    {graph::Op::linear_glu, always, run_linear_glu},
    {graph::Op::norm_linear, normed_unsupported, run_norm_linear},
    {graph::Op::norm_linear_glu, normed_unsupported, run_norm_linear_glu},
    {graph::Op::add, always, run_add},
    {graph::Op::scale, always, run_scale},
    {graph::Op::adapter_scale, always, run_adapter_scale},
    {graph::Op::rope_angles, always, run_rope_angles},
    {graph::Op::rope, always, run_rope},
    {graph::Op::join_heads, always, run_join_heads},
    {graph::Op::kv_append, always, run_kv_append},
    {graph::Op::rope_append, always, run_rope_append},
    {graph::Op::attention, attention_node_unsupported, run_attention},
    {graph::Op::rope_attention, attention_node_unsupported, run_rope_attention},
    {graph::Op::gather_rows, always, run_gather_rows},
    {graph::Op::route, always, run_route},
    {graph::Op::expert_linear, always, run_expert_linear},
    {graph::Op::expert_glu, always, run_expert_glu},
    {graph::Op::expert_sum, always, run_expert_sum},
};

// Entries are 32-bit numbers.
constexpr int64_t kMaxEntries = int64_t{1} << 30;

// The type of weight whose product reads `format`: scratch depends on no more.
tensor::DType representative(graph::Format format) {
  switch (format) {
    case graph::Format::q8:
      return tensor::DType::q8_0;
    case graph::Format::bf16:
      return tensor::DType::bf16;
    default:
      return tensor::DType::f32;
  }
}

}  // namespace

const OpRow* find_op(graph::Op op) {
  const auto* row = std::find_if(std::begin(kRows), std::end(kRows), [&](const OpRow& r) { return r.op == op; });
  return row == std::end(kRows) ? nullptr : row;
}

int64_t sequence_capacity(int64_t tokens, const graph::KvSpec& kv) {
  return std::min(tokens, kv.step_sequences);
}

ActivationFormat format_of(graph::Format format) {
  switch (format) {
    case graph::Format::f32:
      return ActivationFormat::f32;
    case graph::Format::bf16:
      return ActivationFormat::bf16;
    case graph::Format::q8:
      return ActivationFormat::q8;
    case graph::Format::i32:
    case graph::Format::kv:
    case graph::Format::routes:
      break;
  }
  fail(ErrorCode::internal, "internal error: {} is no format of activations", graph::format_name(format));
}

const int32_t* StepState::input(graph::ValueId id) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (graph->inputs[i] == id) return inputs[i];
  }
  fail(ErrorCode::internal, "internal error: a node reads integers that are no input of the graph");
}

Rows StepState::rows(graph::ValueId id) const {
  return {format_of(type(id).format), bytes(id), row_count(id), type(id).width};
}

int64_t cuda_value_bytes(const graph::ValueType& type, int64_t rows) {
  constexpr std::string_view kWhat = "bytes of an activation";
  // Inputs are part of the step's data; the effect of an append is nothing.
  if (type.format == graph::Format::i32 || type.format == graph::Format::kv) return 0;
  if (type.format == graph::Format::routes) {
    check(checked_multiply(rows, type.chosen, kWhat) <= kMaxEntries, "more entries of experts than 32 bits number");
    return routes_bytes(rows, type.width, type.chosen);
  }
  return checked_multiply(rows, row_stride(format_of(type.format), type.width), kWhat);
}

ScratchBytes node_scratch(const Capabilities& capabilities, const graph::Graph& graph, const graph::KvSpec& kv) {
  ScratchBytes bytes;
  const auto type = [&](graph::ValueId id) { return graph.values[static_cast<size_t>(id)].type; };
  for (const graph::Node& node : graph.nodes) {
    const graph::ValueType in = node.inputs.empty() ? graph::ValueType{} : type(node.inputs[0]);
    const int64_t rows = graph::row_count(in.rows, graph.shape);
    if (node.op == graph::Op::attention || node.op == graph::Op::rope_attention) {
      const graph::AttentionAttributes& attributes = attention_of(node);
      const KvLayerView view = kv_layer_view(kv, attributes.layer);
      const auto need = [&](int64_t sequences, bool decode) {
        const int64_t taken = attention_scratch_bytes(capabilities, view, attributes.heads, decode ? sequences : rows,
                                                      sequences, kv.sequence_tokens, decode);
        bytes.attention = std::max(bytes.attention, taken);
      };
      if (capabilities.strict) {
        need(rows, true);
        continue;
      }
      // Steps of fewer sequences may need more: more rows of each are split then.
      const int64_t most = sequence_capacity(graph.shape.tokens, kv);
      need(most, true);
      for (int64_t sequences = 1; sequences <= most; ++sequences) need(sequences, false);
    } else if (node.op == graph::Op::linear) {
      for (const graph::ValueId out : node.outputs) {
        bytes.linear =
            std::max(bytes.linear, linear_scratch_bytes(representative(in.format), rows, type(out).width, in.width));
      }
    } else if (node.op == graph::Op::linear_glu) {
      bytes.linear = std::max(bytes.linear, linear_glu_scratch_bytes(representative(in.format), rows,
                                                                     type(node.outputs[0]).width, in.width));
    }
  }
  if (graph.logits != graph::kNoValue) {
    bytes.sampling = sample_scratch_bytes(graph.shape.outputs, type(graph.logits).width);
  }
  return bytes;
}

}  // namespace minfer::cuda
