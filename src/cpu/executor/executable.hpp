// A graph compiled for the CPU: its nodes with their op rows, run in order by all threads of the pool in one parallel
// section, with a barrier after each node. A step allocates nothing: the arrays that describe its rows have the
// capacity of the shape. The arena, the scratch and the pool belong to the backend, which outlives it.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "base/thread_pool.hpp"
#include "cpu/executor/op_table.hpp"
#include "cpu/runtime/memory.hpp"
#include "graph/backend.hpp"

namespace minfer::cpu {

class CpuExecutable final : public graph::Executable {
 public:
  // `arena` and `scratch` are of the plan's sizes or larger; they are read at each run, so the backend may replace
  // them.
  CpuExecutable(graph::Graph graph, graph::MemoryPlan plan, Isa isa, ThreadPool& pool, const CpuWeights& weights,
                CpuKvStore& kv, const HugeBuffer& arena, const HugeBuffer& scratch);

  std::span<const float> run(const graph::StepData& step) override;

 private:
  // Fills the rows' arrays and the inputs from the step. Errors: internal for a step that does not fit the shape or
  // names a row, position or page that there is not.
  void bind(const graph::StepData& step);
  void bind_sequence(const graph::SequenceStep& sequence, int32_t index);
  void check_pages(const graph::SequenceStep& sequence, size_t group) const;

  graph::Graph graph_;
  graph::MemoryPlan plan_;
  ThreadPool& pool_;
  const HugeBuffer& arena_;
  const HugeBuffer& scratch_;
  std::vector<const OpRow*> rows_;  // one a node
  StepState state_;
  std::vector<int32_t> row_sequence_;
  std::vector<int32_t> row_position_;
  // By KV group.
  std::array<std::vector<int64_t>, graph::kMaxKvGroups> slots_;
  std::array<std::vector<AttentionSequence>, graph::kMaxKvGroups> sequences_;
  size_t groups_;
};

}  // namespace minfer::cpu
