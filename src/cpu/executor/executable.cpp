// Running a step on the CPU. See executable.hpp.
#include "cpu/executor/executable.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace minfer::cpu {

static_assert(graph::kPageTokens == kKvPageTokens, "slots are made of the engine's pages");

CpuWorkspace::CpuWorkspace(int64_t activation_bytes, int64_t scratch_bytes)
    : arena_(static_cast<size_t>(activation_bytes), "activations"),
      scratch_(static_cast<size_t>(scratch_bytes), "scratch") {}

CpuExecutable::CpuExecutable(graph::Graph graph, graph::MemoryPlan plan, Isa isa, ThreadPool& pool,
                             const CpuWeights& weights, CpuKvStore& kv, CpuWorkspace& workspace, graph::OpTimer& timer)
    : graph_(std::move(graph)),
      plan_(std::move(plan)),
      pool_(pool),
      state_{},
      groups_(kv.spec().groups.size()),
      timer_(timer) {
  for (const graph::Node& node : graph_.nodes) {
    const OpRow* row = find_op(node.op);
    check(row != nullptr, "the CPU was given a node that it does not run");
    rows_.push_back(row);
  }
  adapters_read_ = static_cast<size_t>(graph::adapters_read(graph_));
  state_.isa = isa;
  state_.graph = &graph_;
  state_.weights = &weights;
  state_.kv = &kv;
  state_.offsets = plan_.offsets.data();
  state_.arena = workspace.arena().data();
  state_.scratch = workspace.scratch();
  state_.attention_capacity = attention_capacity(graph_, kv.spec(), pool.threads());
  check(plan_.arena_bytes <= static_cast<int64_t>(workspace.arena().size()), "a graph larger than its workspace");
  check(graph_scratch_bytes(graph_, kv.spec(), pool.threads()) <= static_cast<int64_t>(state_.scratch.size()),
        "a graph that needs more scratch than its workspace has");
  const size_t tokens = static_cast<size_t>(graph_.shape.tokens);
  row_sequence_.reserve(tokens);
  row_position_.reserve(tokens);
  adapters_.reserve(tokens);
  row_last_.reserve(tokens);
  for (size_t group = 0; group < groups_; ++group) {
    slots_[group].reserve(tokens);
    sequences_[group].reserve(tokens);
  }
}

void CpuExecutable::bind_sequence(const graph::SequenceStep& sequence, int32_t index) {
  check(sequence.first_row == static_cast<int64_t>(row_position_.size()) && sequence.rows > 0, "rows out of order");
  const int64_t most = state_.kv->spec().sequence_tokens;
  if (sequence.rows > state_.tokens - sequence.first_row || sequence.first_position < 0 ||
      sequence.first_position > most - sequence.rows) {
    fail(ErrorCode::internal, "internal error: {} rows from row {} of {}, at position {} of at most {}", sequence.rows,
         sequence.first_row, state_.tokens, sequence.first_position, most);
  }
  check(sequence.adapter_scales.size() >= adapters_read_,
        "a sequence that does not say how much of an adapter it gets");
  adapters_.push_back(sequence.adapter_scales);
  const int64_t end = sequence.first_position + sequence.rows;
  for (int64_t position = sequence.first_position; position < end; ++position) {
    row_sequence_.push_back(index);
    row_position_.push_back(static_cast<int32_t>(position));
    row_last_.push_back(static_cast<int32_t>(end - 1));
  }
  for (size_t group = 0; group < groups_; ++group) {
    const std::span<const int32_t> pages = sequence.pages[group];
    graph::check_pages(state_.kv->spec(), group, sequence.first_position, sequence.rows, pages);
    sequences_[group].push_back({pages.data(), end});
    for (int64_t position = sequence.first_position; position < end; ++position) {
      const int32_t page = pages[static_cast<size_t>(position / graph::kPageTokens)];
      slots_[group].push_back(int64_t{page} * graph::kPageTokens + position % graph::kPageTokens);
    }
  }
}

void CpuExecutable::bind(const graph::StepData& step) {
  state_.tokens = static_cast<int64_t>(step.token_ids.size());
  state_.outputs = static_cast<int64_t>(step.output_rows.size());
  check(state_.tokens <= graph_.shape.tokens && state_.outputs <= graph_.shape.outputs, "a step larger than its shape");
  row_sequence_.clear();
  row_position_.clear();
  adapters_.clear();
  row_last_.clear();
  for (size_t group = 0; group < groups_; ++group) {
    slots_[group].clear();
    sequences_[group].clear();
  }
  int32_t index = 0;
  for (const graph::SequenceStep& sequence : step.sequences) bind_sequence(sequence, index++);
  check(static_cast<int64_t>(row_position_.size()) == state_.tokens, "sequences do not cover the step's rows");
  for (const int32_t row : step.output_rows) {
    if (row < 0 || row >= state_.tokens) {
      fail(ErrorCode::internal, "internal error: output row {} of a step of {} rows", row, state_.tokens);
    }
  }

  state_.row_sequence = row_sequence_.data();
  state_.row_position = row_position_.data();
  state_.row_last = row_last_.data();
  state_.output_rows = step.output_rows.data();
  state_.adapters = adapters_.data();
  for (size_t group = 0; group < groups_; ++group) {
    state_.slots[group] = slots_[group].data();
    state_.sequences[group] = sequences_[group].data();
  }
  const auto input = [&](graph::Input which) { return state_.i32(graph_.inputs[static_cast<size_t>(which)]); };
  std::copy(step.token_ids.begin(), step.token_ids.end(), input(graph::Input::token_ids));
  std::copy(row_position_.begin(), row_position_.end(), input(graph::Input::positions));
  std::copy(step.output_rows.begin(), step.output_rows.end(), input(graph::Input::output_rows));
}

void CpuExecutable::bind_imports(std::span<const std::span<const float>> imports) {
  check(imports.size() == graph_.imports.size(), "a step with another number of imports than its graph");
  for (size_t i = 0; i < imports.size(); ++i) {
    const graph::ValueId id = graph_.imports[i];
    check(imports[i].size() == static_cast<size_t>(state_.rows(id) * state_.type(id).width),
          "an import of another size");
    std::copy(imports[i].begin(), imports[i].end(), state_.f32(id));
  }
}

std::span<const float> CpuExecutable::exported(size_t index) const {
  const graph::ValueId id = graph_.exports[index];
  return {state_.f32(id), static_cast<size_t>(state_.rows(id) * state_.type(id).width)};
}

void CpuExecutable::run_nodes() {
  pool_.run([&](Worker& worker) {
    for (size_t i = 0; i < rows_.size(); ++i) {
      const graph::Node& node = graph_.nodes[i];
      // A step without outputs computes nothing of the output head.
      if (state_.rows(node.outputs[0]) > 0) rows_[i]->run(state_, node, worker);
    }
  });
}

void CpuExecutable::prepare_timing() {
  std::vector<int64_t> cache_row_bytes;
  for (size_t layer = 0; layer < state_.kv->spec().layers.size(); ++layer) {
    const KvLayerSpec spec = kv_layer_spec(state_.kv->spec(), layer);
    cache_row_bytes.push_back((kv_k_page_bytes(spec) + kv_v_page_bytes(spec)) / kKvPageTokens);
  }
  step_timer_.emplace(timer_, graph_, state_.weights->held(), std::move(cache_row_bytes));
  stamps_.resize(graph_.nodes.size() + 1);
}

// The ops share all of the step among them: the first one's time begins with the binding and the waking of the threads,
// which the system may let others run before, and the last one's ends when all threads have come back.
void CpuExecutable::run_timed(const graph::StepData& step, std::span<const std::span<const float>> imports) {
  if (!step_timer_) prepare_timing();
  const auto start = Clock::now();
  bind(step);
  bind_imports(imports);
  pool_.run([&](Worker& worker) {
    for (size_t i = 0; i < rows_.size(); ++i) {
      const graph::Node& node = graph_.nodes[i];
      if (state_.rows(node.outputs[0]) > 0) rows_[i]->run(state_, node, worker);
      // Every op ends with a barrier: all threads are done with it.
      if (worker.index() == 0) stamps_[i + 1] = Clock::now();
    }
  });
  const auto seconds = [](Clock::duration duration) { return std::chrono::duration<double>(duration).count(); };
  const auto end = Clock::now();
  size_t last = rows_.size() - 1;
  while (last > 0 && state_.rows(graph_.nodes[last].outputs[0]) == 0) --last;
  stamps_[0] = start;
  stamps_[last + 1] = end;
  const auto node_seconds = step_timer_->node_seconds();
  for (size_t i = 0; i <= last; ++i) node_seconds[i] = seconds(stamps_[i + 1] - stamps_[i]);
  std::fill(node_seconds.begin() + static_cast<std::ptrdiff_t>(last) + 1, node_seconds.end(), 0.0);
  step_timer_->add(step, seconds(end - start));
}

void CpuExecutable::submit(const graph::StepData& step, std::span<const std::span<const float>> imports) {
  if (timer_.on()) {
    run_timed(step, imports);
  } else {
    bind(step);
    bind_imports(imports);
    run_nodes();
  }
}

graph::StepResult CpuExecutable::wait() {
  if (graph_.logits == graph::kNoValue) return {};
  const int64_t vocabulary = state_.type(graph_.logits).width;
  return {{state_.f32(graph_.logits), static_cast<size_t>(state_.outputs * vocabulary)}, {}};
}

}  // namespace minfer::cpu
