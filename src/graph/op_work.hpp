// The work of a node in a step: the bytes that it reads and the operations that it does at least (of experts those that
// rows which choose evenly would reach), and a name for nodes
// of the same kind. Pure; set against times and a device's limits by op timing.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "graph/backend.hpp"
#include "graph/ir.hpp"
#include "graph/op_time.hpp"
#include "tensor/dtype.hpp"

namespace minfer::graph {

// A weight as a device holds it.
struct HeldWeight {
  WeightShape shape;
  tensor::DType dtype;  // of the file
  int64_t bytes;
};

// What the work of all nodes depends on.
struct WorkContext {
  const Graph& graph;
  std::span<const HeldWeight> weights;       // by WeightId
  std::span<const int64_t> cache_row_bytes;  // by layer: keys and values of one position
};

// Ops that are no products count one operation for an element that they write.
OpWork node_work(const WorkContext& context, const Node& node, const StepData& step);

// "attn_q+attn_k+attn_v Q4_K+Q6_K" of a product (what the weights of every layer are called, and their types),
// "window 512" of an attention; empty for other nodes.
std::string node_kind(const WorkContext& context, const Node& node);

}  // namespace minfer::graph
