// Makes graphs: one method an op, each checked by the op's rule as it is made. An architecture's graph function uses it
// with weights by name; the passes use add_node. Weight ids index the weight list that the builder was given, which
// outlives it. Errors: internal for a broken rule (see ops.hpp) or an unknown weight name.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "graph/ir.hpp"

namespace minfer::graph {

// What an adapter adds to the product with a matrix: up * (down * x), times its scale.
struct LowRank {
  WeightId matrix;
  WeightId down;    // [rank][inputs of the matrix]
  WeightId up;      // [outputs of the matrix][rank]
  int32_t adapter;  // which of the model's
  float factor;     // see AdapterScaleAttributes
};

class Builder {
 public:
  // `adapters` outlive the builder.
  Builder(std::span<const WeightShape> weights, const StepShape& shape, std::span<const LowRank> adapters = {});

  // The weight of a name, or kNoWeight where the model has none.
  WeightId find_weight(std::string_view name) const;
  // The weight of a name that the model must have (its presence was checked at load).
  WeightId weight(std::string_view name) const;
  const WeightShape& weight_shape(WeightId id) const { return weights_[static_cast<size_t>(id)]; }

  ValueId input(Input which) const { return graph_.inputs[static_cast<size_t>(which)]; }
  const StepShape& shape() const { return graph_.shape; }
  const ValueType& type(ValueId id) const { return graph_.values[static_cast<size_t>(id)].type; }

  ValueId embed(ValueId ids, WeightId table, float scale, bool first_row = false);
  ValueId rms_norm(ValueId x, WeightId weight, float eps, int64_t group);
  ValueId layer_norm(ValueId x, WeightId weight, WeightId bias, float eps, int64_t group);
  // With what the adapters add to this matrix.
  ValueId linear(ValueId x, WeightId matrix, WeightId bias = kNoWeight);
  ValueId glu(ValueId gate, ValueId up, Activation activation);
  ValueId activate(ValueId x, Activation activation);
  ValueId add(ValueId a, ValueId b);
  ValueId scale(ValueId x, ScaleAttributes attributes);
  ValueId rope_angles(ValueId positions, RopeAnglesAttributes attributes);
  ValueId rope(ValueId x, ValueId angles, RopeAttributes attributes);
  ValueId join_heads(ValueId a, ValueId b, JoinHeadsAttributes attributes);
  ValueId kv_append(ValueId k, ValueId v, int32_t layer);
  ValueId attention(ValueId q, ValueId appended, AttentionAttributes attributes, WeightId sinks = kNoWeight);
  ValueId gather_rows(ValueId x, ValueId rows);
  // Routes and weights of rows of router logits.
  struct Routed {
    ValueId routes;
    ValueId weights;
  };
  Routed route(ValueId logits, RouteAttributes attributes, WeightId biases = kNoWeight);
  ValueId expert_linear(ValueId x, ValueId routes, WeightId matrices, WeightId biases = kNoWeight);
  ValueId expert_sum(ValueId y, Routed routed);

  // The general form: appends a node and returns its outputs. `name` names them for people.
  std::vector<ValueId> add_node(Op op, std::vector<ValueId> inputs, std::vector<WeightId> weights,
                                Attributes attributes, const std::string& name, Format output_format = Format::f32);

  // A value that another part of the model makes.
  ValueId import_value(const Value& value);

  // Ends the graph: `logits` is its result, which a graph with exports may lack (kNoValue).
  Graph finish(ValueId logits, std::vector<ValueId> exports = {});

 private:
  std::span<const WeightShape> weights_;
  std::span<const LowRank> adapters_;
  std::unordered_map<std::string_view, WeightId> by_name_;
  Graph graph_;
};

}  // namespace minfer::graph
