// The graph: what a step computes, in values and nodes, before any device is chosen. It is a pure function of a model's
// Config and a StepShape; token ids, positions and page tables are data of the step (backend.hpp), never part of a
// graph.
//
// A value is a matrix [rows][width]; `rows` says which count of the step gives its height, so that one graph serves
// every step that fits its shape. A node applies an op to values and weights and has one or more outputs. Weights are
// ids into the model's weight list. Effects are values too: kv_append yields a value of format `kv` that attention
// takes, so that the order is visible. Nodes are stored in execution order. Plain data: copied, compared and printed
// freely.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/attributes.hpp"

namespace minfer::graph {

using ValueId = int32_t;
using WeightId = int32_t;
inline constexpr WeightId kNoWeight = -1;
inline constexpr ValueId kNoValue = -1;
inline constexpr int32_t kNoLayer = -1;

// What a row of a value holds.
enum class Format : uint8_t {
  f32,     // width floats
  i32,     // width 32-bit integers
  q8,      // width elements in 8-bit blocks of 32 with scales, in the device's layout
  bf16,    // width bfloat16, for matrix units
  kv,      // nothing: the effect of an append to the KV cache
  routes,  // which `chosen` of `width` experts each row goes to, and the order of these entries; the device's layout
};

enum class Rows : uint8_t {
  tokens,   // one row a token of the step
  outputs,  // one row a token whose logits, or hidden state, are wanted
};

enum class Op : uint8_t {
  embed,
  rms_norm,
  layer_norm,
  quantize,
  linear,
  glu,
  activate,
  linear_glu,
  norm_linear,
  norm_linear_glu,
  add,
  scale,
  rope_angles,
  rope,
  join_heads,
  kv_append,
  rope_append,
  attention,
  rope_attention,
  gather_rows,
  route,
  expert_linear,
  expert_glu,
  expert_sum,
  adapter_scale,
};
inline constexpr int kOpCount = 25;

struct ValueType {
  Format format;
  Rows rows;
  int64_t width;  // elements a row
  // 0: one matrix row a row of the step; else as many, one for each expert that the row goes to, in the order of the
  // step's routes.
  int64_t chosen = 0;
  bool operator==(const ValueType&) const = default;
};

struct Value {
  ValueType type;
  std::string name;  // for people: "blk.3.ffn_norm"
};

struct Node {
  Op op;
  std::vector<ValueId> inputs;
  std::vector<WeightId> weights;  // meaning by op, kNoWeight where an optional one is absent
  std::vector<ValueId> outputs;
  Attributes attributes;
};

// What the passes know of a weight: its name and its matrix, `rows` outputs by `cols` inputs (a vector has one row);
// of experts one behind the other.
struct WeightShape {
  std::string name;
  int64_t rows;
  int64_t cols;
  int32_t layer = kNoLayer;  // of the model that it belongs to; none: the embedding, the output's norm and matrix
  int64_t experts = 1;
};

enum class StepKind : uint8_t {
  mixed,   // any number of rows a sequence
  decode,  // one row a sequence
  hidden,  // as mixed, but the outputs are rows of the hidden state behind the last norm, not of logits
};

// The step shapes that share a graph and an executable. Counts are capacities: a step may have fewer. A device may run
// the same graph in another way for another kind.
struct StepShape {
  int64_t tokens;
  int64_t outputs;
  StepKind kind = StepKind::mixed;
  auto operator<=>(const StepShape&) const = default;
};

// The named inputs of every graph; their data comes with the step.
enum class Input : uint8_t { token_ids, positions, output_rows };
inline constexpr int kInputCount = 3;

struct Graph {
  StepShape shape;
  std::vector<Value> values;
  std::vector<Node> nodes;
  ValueId inputs[kInputCount];   // i32, width 1
  std::vector<ValueId> imports;  // f32 values made elsewhere, there before the first node runs (split.hpp)
  std::vector<ValueId> exports;  // f32 values that are read elsewhere after the last one
  // f32, rows: outputs: the logits, or what the shape's kind says; none in a part of a model that does not hold the
  // output head.
  ValueId logits = kNoValue;
};

std::string_view op_name(Op op);
std::string_view format_name(Format format);
std::string_view rows_name(Rows rows);

// Height of a value in a step of `shape`.
int64_t row_count(Rows rows, const StepShape& shape);
// How many adapters' scales each sequence of a step has to tell: up to the last one that a node reads.
int64_t adapters_read(const Graph& graph);
int64_t row_count(const ValueType& type, const StepShape& shape);
// Matrix rows of a value for each row of the step.
int64_t rows_each(const ValueType& type);

// Rows of logits, or of the hidden state, that a step may ask for at most: a runner sets its own limit, which bounds
// the memory of the widest value of a graph.
inline constexpr int64_t kMaxOutputs = 8192;

// The smallest bucket that holds a step of these counts: tokens in 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, ... up to
// max_tokens; outputs in 1, 2, 4, 8, ... kMaxOutputs, and never more than the tokens.
StepShape bucket_shape(int64_t tokens, int64_t outputs, int64_t max_tokens, StepKind kind = StepKind::mixed);

}  // namespace minfer::graph
