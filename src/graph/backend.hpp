// The one device seam. A device is a Backend: it says what it can run (one table row {op, supports, run} an op), which
// layout it gives each weight, how much memory it has; it loads weights, holds KV pages, and compiles a graph to an
// Executable. Everything above (engine, command line, server) speaks to devices only through this file and
// registry.hpp.
// Threads: one engine thread owns a device and makes all calls but name() and memory(), which any thread may make.
// Life: WeightSet, KvStore, Workspace and Executable are used only while their Backend lives.
// Parts of a model (split.hpp) keep the whole model's numbering of weights, layers and KV groups on each device.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/device_memory.hpp"
#include "graph/enums.hpp"
#include "graph/ir.hpp"
#include "graph/kv.hpp"
#include "graph/memory_plan.hpp"
#include "graph/op_time.hpp"
#include "graph/passes.hpp"
#include "graph/sampling.hpp"
#include "tensor/dtype.hpp"

namespace minfer::graph {

// --- weights ---

enum class WeightRole : uint8_t {
  matrix,          // of a linear
  embedding,       // gathered by rows
  tied_embedding,  // gathered by rows, and the matrix of the output linear
  vector,          // a norm or a bias: becomes f32
  elsewhere,       // of another device's layers: not loaded here
};

// A weight as its file has it: [experts][rows][cols], row-major blocks of `dtype`, mapped. `prefetch` tells the system
// that it is read next, `release` gives the file's pages back once the device holds its own copy; either may be empty.
struct WeightSource {
  WeightShape shape;
  tensor::DType dtype;
  WeightRole role;
  std::span<const std::byte> data;
  std::function<void()> prefetch;
  std::function<void()> release;
};

// How a device will hold a weight. Pure in (dtype, role, shape) for a given device configuration.
struct WeightLayout {
  std::string_view name;  // "raw", "panel16", ...: for --explain
  int64_t bytes;          // what the device allocates for it
  bool copied;            // false: reads the mapped file in place
};

class WeightSet {
 public:
  virtual ~WeightSet() = default;
  virtual int64_t bytes() const = 0;
};

// Called as weights are loaded, with bytes done and in all; may throw Error{cancelled}.
using ProgressFn = std::function<void(int64_t done_bytes, int64_t total_bytes)>;

// --- steps ---

// The tokens that one sequence adds in a step, and its pages. Rows of a sequence are consecutive.
struct SequenceStep {
  int64_t first_row;
  int64_t rows;
  int64_t first_position;  // of its first row; the cache holds positions before it
  // For each group the page ids of positions 0 .. first_position + rows - 1; pages wholly outside a group's window may
  // be anything.
  std::array<std::span<const int32_t>, kMaxKvGroups> pages;
  // How much of each of the model's adapters its rows get; empty where the model has none.
  std::span<const float> adapter_scales = {};
};

// In place of a token id: the token that is drawn at an output of the step submitted before, which the host need not
// know yet.
constexpr int32_t drawn_token(int32_t output) {
  return -1 - output;
}
constexpr bool is_drawn_token(int32_t id) {
  return id < 0;
}
constexpr int32_t drawn_output(int32_t id) {
  return -1 - id;
}

struct StepData {
  std::span<const int32_t> token_ids;       // one a row; some may be drawn_token(), where the step before draws
  std::span<const int32_t> output_rows;     // rows whose logits, or hidden state, are wanted, ascending
  std::span<const SequenceStep> sequences;  // cover the rows in order
  // One an output row: tokens are to be drawn, on a device that draws. Empty: the logits are wanted.
  std::span<const RowDraw> draws = {};
  bool hidden = false;  // the hidden state of the output rows is wanted, not their logits (StepKind::hidden)

  // Whether anything but drawn tokens comes back.
  bool gives_logits() const { return !output_rows.empty() && draws.empty(); }
};

// What a step gave, valid until the next one is submitted in the same workspace.
struct StepResult {
  // f32 [outputs][vocabulary], or [outputs][width] of the hidden state; none from a part without, nor of drawn tokens.
  std::span<const float> logits;
  std::span<const Drawn> drawn;  // one a row of its draws
  // [draws][kMostTopLogprobs], where a draw asks for the likeliest tokens: as many as it asks for, descending.
  std::span<const TokenLogprob> top = {};
};

// The memory in which executables run: values and scratch. It is allocated once, at the size of the largest step;
// executables that share one run one after the other.
class Workspace {
 public:
  virtual ~Workspace() = default;
  virtual int64_t bytes() const = 0;
};

// How many steps of a workspace may be submitted and not waited for, on a device that draws, where none of them gives
// logits or exports. All other steps are waited for before the next is submitted.
inline constexpr int64_t kMostStepsInFlight = 2;

// A step is submitted and waited for. A device may do its work at once or meanwhile: whatever is asked of it, KvStore
// included, has the effect that it has in the order of the calls. Steps are waited for in that order, each by the
// executable that it was submitted to.
class Executable {
 public:
  virtual ~Executable() = default;
  // A step that fits the shape it was compiled for; imports[i] are the rows of the graph's imports[i] in this step.
  // Nothing that is passed is read after the return. Errors: device; nothing is to be waited for then.
  virtual void submit(const StepData& step, std::span<const std::span<const float>> imports) = 0;
  // Until the earliest step submitted is done. Errors: device; that step is over then.
  virtual StepResult wait() = 0;
  // The rows of the graph's exports[index] in the step that was waited for, as long as its result.
  virtual std::span<const float> exported(size_t index) const = 0;
};

// --- the device ---

struct BackendOptions {
  int threads = 0;        // CPU threads; 0: one a physical core
  std::string force_isa;  // CPU instruction set by name; empty: the best
  // A row's result does not depend on the rows beside it, nor on how a prompt is cut into steps. Always so on the CPU.
  bool strict = false;
  // Tests only: calls of a card fail at the site that this names at the time; "": none.
  const std::string* failing_site = nullptr;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string name() const = 0;         // "cpu"
  virtual std::string description() const = 0;  // model, instruction set, threads
  virtual DeviceMemory memory() const = 0;
  // Takes about a second, and for its time measuring_bytes() of the device's memory.
  virtual DeviceLimits measure_limits() = 0;
  virtual int64_t measuring_bytes() const = 0;

  // Steps run while it is on are timed op by op, and add to what op_times() gives. Off at first; off costs nothing.
  virtual void set_op_timing(bool on) = 0;
  virtual OpTimes op_times() const = 0;

  // nullopt where the device runs the node, else why not. From the same table row that runs it.
  virtual std::optional<std::string> unsupported_reason(const Graph& graph, const Node& node) const = 0;
  virtual bool has_op(Op op) const = 0;
  // Whether it draws tokens itself (StepData::draws), and then runs steps behind them (drawn_token). Pure.
  virtual bool draws() const = 0;
  // The layout of a weight. Errors: unsupported, naming the weight and its type, where the device has none.
  virtual WeightLayout choose_layout(const WeightShape& shape, tensor::DType dtype, WeightRole role) const = 0;
  // What a product with such a matrix, or with those of so many experts, reads in a step of `rows` rows: f32, q8 or
  // bf16. Pure.
  virtual Format activation_format(tensor::DType dtype, int64_t experts, int64_t rows) const = 0;
  // Rows of a step that keep the device busy with a prompt. Pure.
  virtual int64_t preferred_batch_tokens() const = 0;
  virtual int64_t value_bytes(const ValueType& type, int64_t rows) const = 0;
  virtual int64_t kv_bytes(const KvSpec& spec) const = 0;
  // What the kernels of a graph need beside its values, whatever its shape's kind.
  virtual int64_t scratch_bytes(const Graph& graph, const KvSpec& spec) const = 0;
  // Errors: unsupported, naming layer and size, for a cache that its attention can't read.
  virtual void check_kv(const KvSpec& spec) const = 0;

  // All weights of the model, by id; those with the role `elsewhere` are passed over.
  virtual std::unique_ptr<WeightSet> load_weights(std::span<const WeightSource> sources,
                                                  const ProgressFn& progress) = 0;
  virtual std::unique_ptr<KvStore> create_kv_store(const KvSpec& spec) = 0;
  virtual std::unique_ptr<Workspace> create_workspace(int64_t activation_bytes, int64_t scratch_bytes) = 0;
  // The graph, and the weights, cache and workspace that it will run on, which outlive the executable. All nodes are
  // supported. Errors: internal where the workspace is too small.
  virtual std::unique_ptr<Executable> compile(Graph graph, MemoryPlan plan, const WeightSet& weights, KvStore& kv,
                                              Workspace& workspace) = 0;
};

}  // namespace minfer::graph
