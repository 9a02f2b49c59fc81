// A graph compiled for the CPU: its nodes with their op rows, run in order by all threads of the pool in one parallel
// section, with a barrier after each node. A step allocates nothing: the arrays that describe its rows have the
// capacity of the shape. The pool and the timer belong to the backend, values and scratch to the workspace; all outlive
// it.
#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <span>
#include <vector>

#include "base/thread_pool.hpp"
#include "cpu/executor/op_table.hpp"
#include "cpu/runtime/memory.hpp"
#include "graph/backend.hpp"
#include "graph/op_timer.hpp"

namespace minfer::cpu {

class CpuWorkspace final : public graph::Workspace {
 public:
  CpuWorkspace(int64_t activation_bytes, int64_t scratch_bytes);
  int64_t bytes() const override { return static_cast<int64_t>(arena_.size_bytes() + scratch_.size_bytes()); }
  std::span<std::byte> arena() { return {arena_.data(), arena_.size_bytes()}; }
  std::span<std::byte> scratch() { return {scratch_.data(), scratch_.size_bytes()}; }

 private:
  HugeBuffer arena_;
  HugeBuffer scratch_;
};

class CpuExecutable final : public graph::Executable {
 public:
  // Errors: internal for a workspace that is smaller than the plan's arena or the graph's scratch.
  CpuExecutable(graph::Graph graph, graph::MemoryPlan plan, Isa isa, ThreadPool& pool, const CpuWeights& weights,
                CpuKvStore& kv, CpuWorkspace& workspace, graph::OpTimer& timer);

  // Runs it at once.
  void submit(const graph::StepData& step, std::span<const std::span<const float>> imports) override;
  graph::StepResult wait() override;
  std::span<const float> exported(size_t index) const override;

 private:
  // Fills the rows' arrays and the inputs from the step. Errors: internal for a step that does not fit the shape or
  // names a row, position or page that there is not.
  void bind(const graph::StepData& step);
  void bind_imports(std::span<const std::span<const float>> imports);
  void bind_sequence(const graph::SequenceStep& sequence, int32_t index);
  void run_nodes();
  // The same, binding included, with a time stamp after each node.
  void run_timed(const graph::StepData& step, std::span<const std::span<const float>> imports);
  // Finds the timer's rows of the nodes.
  void prepare_timing();

  graph::Graph graph_;
  graph::MemoryPlan plan_;
  ThreadPool& pool_;
  std::vector<const OpRow*> rows_;  // one a node
  StepState state_;
  std::vector<int32_t> row_sequence_;
  std::vector<int32_t> row_position_;
  std::vector<std::span<const float>> adapters_;  // by sequence
  size_t adapters_read_ = 0;                      // one more than the highest that a node reads
  std::vector<int32_t> row_last_;
  // By KV group.
  std::array<std::vector<int64_t>, graph::kMaxKvGroups> slots_;
  std::array<std::vector<AttentionSequence>, graph::kMaxKvGroups> sequences_;
  size_t groups_;

  using Clock = std::chrono::steady_clock;
  graph::OpTimer& timer_;
  std::optional<graph::StepTimer> step_timer_;  // from the first timed step on
  std::vector<Clock::time_point> stamps_;       // the start, and each node's end
};

}  // namespace minfer::cpu
