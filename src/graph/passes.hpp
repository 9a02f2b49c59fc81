// Graph to graph: the rewrites between a model's graph function and a device's executable. Each returns a new graph
// that computes the same values. The patterns live here; a device only says which ops it has, which activation
// format each of its weights reads, and whether it runs a node (DeviceTraits, answered by its op table and layout
// policy, see backend.hpp).
//
//   fuse_linear_inputs    linears of one input            -> one linear with several outputs
//   fuse_gated            linear, linear, glu             -> linear_glu; of experts likewise: expert_glu
//   fuse_residual         linear or expert_sum, add       -> linear or expert_sum with a residual
//   fuse_norm             rms_norm, linear or linear_glu -> norm_linear or norm_linear_glu, where the device runs that
//   fuse_rope_append      norms, ropes, kv_append         -> rope_append
//   fuse_rope_attention   rope_append, attention          -> rope_attention, where the device runs that
//   quantize_activations  f32 input of a linear that reads q8 or bf16: made so by its producer where the device can, or
//                         by a quantize node
#pragma once

#include <functional>
#include <span>

#include "graph/ir.hpp"

namespace minfer::graph {

struct DeviceTraits {
  std::function<bool(Op)> has_op;  // whether the device has a row for the op
  // What a linear with this weight reads in a step of so many rows: f32, q8 or bf16.
  std::function<Format(WeightId, int64_t rows)> activation_format;
  // Whether the device runs a node of a graph: asked before products of one input become one node, before a producer is
  // made to write another format than f32, and before a norm, or attention with what precedes it, is fused.
  std::function<bool(const Graph&, const Node&)> runs;
};

Graph fuse_linear_inputs(const Graph& graph, std::span<const WeightShape> weights, const DeviceTraits& device);
Graph fuse_gated(const Graph& graph, std::span<const WeightShape> weights, const DeviceTraits& device);
Graph fuse_residual(const Graph& graph, std::span<const WeightShape> weights, const DeviceTraits& device);
Graph fuse_norm(const Graph& graph, std::span<const WeightShape> weights, const DeviceTraits& device);
Graph fuse_rope_append(const Graph& graph, std::span<const WeightShape> weights, const DeviceTraits& device);
Graph fuse_rope_attention(const Graph& graph, std::span<const WeightShape> weights, const DeviceTraits& device);
Graph quantize_activations(const Graph& graph, std::span<const WeightShape> weights, const DeviceTraits& device);

// All of them, in the order that they need. `fuse` = false leaves only quantize_activations, for comparing.
Graph optimize(const Graph& graph, std::span<const WeightShape> weights, const DeviceTraits& device, bool fuse = true);

}  // namespace minfer::graph
