// The ops of a card: one row {op, supports, run} each, so that what is claimed and what is run cannot disagree.
// `supports` is asked at placement; `run` puts a node's kernels on the queue, once, while a step is recorded.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "cuda/executor/kv_store.hpp"
#include "cuda/executor/weights.hpp"
#include "cuda/launch/attention.hpp"
#include "cuda/launch/linear.hpp"
#include "graph/ir.hpp"

namespace minfer::cuda {

// Where a recorded step finds everything: all addresses stay the same from replay to replay.
struct StepState {
  const Queue* queue;
  const graph::Graph* graph;
  const CudaWeights* weights;
  const CudaKvStore* kv;
  std::byte* arena;
  const int64_t* offsets;                                 // by ValueId
  std::array<const int32_t*, graph::kInputCount> inputs;  // of the step's data
  const float* frequencies;                               // of the graph's rope_angles nodes, behind one another
  const float* adapter_scales;                            // of the step's data: [adapters][tokens of the shape]
  std::array<StepView, graph::kMaxKvGroups> steps;        // by KV group
  std::byte* attention_scratch;
  LinearScratch linear_scratch;

  const graph::ValueType& type(graph::ValueId id) const { return graph->values[static_cast<size_t>(id)].type; }
  int64_t row_count(graph::ValueId id) const { return graph::row_count(type(id), graph->shape); }
  std::byte* bytes(graph::ValueId id) const { return arena + offsets[id]; }
  float* f32(graph::ValueId id) const { return reinterpret_cast<float*>(bytes(id)); }
  // The data of a named input.
  const int32_t* input(graph::ValueId id) const;
  const int32_t* output_rows() const { return inputs[static_cast<size_t>(graph::Input::output_rows)]; }
  Rows rows(graph::ValueId id) const;
};

struct OpRow {
  graph::Op op;
  // nullopt where the card runs the node, else the reason.
  std::optional<std::string> (*unsupported)(const graph::Graph& graph, const graph::Node& node);
  void (*run)(const StepState& state, const graph::Node& node);
};

// The row of an op, nullptr where the card has none.
const OpRow* find_op(graph::Op op);

// The most sequences of a step of so many rows.
int64_t sequence_capacity(int64_t tokens, const graph::KvSpec& kv);

ActivationFormat format_of(graph::Format format);
int64_t cuda_value_bytes(const graph::ValueType& type, int64_t rows);

// Scratch of the nodes of a graph, the largest of them, by family.
struct ScratchBytes {
  int64_t attention = 0;
  int64_t linear = 0;
  int64_t sampling = 0;
};
ScratchBytes node_scratch(const Capabilities& capabilities, const graph::Graph& graph, const graph::KvSpec& kv);

}  // namespace minfer::cuda
