// Planning memory from the header. See plan.hpp.
#include "engine/plan.hpp"

#include <algorithm>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "tensor/dtype.hpp"

namespace minfer::engine {
void check_options(const RunnerOptions& options) {
  if (options.context_tokens < 1 || options.context_tokens > kMaxContextTokens) {
    fail(ErrorCode::invalid_input, "context of {} tokens; expected 1 to {}", options.context_tokens, kMaxContextTokens);
  }
  if (options.batch_tokens < 1 || options.batch_tokens > kMaxBatchTokens) {
    fail(ErrorCode::invalid_input, "batch of {} tokens; expected 1 to {}", options.batch_tokens, kMaxBatchTokens);
  }
  if (options.outputs < 1 || options.outputs > graph::kMaxOutputs) {
    fail(ErrorCode::invalid_input, "{} rows of logits a step; expected 1 to {}", options.outputs, graph::kMaxOutputs);
  }
  if (options.sequences < 1 || options.sequences > kMaxSequences) {
    fail(ErrorCode::invalid_input, "{} parallel sequences; expected 1 to {}", options.sequences, kMaxSequences);
  }
}

RunnerOptions options_for(const model::Config& config, RunnerOptions options) {
  if (!config.encoder) return options;
  const int64_t most = config.learned_positions ? config.context_length : graph::kMaxOutputs;
  if (options.context_tokens > most) {
    fail(ErrorCode::invalid_input, "context of {} tokens; it is at most {} here ({})", options.context_tokens, most,
         config.learned_positions ? config.architecture + ".context_length: the positions that it has learned"
                                  : "an encoder's text is one step");
  }
  options.batch_tokens = std::max(options.batch_tokens, options.context_tokens);
  options.outputs = std::max(options.outputs, std::min(options.batch_tokens, graph::kMaxOutputs));
  return options;
}

namespace {

// Pages that `sequences` sequences of the context need in a group: a window group holds the window, the step that is
// being added and a page begun at either end.
int64_t group_pages(int64_t window, const RunnerOptions& options) {
  const int64_t all = page_count(options.context_tokens);
  if (window == 0) return options.sequences * all;
  return options.sequences * std::min(all, page_count(window + options.batch_tokens) + 1);
}

}  // namespace

graph::KvSpec kv_spec(const model::Model& model, const RunnerOptions& options) {
  graph::KvSpec spec{
      model.kv_layers(options.context_tokens), {}, options.key_format, options.value_format, options.context_tokens,
      std::min(options.outputs, kMaxSequences)};
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

// The device's own sum can't overflow once those of its groups are checked: the bytes of one page of a group are small,
// whatever the header says (kMaxLayers, kMaxHeads, kMaxHeadSize).
int64_t planned_kv_bytes(const graph::Backend& device, const graph::KvSpec& spec) {
  int64_t bytes = 0;
  for (const graph::KvGroup& group : spec.groups) {
    graph::KvSpec one = spec;
    one.groups = {{group.window, group.layers, 1}};
    bytes = checked_add(bytes, checked_multiply(device.kv_bytes(one), group.pages, "KV cache bytes"), "KV cache bytes");
  }
  if (bytes > kMaxPlanBytes) {
    fail(
        ErrorCode::out_of_memory,
        "the KV cache of sequences of {} tokens takes {} bytes, more than any machine has; take a smaller context (-c)",
        spec.sequence_tokens, bytes);
  }
  return device.kv_bytes(spec);
}

std::vector<LayoutUse> weights_by_layout(const model::Model& model, const graph::Backend& device,
                                         const PartPlan& part) {
  std::vector<LayoutUse> uses;
  for (size_t i = 0; i < part.layouts.size(); ++i) {
    if (part.roles[i] == graph::WeightRole::elsewhere) continue;
    const graph::WeightLayout& layout = part.layouts[i];
    const graph::WeightSource& weight = model.weights()[i];
    const std::string_view dtype = tensor::dtype_info(weight.dtype).name;
    const bool is_vector = part.roles[i] == graph::WeightRole::vector;
    const graph::Format format =
        is_vector ? graph::Format::f32 : device.activation_format(weight.dtype, weight.shape.experts, 1);
    auto use = std::find_if(uses.begin(), uses.end(), [&](const LayoutUse& u) {
      return u.dtype == dtype && u.layout == layout.name && u.activation_format == format;
    });
    if (use == uses.end()) {
      use = uses.insert(use, {dtype, layout.name, format, layout.copied});
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

std::string_view less_cache(const RunnerOptions& options) {
  return options.sequences > 1 ? "fewer sequences at once (--parallel), a smaller context (-c)"
                               : "a smaller context (-c)";
}

void check_budget(const graph::MemoryUse& use, const graph::Backend& device, const RunnerOptions& options) {
  const Budget budget = decide_budget(use, device.memory(), options.memory_limit_bytes);
  if (budget.verdict != Budget::Verdict::too_large) return;
  constexpr double kMegabyte = 1e6;
  const auto megabytes = [](int64_t bytes) { return static_cast<double>(bytes) / kMegabyte; };
  // The cache and the scratch of attention grow with the context, and the rows of logits with the sequences.
  const bool many = options.sequences > 1;
  const bool context_helps = use.weights_bytes + (many ? 0 : use.activation_bytes) < budget.budget_bytes;
  const std::string smaller_model = "a smaller or more quantized model";
  fail(ErrorCode::out_of_memory,
       "the model needs {:.0f} MB on {} (weights {:.0f}, KV cache {:.0f}, activations {:.0f}, scratch {:.0f}), which "
       "has {:.0f} MB {}: {} bytes too little; take {}",
       megabytes(use.total_bytes()), device.name(), megabytes(use.weights_bytes), megabytes(use.kv_bytes),
       megabytes(use.activation_bytes), megabytes(use.scratch_bytes), megabytes(budget.budget_bytes),
       budget.limited ? "by --memory-limit" : "available", budget.needed_bytes - budget.budget_bytes,
       context_helps ? fmt::format("{}, or {}", less_cache(options), smaller_model)
                     : smaller_model + ", or a smaller batch (--batch-tokens)");
}

}  // namespace minfer::engine
