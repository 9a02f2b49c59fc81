// Planning, loading and the executable cache. See runner.hpp.
#include "engine/runner.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "graph/passes.hpp"
#include "graph/placement.hpp"

namespace minfer::engine {
namespace {

void check_options(const RunnerOptions& options) {
  if (options.context_tokens < 1 || options.context_tokens > kMaxContextTokens) {
    fail(ErrorCode::invalid_input, "context of {} tokens; expected 1 to {}", options.context_tokens, kMaxContextTokens);
  }
  if (options.batch_tokens < 1 || options.batch_tokens > kMaxBatchTokens) {
    fail(ErrorCode::invalid_input, "batch of {} tokens; expected 1 to {}", options.batch_tokens, kMaxBatchTokens);
  }
  if (options.sequences < 1 || options.sequences > kMaxSequences) {
    fail(ErrorCode::invalid_input, "{} parallel sequences; expected 1 to {}", options.sequences, kMaxSequences);
  }
}

// Pages that `sequences` sequences of the context need in a group: a window group holds the window, the step that is
// being added and a page begun at either end.
int64_t group_pages(int64_t window, const RunnerOptions& options) {
  const int64_t all = page_count(options.context_tokens);
  if (window == 0) return options.sequences * all;
  return options.sequences * std::min(all, page_count(window + options.batch_tokens) + 1);
}

}  // namespace

graph::KvSpec kv_spec(const model::Model& model, const RunnerOptions& options) {
  graph::KvSpec spec{model.kv_layers(), {}, options.key_format, options.value_format, options.context_tokens};
  for (size_t layer = 0; layer < spec.layers.size(); ++layer) {
    const int64_t window = spec.layers[layer].window;
    auto group = std::find_if(spec.groups.begin(), spec.groups.end(),
                              [&](const graph::KvGroup& g) { return g.window == window; });
    if (group == spec.groups.end()) {
      group = spec.groups.insert(group, {window, {}, group_pages(window, options)});
    }
    group->layers.push_back(static_cast<int32_t>(layer));
  }
  check(spec.groups.size() <= graph::kMaxKvGroups, "a model with too many kinds of windows");
  return spec;
}

namespace {

std::vector<graph::WeightLayout> layouts_of(const model::Model& model, const graph::Backend& device) {
  std::vector<graph::WeightLayout> layouts;
  for (const graph::WeightSource& source : model.weights()) {
    layouts.push_back(device.choose_layout(source.shape, source.dtype, source.role));
  }
  return layouts;
}

// The two step shapes that bound the arena: the most tokens, and the most rows of logits.
std::vector<graph::StepShape> largest_shapes(const RunnerOptions& options) {
  const int64_t tokens = options.batch_tokens;
  const int64_t outputs = std::min(tokens, graph::kMaxOutputs);
  return {graph::bucket_shape(tokens, std::min<int64_t>(tokens, 8), tokens),
          graph::bucket_shape(outputs, outputs, tokens)};
}

}  // namespace

graph::Graph device_graph(const model::Model& model, const graph::Backend& device, const graph::StepShape& shape,
                          bool fuse) {
  const auto layouts = layouts_of(model, device);
  const graph::DeviceTraits traits{
      [&](graph::Op op) { return device.has_op(op); },
      [&](graph::WeightId id) { return layouts[static_cast<size_t>(id)].activation_format; },
      [&](const graph::Graph& g, const graph::Node& node) { return !device.unsupported_reason(g, node); }};
  return graph::optimize(model.build_graph(shape), model.weight_shapes(), traits, fuse);
}

graph::MemoryUse plan_memory_use(const model::Model& model, const graph::Backend& device,
                                 const RunnerOptions& options) {
  check_options(options);
  const graph::KvSpec spec = kv_spec(model, options);
  device.check_kv(spec);
  graph::MemoryUse use;
  for (const graph::WeightLayout& layout : layouts_of(model, device)) use.weights_bytes += layout.bytes;
  use.kv_bytes = device.kv_bytes(spec);
  for (const graph::StepShape& shape : largest_shapes(options)) {
    const graph::Graph graph = device_graph(model, device, shape, options.fuse);
    const auto bytes = [&](const graph::ValueType& type, int64_t rows) { return device.value_bytes(type, rows); };
    use.activation_bytes = std::max(use.activation_bytes, graph::plan_memory(graph, bytes).arena_bytes);
    use.scratch_bytes = std::max(use.scratch_bytes, device.scratch_bytes(graph, spec));
  }
  return use;
}

void check_budget(const graph::MemoryUse& use, const graph::Backend& device) {
  const graph::DeviceMemory memory = device.memory();
  if (memory.answer != graph::DeviceMemory::Answer::reported || use.total_bytes() <= memory.available_bytes) return;
  constexpr double kMegabyte = 1e6;
  const auto megabytes = [](int64_t bytes) { return static_cast<double>(bytes) / kMegabyte; };
  fail(ErrorCode::out_of_memory,
       "the model needs {:.0f} MB on {} (weights {:.0f}, KV cache {:.0f}, activations {:.0f}, scratch {:.0f}), which "
       "has "
       "{:.0f} MB available; take a smaller context (-c), or a smaller or more quantized model",
       megabytes(use.total_bytes()), device.name(), megabytes(use.weights_bytes), megabytes(use.kv_bytes),
       megabytes(use.activation_bytes), megabytes(use.scratch_bytes), megabytes(memory.available_bytes));
}

Runner::Runner(const model::Model& model, graph::Backend& device, const RunnerOptions& options,
               const graph::ProgressFn& progress)
    : model_(model),
      device_(device),
      options_(options),
      kv_spec_(engine::kv_spec(model, options)),
      memory_(plan_memory_use(model, device, options)) {
  check_budget(memory_, device);
  weights_ = device.load_weights(model.weights(), progress);
  kv_ = device.create_kv_store(kv_spec_);
  cache_ = std::make_unique<KvCache>(kv_spec_, *kv_);
  // The largest first: the device's arena never has to grow afterwards.
  for (const graph::StepShape& shape : largest_shapes(options)) executable(shape);
}

graph::Executable& Runner::executable(const graph::StepShape& shape) {
  auto& slot = executables_[shape];
  if (slot == nullptr) {
    graph::Graph graph = device_graph(model_, device_, shape, options_.fuse);
    const graph::Backend* devices[] = {&device_};
    graph::place(graph, devices);
    const auto bytes = [&](const graph::ValueType& type, int64_t rows) { return device_.value_bytes(type, rows); };
    graph::MemoryPlan plan = graph::plan_memory(graph, bytes);
    slot = device_.compile(std::move(graph), std::move(plan), *weights_, *kv_);
  }
  return *slot;
}

std::span<const float> Runner::step(const graph::StepData& data) {
  const int64_t vocabulary = model_.config().vocabulary;
  for (const int32_t id : data.token_ids) {
    if (id < 0 || id >= vocabulary) {
      fail(ErrorCode::invalid_input, "token id {} is not in the vocabulary of {} tokens", id, vocabulary);
    }
  }
  const auto shape = graph::bucket_shape(static_cast<int64_t>(data.token_ids.size()),
                                         static_cast<int64_t>(data.output_rows.size()), options_.batch_tokens);
  return executable(shape).run(data);
}

}  // namespace minfer::engine
