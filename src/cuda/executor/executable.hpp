// A graph compiled for a card: its launches recorded once, with the shape's capacities, and replayed each step. What
// differs from step to step (ids, positions, pages) is written to pinned memory and goes over in one copy. Rows beyond
// the step's own are computed from zeros and read by nobody. Values, scratch and the step's data are the workspace's.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "cuda/executor/op_table.hpp"
#include "cuda/launch/gemm.hpp"
#include "cuda/runtime/device.hpp"
#include "graph/backend.hpp"
#include "graph/op_timer.hpp"

namespace minfer::cuda {

// Where the step's data lies: arrays of int32 behind each other, the page tables last. Pure.
struct StepLayout {
  StepLayout(const graph::StepShape& shape, const graph::KvSpec& kv);
  int64_t token_ids, positions, output_rows, row_sequence;  // offsets in bytes
  std::array<int64_t, graph::kMaxKvGroups> slots, sequences;
  int64_t draws;       // offset; one SamplingRow an output
  int64_t pages;       // offset; all tables of all groups
  int64_t page_count;  // capacity
  int64_t edits;       // offset of the rows' edits
  int64_t edit_count;  // capacity
  int64_t drawn;       // offset of what comes back; never sent
  int64_t bytes;
};

class CudaWorkspace final : public graph::Workspace {
 public:
  CudaWorkspace(Device& device, int64_t activation_bytes, int64_t scratch_bytes);
  int64_t bytes() const override { return arena_.bytes() + scratch_.bytes(); }
  const DeviceBuffer& arena() const { return arena_; }
  const DeviceBuffer& scratch() const { return scratch_; }
  // Pinned memory of at least so much: for a step's data, and for its results.
  std::byte* step_data(int64_t bytes);
  float* results(int64_t floats);
  GemmContext& gemm() { return gemm_; }

 private:
  DeviceBuffer arena_;
  DeviceBuffer scratch_;
  GemmContext gemm_;  // works in the end of the scratch
  PinnedBuffer step_data_;
  PinnedBuffer results_;
};

// What a graph needs beside its values: attention's scratch, the step's data, the other families' scratch, cuBLASLt's
// workspace.
int64_t graph_scratch_bytes(const Capabilities& capabilities, const graph::Graph& graph, const graph::KvSpec& kv);

class CudaExecutable final : public graph::Executable {
 public:
  // Errors: internal for a workspace that is too small; device.
  CudaExecutable(Device& device, graph::Graph graph, graph::MemoryPlan plan, const CudaWeights& weights,
                 const CudaKvStore& kv, CudaWorkspace& workspace, graph::OpTimer& timer);

  std::span<const float> run(const graph::StepData& step, std::span<const std::span<const float>> imports) override;
  std::span<const graph::Drawn> drawn() const override { return drawn_; }
  std::span<const float> exported(size_t index) const override;

 private:
  void place(const CudaWeights& weights);
  // The nodes' launches, and the draws where the step wants them.
  void launch(bool draws);
  void launch_draws();
  // Without the recording, node by node, with an event after each.
  void run_timed(const graph::StepData& step);
  void prepare_timing();
  // Writes the step's data to pinned memory; returns its bytes. Errors: internal for a step that does not fit the shape
  // or names a row, position or page that there is not.
  int64_t bind(const graph::StepData& step);
  void bind_sequence(const graph::SequenceStep& sequence, int32_t index);
  // Of the step at hand.
  int64_t value_rows(graph::ValueId id) const;
  void bind_draws(std::span<const graph::RowDraw> draws);
  void replay(const graph::StepData& step);
  void fetch_drawn();
  void import_rows(graph::ValueId id, std::span<const float> rows);
  std::span<const float> fetch_rows(graph::ValueId id, float* out);

  Device& device_;
  graph::Graph graph_;
  graph::MemoryPlan plan_;
  const CudaKvStore& kv_;
  CudaWorkspace& workspace_;
  StepLayout layout_;
  StepState state_{};
  DeviceBuffer frequencies_;
  RecordedWork work_;       // for steps whose logits are wanted
  RecordedWork draw_work_;  // for steps whose tokens are drawn
  graph::OpTimer& timer_;
  std::optional<graph::StepTimer> step_timer_;  // from the first timed step on
  std::vector<TimingEvent> stamps_;             // the start, and each node's end
  std::byte* device_data_;                      // where the step's data goes
  // Of the step at hand.
  std::byte* host_data_ = nullptr;
  int64_t tokens_ = 0;
  int64_t outputs_ = 0;
  int64_t pages_used_ = 0;
  int64_t edits_used_ = 0;
  std::span<const graph::Drawn> drawn_;
  std::vector<std::span<const float>> exports_;
};

}  // namespace minfer::cuda
