// Counting by op. See op_work.hpp.
#include "graph/op_work.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include <fmt/ranges.h>

namespace minfer::graph {
namespace {

constexpr std::string_view kLayerPrefix = "blk.";
constexpr std::string_view kWeightSuffix = ".weight";

const Value& value_of(const WorkContext& context, ValueId id) {
  return context.graph.values[static_cast<size_t>(id)];
}

int64_t rows_of(const WorkContext& context, ValueId id, const StepData& step) {
  const ValueType& type = value_of(context, id).type;
  const size_t rows = type.rows == Rows::tokens ? step.token_ids.size() : step.output_rows.size();
  return static_cast<int64_t>(rows) * rows_each(type);
}

// Of a row, without the padding that a device may add: 8-bit blocks of 32 have a scale and a sum of 4 bytes each.
int64_t row_bytes(const ValueType& type) {
  switch (type.format) {
    case Format::f32:
    case Format::i32:
      return type.width * 4;
    case Format::q8:
      return type.width + type.width / 32 * 8;
    case Format::bf16:
      return type.width * 2;
    case Format::kv:
      return 0;
    case Format::routes:
      return type.chosen * 4;
  }
  return 0;
}

// Positions that rows of a sequence read from the cache: all of them together, and summed row by row.
struct Positions {
  int64_t distinct = 0;
  int64_t summed = 0;
};

Positions positions_of(const SequenceStep& sequence, const AttentionAttributes& attributes) {
  const int64_t end = sequence.first_position + sequence.rows, window = attributes.window;
  if (!attributes.causal) return {end, sequence.rows * end};
  const int64_t first = window == 0 ? 0 : std::max<int64_t>(0, sequence.first_position - window + 1);
  Positions positions{end - first, 0};
  for (int64_t position = sequence.first_position; position < end; ++position) {
    positions.summed += window == 0 ? position + 1 : std::min(position + 1, window);
  }
  return positions;
}

// The attention of a node that has one, or nullptr.
const AttentionAttributes* attention_of(const Node& node) {
  const auto* fused = std::get_if<RopeAttentionAttributes>(&node.attributes);
  return fused != nullptr ? &fused->attention : std::get_if<AttentionAttributes>(&node.attributes);
}

void add_attention(const WorkContext& context, const AttentionAttributes& attributes, const StepData& step,
                   OpWork& work) {
  for (const SequenceStep& sequence : step.sequences) {
    const Positions positions = positions_of(sequence, attributes);
    work.bytes += positions.distinct * context.cache_row_bytes[static_cast<size_t>(attributes.layer)];
    work.float_ops += 2 * attributes.heads * (attributes.head_size + attributes.value_size) * positions.summed;
  }
}

bool is_normed(const Node& node) {
  return node.op == Op::norm_linear || node.op == Op::norm_linear_glu;
}

bool is_routed(const Node& node) {
  return node.op == Op::expert_linear || node.op == Op::expert_glu;
}

bool is_product(const Node& node) {
  return node.op == Op::linear || node.op == Op::linear_glu || is_normed(node) || is_routed(node);
}

// The first matrix among a product's weights: behind its norm, if it has one.
size_t first_matrix(const Node& node) {
  return is_normed(node) ? 1 : 0;
}

// The part of the experts that `entries` of them reach, were each as likely as any other.
double reached_part(const WorkContext& context, const Node& node, int64_t entries) {
  const ValueType& routes = value_of(context, node.inputs[1]).type;
  const double missed = 1.0 - static_cast<double>(routes.chosen) / static_cast<double>(routes.width);
  return 1.0 - std::pow(missed, static_cast<double>(entries / routes.chosen));
}

void add_products(const WorkContext& context, const Node& node, int64_t rows, OpWork& work) {
  const double part = is_routed(node) ? reached_part(context, node, rows) : 1.0;
  const bool q8 = value_of(context, node.inputs[0]).type.format == Format::q8;
  // Each matrix is followed by its bias, or none.
  for (size_t i = first_matrix(node); i < node.weights.size(); ++i) {
    if (node.weights[i] == kNoWeight) continue;
    const HeldWeight& weight = context.weights[static_cast<size_t>(node.weights[i])];
    work.bytes += static_cast<int64_t>(part * static_cast<double>(weight.bytes));
    if ((i - first_matrix(node)) % 2 == 0) {
      (q8 ? work.dot8_ops : work.float_ops) += 2 * rows * weight.shape.rows * weight.shape.cols;
    }
  }
}

}  // namespace

OpWork node_work(const WorkContext& context, const Node& node, const StepData& step) {
  OpWork work;
  const int64_t rows = rows_of(context, node.outputs[0], step);
  if (rows == 0) return work;
  for (const ValueId input : node.inputs) {
    // Of a gather's input only the rows that are wanted.
    const int64_t read = node.op == Op::gather_rows ? rows : rows_of(context, input, step);
    work.bytes += read * row_bytes(value_of(context, input).type);
  }
  if (is_product(node)) {
    add_products(context, node, rows, work);
  } else if (const auto* attention = attention_of(node)) {
    add_attention(context, *attention, step, work);
  } else {
    if (node.op == Op::embed) {
      const HeldWeight& table = context.weights[static_cast<size_t>(node.weights[0])];
      work.bytes += rows * tensor::row_bytes(table.dtype, table.shape.cols);
    }
    for (const ValueId output : node.outputs) {
      const ValueType& type = value_of(context, output).type;
      if (type.format != Format::kv) work.float_ops += rows * type.width;
    }
  }
  return work;
}

std::string node_kind(const WorkContext& context, const Node& node) {
  if (const auto* attention = attention_of(node)) {
    return attention->window == 0 ? std::string() : fmt::format("window {}", attention->window);
  }
  if (!is_product(node)) return {};
  std::string names;
  std::vector<std::string_view> types;
  for (size_t i = first_matrix(node); i < node.weights.size(); i += 2) {
    const HeldWeight& weight = context.weights[static_cast<size_t>(node.weights[i])];
    std::string_view name = weight.shape.name;
    if (name.starts_with(kLayerPrefix))
      name.remove_prefix(std::min(name.size(), name.find('.', kLayerPrefix.size()) + 1));
    if (name.ends_with(kWeightSuffix)) name.remove_suffix(kWeightSuffix.size());
    names += (names.empty() ? "" : "+") + std::string(name);
    const std::string_view type = tensor::dtype_info(weight.dtype).name;
    if (std::find(types.begin(), types.end(), type) == types.end()) types.push_back(type);
  }
  return fmt::format("{} {}", names, fmt::join(types, "+"));
}

}  // namespace minfer::graph
