// Loading and the executable cache. See runner.hpp.
#include "engine/runner.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.hpp"
#include "engine/kv/split_store.hpp"
#include "engine/plan.hpp"
#include "graph/memory_plan.hpp"

namespace minfer::engine {

Runner::Runner(const model::Model& model, std::span<graph::Backend* const> devices, const RunnerOptions& options,
               const graph::ProgressFn& progress)
    : model_(model),
      devices_(devices.begin(), devices.end()),
      options_(options_for(model.config(), options)),
      placement_(plan_placement(model, devices_, options_)) {
  kv_spec_ = engine::kv_spec(model, options_);
  check_budgets(placement_, devices_, options_);
  load(progress);
}

Runner::Runner(const model::Model& model, graph::Backend& device, const RunnerOptions& options,
               const graph::ProgressFn& progress)
    : Runner(model, std::array<graph::Backend*, 1>{&device}, options, progress) {}

void Runner::load(const graph::ProgressFn& progress) {
  const int64_t total_bytes = memory().weights_bytes;
  int64_t done_bytes = 0;
  std::vector<graph::KvStore*> stores;
  for (const PartPlan& part : placement_.parts) {
    graph::Backend& device = *devices_[part.device];
    std::vector<graph::WeightSource> sources(model_.weights().begin(), model_.weights().end());
    for (size_t i = 0; i < sources.size(); ++i) sources[i].role = part.roles[i];
    const auto report = [&](int64_t done, int64_t) {
      if (progress) progress(done_bytes + done, total_bytes);
    };
    Loaded loaded;
    loaded.weights = device.load_weights(sources, report);
    loaded.kv = device.create_kv_store(part.kv);
    loaded.workspace = device.create_workspace(part.memory.activation_bytes, part.kernel_scratch_bytes);
    done_bytes += part.memory.weights_bytes;
    stores.push_back(loaded.kv.get());
    loaded_.push_back(std::move(loaded));
  }
  if (stores.size() > 1) split_kv_ = std::make_unique<SplitKvStore>(stores);
  cache_ = std::make_unique<KvCache>(kv_spec_, split_kv_ != nullptr ? *split_kv_ : *stores[0]);
  std::vector<float> scales;
  for (const model::Adapter& adapter : model_.adapters()) scales.push_back(adapter.scale());
  cache_->set_adapter_scales(std::move(scales));
}

graph::Backend& Runner::main_device() const {
  const auto most = std::max_element(placement_.parts.begin(), placement_.parts.end(),
                                     [](const PartPlan& a, const PartPlan& b) { return a.layers < b.layers; });
  return *devices_[most->device];
}

graph::MemoryUse Runner::memory() const {
  graph::MemoryUse sum;
  for (const PartPlan& part : placement_.parts) {
    sum.weights_bytes += part.memory.weights_bytes;
    sum.kv_bytes += part.memory.kv_bytes;
    sum.activation_bytes += part.memory.activation_bytes;
    sum.scratch_bytes += part.memory.scratch_bytes;
  }
  return sum;
}

std::span<const Runner::Stage> Runner::stages(const graph::StepShape& shape) {
  std::vector<Stage>& stages = stages_[shape];
  if (!stages.empty()) return stages;
  std::vector<Stage> made;
  auto graphs = part_graphs(model_, devices_, placement_.parts, shape, options_.fuse);
  for (size_t p = 0; p < graphs.size(); ++p) {
    graph::Backend& device = *devices_[placement_.parts[p].device];
    const auto bytes = [&](const graph::ValueType& type, int64_t rows) { return device.value_bytes(type, rows); };
    Loaded& loaded = loaded_[p];
    const graph::MemoryPlan& largest = largest_plan(placement_.parts[p], device, shape);
    graph::MemoryPlan plan = graph::plan_memory_within(graphs[p].graph, bytes, largest);
    imports_.reserve(graphs[p].imports.size());
    made.push_back(
        {device.compile(std::move(graphs[p].graph), std::move(plan), *loaded.weights, *loaded.kv, *loaded.workspace),
         std::move(graphs[p].imports)});
  }
  stages = std::move(made);
  return stages;
}

void Runner::check_tokens(std::span<const int32_t> ids) const {
  const int64_t vocabulary = model_.config().vocabulary;
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocabulary) {
      fail(ErrorCode::invalid_input, "token id {} is not in the vocabulary of {} tokens", id, vocabulary);
    }
  }
}

// An encoder's step.
void Runner::check_texts(const graph::StepData& data) const {
  if (!data.hidden) {
    fail(ErrorCode::unsupported,
         "{} is an encoder: it gives embeddings (/v1/embeddings of `minfer serve`), and no text",
         model_.config().architecture);
  }
  const bool whole = std::all_of(data.sequences.begin(), data.sequences.end(),
                                 [](const graph::SequenceStep& sequence) { return sequence.first_position == 0; });
  check(whole, "a part of an encoder's text");
}

void Runner::check_step(const graph::StepData& data) const {
  for (const int32_t id : data.token_ids) {
    const bool was_drawn = graph::is_drawn_token(id) && runs_ahead() && graph::drawn_output(id) < last_draws_;
    if (!was_drawn) check_tokens({&id, 1});
  }
  if (encodes()) check_texts(data);
  const auto tokens = static_cast<int64_t>(data.token_ids.size());
  const auto outputs = static_cast<int64_t>(data.output_rows.size());
  if (tokens < 1 || tokens > options_.batch_tokens) {
    fail(ErrorCode::invalid_input, "a step of {} tokens; expected 1 to {}", tokens, options_.batch_tokens);
  }
  if (outputs > std::min(tokens, options_.outputs)) {
    fail(ErrorCode::invalid_input, "logits of {} rows in a step of {} tokens; expected one a token, and at most {}",
         outputs, tokens, options_.outputs);
  }
  check(data.draws.empty() || (draws() && !data.hidden), "draws of a device that draws none, or without logits");
  for (const graph::RowDraw& draw : data.draws) {
    check(draw.counted == graph::kNoOutput || draw.counted < last_draws_, "a token that no step has drawn");
  }
  const bool ahead = runs_ahead() && !gives_logits_ && !data.gives_logits();
  check(in_flight_ == 0 || (ahead && in_flight_ < graph::kMostStepsInFlight), "a step behind one in flight");
}

void Runner::submit(const graph::StepData& data) {
  check_step(data);
  const auto tokens = static_cast<int64_t>(data.token_ids.size());
  const auto outputs = static_cast<int64_t>(data.output_rows.size());
  const bool decode = std::all_of(data.sequences.begin(), data.sequences.end(),
                                  [](const graph::SequenceStep& sequence) { return sequence.rows == 1; });
  const graph::StepKind kind = data.hidden                            ? graph::StepKind::hidden
                               : decode && tokens <= options_.outputs ? graph::StepKind::decode
                                                                      : graph::StepKind::mixed;
  const auto parts = stages(graph::bucket_shape(tokens, outputs, options_.batch_tokens, kind));
  for (const Stage& stage : parts) {
    imports_.clear();
    for (const graph::PartImport& from : stage.imports) {
      imports_.push_back(parts[from.part].executable->exported(from.export_index));
      copied_bytes_ += static_cast<int64_t>(imports_.back().size_bytes());
    }
    const bool last = &stage == &parts.back();
    graph::StepData part = data;
    if (!last) part.draws = {};
    stage.executable->submit(part, imports_);
    if (!last) stage.executable->wait();
  }
  waited_for_[static_cast<size_t>(in_flight_++)] = parts.back().executable.get();
  gives_logits_ = data.gives_logits();
  last_draws_ = static_cast<int64_t>(data.draws.size());
}

graph::StepResult Runner::wait() {
  check(in_flight_ > 0, "no step to wait for");
  graph::Executable* const earliest = waited_for_[0];
  waited_for_[0] = waited_for_[1];
  --in_flight_;
  return earliest->wait();
}

std::span<const float> Runner::step(const graph::StepData& data) {
  submit(data);
  return wait().logits;
}

}  // namespace minfer::engine
