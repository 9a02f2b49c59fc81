// A graph compiled for a card: its launches recorded once, with the shape's capacities, and replayed each step. What
// differs from step to step (ids, positions, pages, draws) is written to pinned memory, from where a kernel before the
// replay fetches it; drawn tokens are written to pinned memory by the kernel that draws them. Rows beyond the step's
// own are computed from zeros and read by nobody. Values, scratch and the step's data are the workspace's.
//
// Steps in flight: each has pinned memory of its own (StepSlot) and an event behind it. On the card they follow each
// other on one queue: they share values, data, and the place of the drawn tokens, which the next step reads first.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "cuda/executor/op_table.hpp"
#include "cuda/launch/gemm.hpp"
#include "cuda/launch/sampling.hpp"
#include "cuda/runtime/device.hpp"
#include "graph/backend.hpp"
#include "graph/op_timer.hpp"

namespace minfer::cuda {

// Where the step's data lies: arrays of int32 behind each other, the page tables last. Pure.
struct StepLayout {
  StepLayout(const graph::Graph& graph, const graph::KvSpec& kv);
  int64_t token_ids, positions, output_rows, row_sequence;  // offsets in bytes
  std::array<int64_t, graph::kMaxKvGroups> slots, sequences;
  int64_t adapters;        // that the graph reads
  int64_t adapter_scales;  // offset; of each adapter, one float a token
  int64_t mirror;          // offset; the address of `drawn` on the host
  int64_t top_mirror;      // offset; that of `top`
  int64_t pages;           // offset; all tables of all groups
  int64_t page_count;      // capacity
  // Not fetched as they are.
  int64_t draws;       // offset; one SamplingRow an output
  int64_t edits;       // offset of the rows' edits
  int64_t edit_count;  // capacity
  int64_t masks;       // offset; one an output
  int64_t mask_words;  // of one
  int64_t drawn;       // offset of what comes back; on the host only
  int64_t top;         // offset of the likeliest tokens, where they come back too; likewise
  int64_t bytes;
};

// A step in flight, on the host. Owned by the workspace.
struct StepSlot {
  PinnedBuffer data;
  QueueEvent done;
  graph::StepResult result;
};

class CudaWorkspace final : public graph::Workspace {
 public:
  CudaWorkspace(Device& device, int64_t activation_bytes, int64_t scratch_bytes);
  int64_t bytes() const override { return arena_.bytes() + scratch_.bytes(); }
  const DeviceBuffer& arena() const { return arena_; }
  const DeviceBuffer& scratch() const { return scratch_; }
  // What the last step that drew has drawn, at the same place for all shapes.
  Drawn* drawn() const;
  // The slot for the next step, with so much memory; set_in_flight() says that the step is on its way. Errors: device.
  StepSlot& next_slot(int64_t bytes);
  void set_in_flight() { ++in_flight_; }
  // The slot of the earliest step in flight, which no longer is.
  StepSlot& take_slot();
  // Pinned memory of at least so much, for results of steps that are alone in flight.
  float* results(int64_t floats);
  GemmContext& gemm() { return gemm_; }

 private:
  DeviceBuffer arena_;
  DeviceBuffer scratch_;
  GemmContext gemm_;                                       // works in the end of the scratch
  std::array<StepSlot, graph::kMostStepsInFlight> slots_;  // a ring
  int64_t first_slot_ = 0;
  int64_t in_flight_ = 0;
  PinnedBuffer results_;
};

// What a graph needs beside its values: attention's scratch, the step's data, the other families' scratch, the drawn
// tokens, cuBLASLt's workspace.
int64_t graph_scratch_bytes(const Capabilities& capabilities, const graph::Graph& graph, const graph::KvSpec& kv);

class CudaExecutable final : public graph::Executable {
 public:
  // Errors: internal for a workspace that is too small; device.
  CudaExecutable(Device& device, graph::Graph graph, graph::MemoryPlan plan, const CudaWeights& weights,
                 const CudaKvStore& kv, CudaWorkspace& workspace, graph::OpTimer& timer);

  void submit(const graph::StepData& step, std::span<const std::span<const float>> imports) override;
  graph::StepResult wait() override;
  std::span<const float> exported(size_t index) const override;

 private:
  // What submit() was given.
  struct Call {
    const graph::StepData& step;
    std::span<const std::span<const float>> imports;
    StepSlot& slot;
    int64_t data_bytes;  // to be fetched
  };

  void place(const CudaWeights& weights);
  // What a step draws beside its nodes' work.
  enum class Draws : uint8_t { none, tokens, top_logprobs };
  static Draws draws_of(const graph::StepData& step);
  // The nodes' launches, and the draws where the step wants them.
  void launch(Draws draws);
  void launch_draws(bool top);
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
  void put_on_queue(const Call& call);
  void replay(const graph::StepData& step);
  int64_t result_floats(const graph::StepData& step) const;
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
  std::array<RecordedWork, 3> work_;  // by Draws
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
  int64_t masks_used_ = 0;
  std::vector<std::span<const float>> exports_;
};

}  // namespace minfer::cuda
