// Recording and running a step. See executable.hpp.
#include "cuda/executor/executable.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "cuda/executor/ops.hpp"
#include "cuda/launch/stage.hpp"

namespace minfer::cuda {
namespace {

constexpr int64_t kScratchUnit = 256;
constexpr int64_t kDrawnBytes = graph::kMaxOutputs * static_cast<int64_t>(sizeof(Drawn));

int64_t whole_units(int64_t bytes) {
  return (bytes + kScratchUnit - 1) / kScratchUnit * kScratchUnit;
}

template <class T>
T* at(std::byte* base, int64_t offset) {
  return reinterpret_cast<T*>(base + offset);
}

}  // namespace

StepLayout::StepLayout(const graph::Graph& graph, const graph::KvSpec& kv) {
  const graph::StepShape& shape = graph.shape;
  int64_t offset = 0;
  const auto take = [&](int64_t count, int64_t size) {
    const int64_t begin = offset;
    offset += (count * size + 15) / 16 * 16;
    return begin;
  };
  constexpr int64_t kInt = sizeof(int32_t);
  const int64_t most_sequences = sequence_capacity(shape.tokens, kv);
  token_ids = take(shape.tokens, kInt);
  positions = take(shape.tokens, kInt);
  output_rows = take(shape.outputs, kInt);
  row_sequence = take(shape.tokens, kInt);
  page_count = 0;
  for (size_t group = 0; group < kv.groups.size(); ++group) {
    slots[group] = take(shape.tokens, kInt);
    sequences[group] = take(shape.tokens, sizeof(SequenceInfo));  // under --strict each row is one
    page_count += most_sequences * ((kv.sequence_tokens + graph::kPageTokens - 1) / graph::kPageTokens);
  }
  adapters = graph::adapters_read(graph);
  adapter_scales = take(adapters * shape.tokens, sizeof(float));
  mirror = take(1, sizeof(Drawn*));
  top_mirror = take(1, sizeof(TokenLogprob*));
  pages = take(page_count, kInt);
  draws = take(shape.outputs, sizeof(SamplingRow));
  edit_count = shape.outputs * graph::kEditsPerRow;
  edits = take(edit_count, sizeof(LogitEdit));
  const bool draws_here = graph.logits != graph::kNoValue;
  mask_words = draws_here ? cuda::mask_words(graph.values[static_cast<size_t>(graph.logits)].type.width) : 0;
  masks = take(shape.outputs * mask_words, sizeof(uint32_t));
  drawn = take(shape.outputs, sizeof(Drawn));
  top = take(shape.outputs * graph::kMostTopLogprobs, sizeof(TokenLogprob));
  bytes = offset;
}

CudaWorkspace::CudaWorkspace(Device& device, int64_t activation_bytes, int64_t scratch_bytes)
    : arena_(activation_bytes, "activations"),
      scratch_(scratch_bytes, "scratch"),
      gemm_(scratch_.data() + scratch_.bytes() - kGemmWorkspaceBytes) {
  device.run([&] {
    clear(device.queue(), "workspace/clear", arena_.data(), arena_.bytes());
    clear(device.queue(), "workspace/clear", scratch_.data(), scratch_.bytes());
    device.wait("workspace/clear");
  });
}

Drawn* CudaWorkspace::drawn() const {
  return at<Drawn>(scratch_.data(), scratch_.bytes() - kGemmWorkspaceBytes - kDrawnBytes);
}

StepSlot& CudaWorkspace::next_slot(int64_t bytes) {
  check(in_flight_ < graph::kMostStepsInFlight, "more steps in flight than a workspace has");
  StepSlot& slot = slots_[static_cast<size_t>((first_slot_ + in_flight_) % graph::kMostStepsInFlight)];
  if (slot.data.bytes() < bytes) slot.data = PinnedBuffer(bytes, "the step's data");
  return slot;
}

StepSlot& CudaWorkspace::take_slot() {
  check(in_flight_ > 0, "no step in flight");
  StepSlot& slot = slots_[static_cast<size_t>(first_slot_)];
  first_slot_ = (first_slot_ + 1) % graph::kMostStepsInFlight;
  --in_flight_;
  return slot;
}

float* CudaWorkspace::results(int64_t floats) {
  const int64_t bytes = floats * static_cast<int64_t>(sizeof(float));
  if (results_.bytes() < bytes) results_ = PinnedBuffer(bytes, "the step's results");
  return reinterpret_cast<float*>(results_.data());
}

int64_t graph_scratch_bytes(const Capabilities& capabilities, const graph::Graph& graph, const graph::KvSpec& kv) {
  const ScratchBytes nodes = node_scratch(capabilities, graph, kv);
  return whole_units(StepLayout(graph, kv).bytes) + whole_units(nodes.attention) +
         whole_units(std::max(nodes.linear, nodes.sampling)) + kDrawnBytes + kGemmWorkspaceBytes;
}

CudaExecutable::CudaExecutable(Device& device, graph::Graph graph, graph::MemoryPlan plan, const CudaWeights& weights,
                               const CudaKvStore& kv, CudaWorkspace& workspace, graph::OpTimer& timer)
    : device_(device),
      graph_(std::move(graph)),
      plan_(std::move(plan)),
      kv_(kv),
      workspace_(workspace),
      layout_(graph_, kv.spec()),
      timer_(timer),
      device_data_(workspace.scratch().data() +
                   whole_units(node_scratch(device.capabilities(), graph_, kv.spec()).attention)) {
  check(plan_.arena_bytes <= workspace.arena().bytes(), "a graph larger than its workspace");
  check(graph_scratch_bytes(device.capabilities(), graph_, kv.spec()) <= workspace.scratch().bytes(),
        "a graph that needs more scratch than its workspace has");
  place(weights);
  exports_.resize(graph_.exports.size());
}

void CudaExecutable::place(const CudaWeights& weights) {
  const std::vector<float> frequencies = rope_frequencies(graph_);
  const auto frequency_bytes = static_cast<int64_t>(frequencies.size() * sizeof(float));
  frequencies_ = DeviceBuffer(frequency_bytes, "rotation frequencies");
  if (frequency_bytes > 0) {
    device_.run([&] {
      copy_to_device(device_.queue(), "executable/frequencies", frequencies_.data(), frequencies.data(),
                     frequency_bytes);
      device_.wait("executable/frequencies");
    });
  }
  state_.queue = &device_.queue();
  state_.graph = &graph_;
  state_.weights = &weights;
  state_.kv = &kv_;
  state_.arena = workspace_.arena().data();
  state_.offsets = plan_.offsets.data();
  state_.frequencies = at<const float>(frequencies_.data(), 0);
  state_.adapter_scales = at<const float>(device_data_, layout_.adapter_scales);
  state_.inputs = {at<const int32_t>(device_data_, layout_.token_ids),
                   at<const int32_t>(device_data_, layout_.positions),
                   at<const int32_t>(device_data_, layout_.output_rows)};
  const bool strict = device_.capabilities().strict;
  for (size_t group = 0; group < kv_.spec().groups.size(); ++group) {
    StepView& view = state_.steps[group];
    view.sequences = at<const SequenceInfo>(device_data_, layout_.sequences[group]);
    view.pages = at<const int32_t>(device_data_, layout_.pages);
    view.slots = at<const int32_t>(device_data_, layout_.slots[group]);
    view.row_sequence = at<const int32_t>(device_data_, layout_.row_sequence);
    view.row_position = at<const int32_t>(device_data_, layout_.positions);
    view.sequence_capacity = strict ? graph_.shape.tokens : sequence_capacity(graph_.shape.tokens, kv_.spec());
    view.row_capacity = graph_.shape.tokens;
    view.decode = strict || graph_.shape.kind == graph::StepKind::decode;
    view.sequence_tokens = kv_.spec().sequence_tokens;
  }
  const ScratchBytes nodes = node_scratch(device_.capabilities(), graph_, kv_.spec());
  // Attention's counters are at the start of the scratch, for every shape: zeroed once, they are zero after each
  // launch.
  state_.attention_scratch = workspace_.scratch().data();
  state_.linear_scratch = {device_data_ + whole_units(layout_.bytes), std::max(nodes.linear, nodes.sampling),
                           &workspace_.gemm()};
}

CudaExecutable::Draws CudaExecutable::draws_of(const graph::StepData& step) {
  if (step.draws.empty()) return Draws::none;
  const bool top = std::any_of(step.draws.begin(), step.draws.end(),
                               [](const graph::RowDraw& draw) { return draw.top_logprobs > 0; });
  return top ? Draws::top_logprobs : Draws::tokens;
}

void CudaExecutable::launch(Draws draws) {
  for (const graph::Node& node : graph_.nodes) {
    const OpRow* row = find_op(node.op);
    check(row != nullptr, "the card was given a node that it does not run");
    row->run(state_, node);
  }
  if (draws != Draws::none) launch_draws(draws == Draws::top_logprobs);
}

void CudaExecutable::launch_draws(bool top) {
  SampleArgs args;
  args.logits = state_.rows(graph_.logits);
  args.rows = at<const SamplingRow>(device_data_, layout_.draws);
  args.edits = at<const LogitEdit>(device_data_, layout_.edits);
  args.masks = at<const uint32_t>(device_data_, layout_.masks);
  args.out = workspace_.drawn();
  args.mirror = at<Drawn* const>(device_data_, layout_.mirror);
  if (top) args.top = at<TokenLogprob* const>(device_data_, layout_.top_mirror);
  args.scratch = state_.linear_scratch.data;  // which no product needs any more
  launch_sample(device_.queue(), args);
}

void CudaExecutable::prepare_timing() {
  std::vector<int64_t> cache_row_bytes;
  const graph::KvSpec& spec = kv_.spec();
  for (const graph::KvLayer& layer : spec.layers) {
    cache_row_bytes.push_back((kv_part_bytes(spec.key_format, layer.kv_heads, layer.key_size) +
                               kv_part_bytes(spec.value_format, layer.kv_heads, layer.value_size)) /
                              kKvPageTokens);
  }
  step_timer_.emplace(timer_, graph_, state_.weights->held(), std::move(cache_row_bytes));
  stamps_.resize(graph_.nodes.size() + 1);
}

void CudaExecutable::run_timed(const graph::StepData& step) {
  if (!step_timer_) prepare_timing();
  const Queue& queue = device_.queue();
  stamps_[0].record(queue);
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    find_op(graph_.nodes[i].op)->run(state_, graph_.nodes[i]);
    stamps_[i + 1].record(queue);
  }
  if (!step.draws.empty()) launch_draws(draws_of(step) == Draws::top_logprobs);
  device_.wait("step/timed");
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    step_timer_->node_seconds()[i] = stamps_[i + 1].seconds_since(stamps_[i]);
  }
  step_timer_->add(step, stamps_.back().seconds_since(stamps_.front()));
}

void CudaExecutable::bind_sequence(const graph::SequenceStep& sequence, int32_t index) {
  const int64_t most = kv_.spec().sequence_tokens;
  if (sequence.rows < 1 || sequence.first_row < 0 || sequence.rows > tokens_ - sequence.first_row ||
      sequence.first_position < 0 || sequence.first_position > most - sequence.rows) {
    fail(ErrorCode::internal, "internal error: {} rows from row {} of {}, at position {} of at most {}", sequence.rows,
         sequence.first_row, tokens_, sequence.first_position, most);
  }
  int32_t* positions = at<int32_t>(host_data_, layout_.positions) + sequence.first_row;
  int32_t* row_sequence = at<int32_t>(host_data_, layout_.row_sequence) + sequence.first_row;
  for (int64_t i = 0; i < sequence.rows; ++i) {
    positions[i] = static_cast<int32_t>(sequence.first_position + i);
    row_sequence[i] = index;
  }
  check(static_cast<int64_t>(sequence.adapter_scales.size()) >= layout_.adapters,
        "a sequence that does not say how much of an adapter it gets");
  for (int64_t adapter = 0; adapter < layout_.adapters; ++adapter) {
    float* scales = at<float>(host_data_, layout_.adapter_scales) + adapter * graph_.shape.tokens;
    std::fill_n(scales + sequence.first_row, sequence.rows, sequence.adapter_scales[static_cast<size_t>(adapter)]);
  }
  const int64_t end_page = (sequence.first_position + sequence.rows - 1) / graph::kPageTokens + 1;
  int32_t* page_ids = at<int32_t>(host_data_, layout_.pages);
  for (size_t group = 0; group < kv_.spec().groups.size(); ++group) {
    const std::span<const int32_t> pages = sequence.pages[group];
    graph::check_pages(kv_.spec(), group, sequence.first_position, sequence.rows, pages);
    const auto first_page = static_cast<int32_t>(pages_used_);
    check(pages_used_ + end_page <= layout_.page_count, "page tables larger than the step's data");
    std::copy_n(pages.begin(), end_page, page_ids + pages_used_);
    pages_used_ += end_page;
    auto* infos = at<SequenceInfo>(host_data_, layout_.sequences[group]);
    const SequenceInfo info = {static_cast<int32_t>(sequence.first_row), static_cast<int32_t>(sequence.rows),
                               static_cast<int32_t>(sequence.first_position), first_page};
    if (device_.capabilities().strict) {  // each row attends as in a decoding step
      for (int32_t i = 0; i < info.rows; ++i) {
        infos[info.first_row + i] = {info.first_row + i, 1, info.first_position + i, first_page};
      }
    } else {
      infos[index] = info;
    }
    int32_t* slots = at<int32_t>(host_data_, layout_.slots[group]) + sequence.first_row;
    for (int64_t i = 0; i < sequence.rows; ++i) {
      const int64_t position = sequence.first_position + i;
      slots[i] = static_cast<int32_t>(pages[static_cast<size_t>(position / graph::kPageTokens)] * graph::kPageTokens +
                                      position % graph::kPageTokens);
    }
  }
}

int64_t CudaExecutable::bind(const graph::StepData& step) {
  tokens_ = static_cast<int64_t>(step.token_ids.size());
  outputs_ = static_cast<int64_t>(step.output_rows.size());
  const auto sequences = static_cast<int64_t>(step.sequences.size());
  check(tokens_ <= graph_.shape.tokens && outputs_ <= graph_.shape.outputs, "a step larger than its shape");
  check(sequences <= sequence_capacity(graph_.shape.tokens, kv_.spec()), "more sequences than a step has");
  pages_used_ = 0;
  // Rows beyond the step's own: token 0, at position 0, of no sequence, with no place in the cache.
  std::memset(host_data_, 0, static_cast<size_t>(layout_.pages));
  const auto none = [&](int64_t offset, int64_t from) {
    std::fill(at<int32_t>(host_data_, offset) + from, at<int32_t>(host_data_, offset) + graph_.shape.tokens, -1);
  };
  none(layout_.row_sequence, tokens_);
  for (size_t group = 0; group < kv_.spec().groups.size(); ++group) none(layout_.slots[group], tokens_);
  int32_t index = 0;
  int64_t rows = 0;
  for (const graph::SequenceStep& sequence : step.sequences) {
    check(sequence.first_row == rows, "rows out of order");
    bind_sequence(sequence, index++);
    rows += sequence.rows;
  }
  check(rows == tokens_, "sequences do not cover the step's rows");
  for (const int32_t row : step.output_rows) {
    if (row < 0 || row >= tokens_) {
      fail(ErrorCode::internal, "internal error: output row {} of a step of {} rows", row, tokens_);
    }
  }
  std::copy(step.token_ids.begin(), step.token_ids.end(), at<int32_t>(host_data_, layout_.token_ids));
  std::copy(step.output_rows.begin(), step.output_rows.end(), at<int32_t>(host_data_, layout_.output_rows));
  *at<Drawn*>(host_data_, layout_.mirror) = at<Drawn>(host_data_, layout_.drawn);
  *at<TokenLogprob*>(host_data_, layout_.top_mirror) = at<TokenLogprob>(host_data_, layout_.top);
  bind_draws(step.draws);
  return layout_.pages + (pages_used_ * static_cast<int64_t>(sizeof(int32_t)) + 15) / 16 * 16;
}

void CudaExecutable::bind_draws(std::span<const graph::RowDraw> draws) {
  check(draws.empty() || (static_cast<int64_t>(draws.size()) == outputs_ && graph_.logits != graph::kNoValue),
        "draws for other rows than the step's outputs");
  edits_used_ = 0;
  masks_used_ = 0;
  auto* rows = at<SamplingRow>(host_data_, layout_.draws);
  auto* edits = at<LogitEdit>(host_data_, layout_.edits);
  auto* masks = at<uint32_t>(host_data_, layout_.masks);
  for (const graph::RowDraw& draw : draws) {
    const auto count = static_cast<int64_t>(draw.edits.size());
    const int64_t place = count + (draw.counted == graph::kNoOutput ? 0 : 1);
    check(place <= graph::kEditsPerRow, "more edits of a row's logits than a step takes");
    check(draw.top_logprobs <= graph::kMostTopLogprobs, "more of the likeliest tokens than a step gives");
    std::copy(draw.edits.begin(), draw.edits.end(), edits + edits_used_);
    const bool masked = !draw.mask.empty();
    check(!masked || static_cast<int64_t>(draw.mask.size()) == layout_.mask_words, "a mask of another vocabulary");
    std::copy(draw.mask.begin(), draw.mask.end(), masks + masks_used_ * layout_.mask_words);
    *rows++ = {static_cast<int32_t>(edits_used_),
               static_cast<int32_t>(count),
               draw.repeat,
               draw.frequency,
               draw.presence,
               draw.counted,
               draw.temperature,
               draw.top_k,
               draw.typical_p,
               draw.top_p,
               draw.min_p,
               draw.xtc_probability,
               draw.xtc_threshold,
               draw.xtc_uniform,
               draw.uniform,
               draw.mirostat,
               draw.mirostat_mu,
               masked ? static_cast<int32_t>(masks_used_) : -1,
               draw.top_logprobs};
    edits_used_ += place;
    masks_used_ += masked ? 1 : 0;
  }
  // Those beyond the step's own are drawn like the others, and read by nobody.
  SamplingRow idle{};
  idle.counted = graph::kNoOutput;
  idle.mask = -1;
  if (!draws.empty()) std::fill(rows, at<SamplingRow>(host_data_, layout_.draws) + graph_.shape.outputs, idle);
}

int64_t CudaExecutable::value_rows(graph::ValueId id) const {
  return state_.type(id).rows == graph::Rows::tokens ? tokens_ : outputs_;
}

// Exports, then logits where they are wanted.
int64_t CudaExecutable::result_floats(const graph::StepData& step) const {
  int64_t floats = 0;
  const auto floats_of = [&](graph::ValueId id) { return value_rows(id) * state_.type(id).width; };
  for (const graph::ValueId id : graph_.exports) floats += floats_of(id);
  if (graph_.logits != graph::kNoValue && step.draws.empty()) floats += floats_of(graph_.logits);
  return floats;
}

void CudaExecutable::submit(const graph::StepData& step, std::span<const std::span<const float>> imports) {
  check(imports.size() == graph_.imports.size(), "other imports than the graph has");
  StepSlot& slot = workspace_.next_slot(layout_.bytes);
  host_data_ = slot.data.data();
  const Call call{step, imports, slot, bind(step)};
  slot.result = {};
  device_.run([this, &call] { put_on_queue(call); });
  workspace_.set_in_flight();
}

graph::StepResult CudaExecutable::wait() {
  StepSlot& slot = workspace_.take_slot();
  device_.run([this, &slot] { device_.wait(slot.done, "step/wait"); });
  return slot.result;
}

void CudaExecutable::put_on_queue(const Call& call) {
  StageArgs stage;
  stage.host = host_data_;
  stage.device = device_data_;
  stage.bytes = call.data_bytes;
  stage.tokens = tokens_;
  stage.draws_offset = layout_.draws;
  stage.draws = call.step.draws.empty() ? 0 : graph_.shape.outputs;
  stage.edits_offset = layout_.edits;
  stage.drawn = workspace_.drawn();
  launch_stage(device_.queue(), stage);
  if (masks_used_ > 0) {
    copy_to_device(device_.queue(), "step/masks", device_data_ + layout_.masks, host_data_ + layout_.masks,
                   masks_used_ * layout_.mask_words * static_cast<int64_t>(sizeof(uint32_t)));
  }
  for (size_t i = 0; i < call.imports.size(); ++i) import_rows(graph_.imports[i], call.imports[i]);
  replay(call.step);
  float* results = workspace_.results(result_floats(call.step));
  for (size_t i = 0; i < graph_.exports.size(); ++i) {
    exports_[i] = fetch_rows(graph_.exports[i], results);
    results += exports_[i].size();
  }
  if (!call.step.draws.empty()) {
    const auto draws = static_cast<size_t>(outputs_);
    call.slot.result.drawn = {at<const Drawn>(host_data_, layout_.drawn), draws};
    if (draws_of(call.step) == Draws::top_logprobs) {
      call.slot.result.top = {at<const TokenLogprob>(host_data_, layout_.top), draws * graph::kMostTopLogprobs};
    }
  } else if (graph_.logits != graph::kNoValue) {
    call.slot.result.logits = fetch_rows(graph_.logits, results);
  }
  call.slot.done.record(device_.queue(), "step/done");
}

void CudaExecutable::replay(const graph::StepData& step) {
  if (timer_.on()) return run_timed(step);
  const Draws draws = draws_of(step);
  RecordedWork& work = work_[static_cast<size_t>(draws)];
  if (work.empty()) work = RecordedWork(device_.queue(), [&] { launch(draws); });
  work.replay(device_.queue());
}

void CudaExecutable::import_rows(graph::ValueId id, std::span<const float> rows) {
  const int64_t width = state_.type(id).width;
  check(static_cast<int64_t>(rows.size()) == value_rows(id) * width, "an import of other rows than the step has");
  if (rows.empty()) return;
  copy_rows_to_device(device_.queue(), "step/import", state_.bytes(id), row_stride(ActivationFormat::f32, width),
                      rows.data(), value_rows(id), width);
}

std::span<const float> CudaExecutable::fetch_rows(graph::ValueId id, float* out) {
  const int64_t rows = value_rows(id);
  const int64_t width = state_.type(id).width;
  if (rows > 0) {
    copy_rows_to_host(device_.queue(), "step/result", out, state_.bytes(id), row_stride(ActivationFormat::f32, width),
                      rows, width);
  }
  return {out, static_cast<size_t>(rows * width)};
}

std::span<const float> CudaExecutable::exported(size_t index) const {
  return exports_[index];
}

}  // namespace minfer::cuda
