// The ops of the CPU: one row {op, supports, run} each, so that what is claimed and what is run cannot disagree.
// `supports` is asked at placement; `run` is called by every thread of a section, for each node in order, and ends with
// a barrier.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/thread_pool.hpp"
#include "cpu/executor/kv_store.hpp"
#include "cpu/executor/weights.hpp"
#include "cpu/launch/attention.hpp"
#include "cpu/runtime/isa.hpp"
#include "graph/ir.hpp"

namespace minfer::cpu {

// What the nodes of one step share. Made by the executable before the section starts; read-only inside it.
struct StepState {
  Isa isa;
  const graph::Graph* graph;
  const CpuWeights* weights;
  CpuKvStore* kv;
  std::byte* arena;
  const int64_t* offsets;  // by ValueId
  std::span<std::byte> scratch;
  AttentionCapacity attention_capacity;

  int64_t tokens;               // rows of this step
  int64_t outputs;              // rows of logits
  const int32_t* row_sequence;  // [tokens]
  const int32_t* row_position;  // [tokens]
  const int32_t* row_last;      // [tokens]: the last position of the row's sequence, this step's rows included
  const int32_t* output_rows;   // [outputs]
  const std::span<const float>* adapters;  // by sequence: how much of each adapter it gets
  // By KV group: where each token's K and V go, and the sequences with their pages in the group.
  std::array<const int64_t*, graph::kMaxKvGroups> slots;  // [tokens]
  std::array<const AttentionSequence*, graph::kMaxKvGroups> sequences;

  const graph::ValueType& type(graph::ValueId id) const { return graph->values[static_cast<size_t>(id)].type; }
  // Matrix rows of a value.
  int64_t rows(graph::ValueId id) const {
    return (type(id).rows == graph::Rows::tokens ? tokens : outputs) * graph::rows_each(type(id));
  }
  std::byte* bytes(graph::ValueId id) const { return arena + offsets[id]; }
  float* f32(graph::ValueId id) const { return reinterpret_cast<float*>(bytes(id)); }
  int32_t* i32(graph::ValueId id) const { return reinterpret_cast<int32_t*>(bytes(id)); }
};

struct OpRow {
  graph::Op op;
  // nullopt where `isa` runs the node, else the reason.
  std::optional<std::string> (*unsupported)(Isa isa, const graph::Graph& graph, const graph::Node& node);
  void (*run)(const StepState& state, const graph::Node& node, Worker& worker);
};

// The row of an op, nullptr where the CPU has none.
const OpRow* find_op(graph::Op op);

// The attention of a node in the kernels' terms.
AttentionSpec attention_spec(const graph::Graph& graph, const graph::Node& node, const KvLayerSpec& kv);
// Scratch that the nodes of a graph need, the largest of them.
int64_t graph_scratch_bytes(const graph::Graph& graph, const graph::KvSpec& kv, int threads);
AttentionCapacity attention_capacity(const graph::Graph& graph, const graph::KvSpec& kv, int threads);

// Bytes of a value: rows at the kernels' strides.
int64_t cpu_value_bytes(const graph::ValueType& type, int64_t rows);

}  // namespace minfer::cpu
