// Planning memory from the header. See plan.hpp.
#include "engine/plan.hpp"

#include <algorithm>
#include <charconv>

#include "base/checked.hpp"

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

// The cache's bytes, once it is sure that the device's own sum can't overflow: those of one page of each group are
// small, whatever the header says (kMaxLayers, kMaxHeads, kMaxHeadSize).
int64_t checked_kv_bytes(const graph::Backend& device, const graph::KvSpec& spec, const RunnerOptions& options) {
  int64_t bytes = 0;
  for (const graph::KvGroup& group : spec.groups) {
    graph::KvSpec one = spec;
    one.groups = {{group.window, group.layers, 1}};
    bytes = checked_add(bytes, checked_multiply(device.kv_bytes(one), group.pages, "KV cache"), "KV cache");
  }
  if (bytes > kMaxPlanBytes) {
    fail(ErrorCode::out_of_memory,
         "the KV cache of {} tokens for {} sequence{} takes more than {} bytes; take a smaller "
         "context (-c)",
         options.context_tokens, options.sequences, options.sequences == 1 ? "" : "s", kMaxPlanBytes);
  }
  return device.kv_bytes(spec);
}

graph::WeightLayout layout_of(const graph::WeightSource& weight, const graph::Backend& device) {
  return device.choose_layout(weight.shape, weight.dtype, weight.role);
}

// The layer of a weight ("blk.7.attn_q.weight"); nullopt for one of the whole model.
std::optional<int64_t> layer_of(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  int64_t layer = 0;
  const auto end = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), layer);
  return end.ec == std::errc() ? std::optional(layer) : std::nullopt;
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

std::vector<graph::StepShape> largest_shapes(const RunnerOptions& options) {
  const int64_t tokens = options.batch_tokens;
  const int64_t outputs = std::min(tokens, graph::kMaxOutputs);
  return {graph::bucket_shape(tokens, std::min<int64_t>(tokens, 8), tokens),
          graph::bucket_shape(outputs, outputs, tokens)};
}

graph::MemoryUse plan_memory_use(const model::Model& model, const graph::Backend& device,
                                 const RunnerOptions& options) {
  check_options(options);
  const graph::KvSpec spec = kv_spec(model, options);
  device.check_kv(spec);
  graph::MemoryUse use;
  for (const graph::WeightSource& weight : model.weights()) {
    use.weights_bytes = checked_add(use.weights_bytes, layout_of(weight, device).bytes, "weights");
  }
  use.kv_bytes = checked_kv_bytes(device, spec, options);
  for (const graph::StepShape& shape : largest_shapes(options)) {
    const graph::Graph graph = device_graph(model, device, shape, options.fuse);
    const auto bytes = [&](const graph::ValueType& type, int64_t rows) { return device.value_bytes(type, rows); };
    use.activation_bytes = std::max(use.activation_bytes, graph::plan_memory(graph, bytes).arena_bytes);
    use.scratch_bytes = std::max(use.scratch_bytes, device.scratch_bytes(graph, spec));
  }
  return use;
}

std::vector<LayoutUse> weights_by_layout(const model::Model& model, const graph::Backend& device) {
  std::vector<LayoutUse> uses;
  for (const graph::WeightSource& weight : model.weights()) {
    const graph::WeightLayout layout = layout_of(weight, device);
    const std::string_view dtype = tensor::dtype_info(weight.dtype).name;
    auto use = std::find_if(uses.begin(), uses.end(), [&](const LayoutUse& u) {
      return u.dtype == dtype && u.layout == layout.name && u.activation_format == layout.activation_format;
    });
    if (use == uses.end()) {
      use = uses.insert(use, {dtype, layout.name, layout.activation_format, layout.copied});
    }
    ++use->tensors;
    use->bytes += layout.bytes;
  }
  return uses;
}

Budget decide_budget(const graph::MemoryUse& use, const graph::DeviceMemory& memory, std::optional<int64_t> limit) {
  using Answer = graph::DeviceMemory::Answer;
  Budget budget;
  budget.needed_bytes = use.total_bytes();
  const bool reported = memory.answer == Answer::reported;
  if (memory.answer == Answer::no_device) {
    budget.verdict = Budget::Verdict::too_large;
    return budget;
  }
  if (!reported && !limit) return budget;
  budget.limited = limit && (!reported || *limit < memory.available_bytes);
  budget.budget_bytes = budget.limited ? *limit : memory.available_bytes;
  budget.verdict = budget.needed_bytes <= budget.budget_bytes ? Budget::Verdict::fits : Budget::Verdict::too_large;
  return budget;
}

void check_budget(const graph::MemoryUse& use, const graph::Backend& device, std::optional<int64_t> limit) {
  const Budget budget = decide_budget(use, device.memory(), limit);
  if (budget.verdict != Budget::Verdict::too_large) return;
  constexpr double kMegabyte = 1e6;
  const auto megabytes = [](int64_t bytes) { return static_cast<double>(bytes) / kMegabyte; };
  const bool context_helps = use.total_bytes() - use.kv_bytes < budget.budget_bytes;
  fail(ErrorCode::out_of_memory,
       "the model needs {:.0f} MB on {} (weights {:.0f}, KV cache {:.0f}, activations {:.0f}, scratch {:.0f}), which "
       "has {:.0f} MB {}; take {}",
       megabytes(use.total_bytes()), device.name(), megabytes(use.weights_bytes), megabytes(use.kv_bytes),
       megabytes(use.activation_bytes), megabytes(use.scratch_bytes), megabytes(budget.budget_bytes),
       budget.limited ? "by --memory-limit" : "available",
       context_helps ? "a smaller context (-c), or a smaller or more quantized model"
                     : "a smaller or more quantized model, or a smaller batch (--batch-tokens)");
}

int64_t layers_that_fit(const model::Model& model, const graph::Backend& device, const RunnerOptions& options,
                        const graph::MemoryUse& use, int64_t budget_bytes) {
  const int64_t layers = model.config().layers;
  std::vector<int64_t> weights(static_cast<size_t>(layers), 0);
  for (const graph::WeightSource& weight : model.weights()) {
    const auto layer = layer_of(weight.shape.name);
    if (layer && *layer < layers) weights[static_cast<size_t>(*layer)] += layout_of(weight, device).bytes;
  }
  const graph::KvSpec spec = kv_spec(model, options);
  int64_t bytes = use.activation_bytes + use.scratch_bytes;
  for (int64_t layer = 0; layer < layers; ++layer) {
    graph::KvSpec one = spec;
    const int64_t window = spec.layers[static_cast<size_t>(layer)].window;
    one.groups = {{window, {static_cast<int32_t>(layer)}, group_pages(window, options)}};
    bytes += weights[static_cast<size_t>(layer)] + device.kv_bytes(one);
    if (bytes > budget_bytes) return layer;
  }
  return layers;
}

}  // namespace minfer::engine
