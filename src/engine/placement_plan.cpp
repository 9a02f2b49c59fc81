// Planning of parts. See placement_plan.hpp.
#include "engine/placement_plan.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <set>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "engine/plan.hpp"
#include "graph/passes.hpp"
#include "graph/placement.hpp"

namespace minfer::engine {
namespace {

// The uses that a part makes of the model's weights.
std::vector<graph::WeightRole> roles_in(const graph::Graph& graph, std::span<const graph::WeightSource> sources) {
  std::vector<bool> gathered(sources.size(), false), used(sources.size(), false);
  for (const graph::Node& node : graph.nodes) {
    auto& uses = node.op == graph::Op::embed ? gathered : used;
    for (const graph::WeightId id : node.weights) {
      if (id != graph::kNoWeight) uses[static_cast<size_t>(id)] = true;
    }
  }
  std::vector<graph::WeightRole> roles;
  for (size_t i = 0; i < sources.size(); ++i) {
    if (!gathered[i] && !used[i]) {
      roles.push_back(graph::WeightRole::elsewhere);
    } else if (gathered[i]) {
      roles.push_back(used[i] ? graph::WeightRole::tied_embedding : graph::WeightRole::embedding);
    } else {
      roles.push_back(sources[i].role == graph::WeightRole::vector ? graph::WeightRole::vector
                                                                   : graph::WeightRole::matrix);
    }
  }
  return roles;
}

graph::KvSpec with_layers(graph::KvSpec spec, int64_t first, int64_t layers) {
  for (graph::KvGroup& group : spec.groups) {
    std::erase_if(group.layers, [&](int32_t layer) { return layer < first || layer >= first + layers; });
  }
  return spec;
}

// The model's graph cut where parts begin.
std::vector<graph::Part> cut(const model::Model& model, const graph::StepShape& shape, int64_t context,
                             std::span<const int64_t> first_layers) {
  const graph::Graph graph = model.build_graph(shape, context);
  const auto placed = graph::place(graph, model.weight_shapes(), first_layers);
  return graph::split(graph, model.weight_shapes(), placed, first_layers.size());
}

graph::Graph for_device(const model::Model& model, const graph::Backend& device, const graph::Graph& graph, bool fuse) {
  const graph::DeviceTraits traits{
      [&](graph::Op op) { return device.has_op(op); },
      [&](graph::WeightId id, int64_t rows) {
        const graph::WeightSource& weight = model.weights()[static_cast<size_t>(id)];
        return device.activation_format(weight.dtype, weight.shape.experts, rows);
      },
      [&](const graph::Graph& g, const graph::Node& node) { return !device.unsupported_reason(g, node); }};
  return graph::optimize(graph, model.weight_shapes(), traits, fuse);
}

std::vector<Reader> readers_of(const graph::Graph& graph, const model::Model& model) {
  std::set<Reader> readers;
  for (const graph::Node& node : graph.nodes) {
    if (node.op != graph::Op::linear && node.op != graph::Op::expert_linear) continue;
    const graph::WeightSource& weight = model.weights()[static_cast<size_t>(node.weights[0])];
    const graph::Rows rows = graph.values[static_cast<size_t>(node.inputs[0])].type.rows;
    readers.insert({weight.dtype, weight.shape.experts, rows});
  }
  return {readers.begin(), readers.end()};
}

bool takes_norm(const graph::Backend& device, graph::Rows rows, const graph::StepShape& shape) {
  if (!device.has_op(graph::Op::norm_linear)) return false;
  graph::Graph lone{};
  lone.shape = shape;
  lone.values.assign(2, {{graph::Format::f32, rows, 1}, {}});
  const graph::WeightId none = graph::kNoWeight;
  const graph::Node node{graph::Op::norm_linear, {0}, {none, none, none}, {1}, graph::NormLinearAttributes{}};
  return !device.unsupported_reason(lone, node);
}

std::vector<ReaderTraits> traits_of(const PartPlan& part, const graph::Backend& device, const graph::StepShape& shape) {
  std::vector<ReaderTraits> traits;
  for (const auto& [dtype, experts, rows] : part.readers) {
    const graph::Format format = device.activation_format(dtype, experts, graph::row_count(rows, shape));
    traits.push_back({format, takes_norm(device, rows, shape)});
  }
  return traits;
}

// The largest shape of each regime, the largest of all first.
std::vector<graph::StepShape> regime_shapes(const PartPlan& part, const graph::Backend& device,
                                            const RunnerOptions& options) {
  std::set<graph::StepShape> buckets;
  for (int64_t tokens = 1; tokens <= options.batch_tokens;) {
    for (int64_t outputs = 1; outputs <= std::min(tokens, options.outputs); outputs *= 2) {
      buckets.insert(graph::bucket_shape(tokens, outputs, options.batch_tokens));
    }
    buckets.insert(graph::bucket_shape(tokens, std::min(tokens, options.outputs), options.batch_tokens));
    tokens = buckets.rbegin()->tokens + 1;
  }
  std::set<std::vector<ReaderTraits>> seen;
  std::vector<graph::StepShape> shapes;
  for (auto shape = buckets.rbegin(); shape != buckets.rend(); ++shape) {
    if (seen.insert(traits_of(part, device, *shape)).second) shapes.push_back(*shape);
  }
  return shapes;
}

void add_regime(PartPlan& part, const graph::Backend& device, const graph::Graph& graph) {
  graph::check_supported(graph, device);
  const auto bytes = [&](const graph::ValueType& type, int64_t rows) { return device.value_bytes(type, rows); };
  const bool hidden = graph.shape.kind == graph::StepKind::hidden;
  part.regimes.push_back({traits_of(part, device, graph.shape), hidden, graph::plan_memory(graph, bytes)});
  graph::MemoryUse& use = part.memory;
  use.activation_bytes = std::max(use.activation_bytes, part.regimes.back().largest.arena_bytes);
  part.kernel_scratch_bytes = std::max(part.kernel_scratch_bytes, device.scratch_bytes(graph, part.kv));
}

// A range of layers on a device, whatever it takes. Errors: unsupported.
PartPlan plan_part(const model::Model& model, Devices devices, size_t index, int64_t first, int64_t layers,
                   const RunnerOptions& options) {
  const graph::Backend& device = *devices[index];
  std::vector<int64_t> begins = {0};
  if (first > 0) begins.push_back(first);
  if (first + layers < model.config().layers) begins.push_back(first + layers);
  const graph::Part whole =
      std::move(cut(model, largest_shape(options), options.context_tokens, begins)[first > 0 ? 1 : 0]);

  PartPlan part{index, first, layers, roles_in(whole.graph, model.weights()), {}, {}, {}, {}, 0, {}};
  for (size_t i = 0; i < part.roles.size(); ++i) {
    const graph::WeightSource& source = model.weights()[i];
    const bool elsewhere = part.roles[i] == graph::WeightRole::elsewhere;
    part.layouts.push_back(elsewhere ? graph::WeightLayout{"elsewhere", 0, false}
                                     : device.choose_layout(source.shape, source.dtype, part.roles[i]));
    part.memory.weights_bytes = checked_add(part.memory.weights_bytes, part.layouts.back().bytes, "weights");
  }
  part.kv = with_layers(kv_spec(model, options), first, layers);
  device.check_kv(part.kv);
  part.memory.kv_bytes = planned_kv_bytes(device, part.kv);

  part.readers = readers_of(whole.graph, model);
  for (graph::StepShape shape : regime_shapes(part, device, options)) {
    for (const graph::StepKind kind : {graph::StepKind::mixed, graph::StepKind::hidden}) {
      shape.kind = kind;
      const graph::Part cut_part = std::move(cut(model, shape, options.context_tokens, begins)[first > 0 ? 1 : 0]);
      add_regime(part, device, for_device(model, device, cut_part.graph, options.fuse));
    }
  }
  const bool is_last = index + 1 == devices.size();
  part.memory.scratch_bytes = part.kernel_scratch_bytes + (is_last ? options.program_bytes : 0);
  return part;
}

// What a part may take on a device; all there is where that is not known.
int64_t budget_bytes(const graph::Backend& device, std::optional<int64_t> limit) {
  const Budget budget = decide_budget({}, device.memory(), limit);
  return budget.verdict == Budget::Verdict::unknown ? std::numeric_limits<int64_t>::max() : budget.budget_bytes;
}

// Weights and cache of each of the part's layers.
std::vector<int64_t> layer_bytes(const model::Model& model, const graph::Backend& device, const PartPlan& part) {
  std::vector<int64_t> bytes;
  for (int64_t layer = 0; layer < part.layers; ++layer) {
    bytes.push_back(device.kv_bytes(with_layers(part.kv, part.first_layer + layer, 1)));
  }
  for (size_t i = 0; i < part.layouts.size(); ++i) {
    const int32_t layer = model.weight_shapes()[i].layer;
    if (layer != graph::kNoLayer && part.layouts[i].bytes > 0) {
      bytes[static_cast<size_t>(layer - part.first_layer)] += part.layouts[i].bytes;
    }
  }
  return bytes;
}

// The largest part from layer `first` on that a device runs and holds; none, with the reason, where it is no layer.
std::optional<PartPlan> largest_part(const model::Model& model, Devices devices, size_t index, int64_t first,
                                     const RunnerOptions& options, std::string& reason) {
  const graph::Backend& device = *devices[index];
  const int64_t budget = budget_bytes(device, options.memory_limit_bytes);
  const int64_t rest = model.config().layers - first;
  reason = fmt::format("{:.0f} MB available hold no layer", static_cast<double>(budget) / 1e6);
  // All that is left, output head included, or else some layers without the head.
  for (const int64_t layers : {rest, rest - 1}) {
    if (layers == 0) break;
    try {
      PartPlan part = plan_part(model, devices, index, first, layers, options);
      if (part.memory.total_bytes() <= budget) return part;
      if (layers == rest) continue;
      const auto bytes = layer_bytes(model, device, part);
      const int64_t beside = part.memory.total_bytes() - std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
      const int64_t fitting = graph::largest_prefix(bytes, beside, budget);
      if (fitting > 0) return plan_part(model, devices, index, first, fitting, options);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unsupported) throw;
      reason = error.what();
    }
  }
  return std::nullopt;
}

PlacementPlan plan_as_told(const model::Model& model, Devices devices, const RunnerOptions& options) {
  const auto& counts = options.device_layers;
  const int64_t layers = model.config().layers;
  const bool negative = std::any_of(counts.begin(), counts.end(), [&](int64_t n) { return n < 0 || n > layers; });
  if (counts.size() != devices.size() || negative ||
      std::accumulate(counts.begin(), counts.end(), int64_t{0}) != layers) {
    fail(ErrorCode::invalid_input, "layers by device are {}; expected {} counts that sum to the model's {} layers",
         fmt::join(counts, ","), devices.size(), layers);
  }
  PlacementPlan plan;
  int64_t first = 0;
  for (size_t d = 0; d < devices.size(); ++d) {
    if (counts[d] == 0) continue;
    plan.parts.push_back(plan_part(model, devices, d, first, counts[d], options));
    first += counts[d];
  }
  return plan;
}

}  // namespace

graph::StepShape largest_shape(const RunnerOptions& options) {
  return graph::bucket_shape(options.batch_tokens, std::min(options.batch_tokens, options.outputs),
                             options.batch_tokens);
}

PlacementPlan plan_placement(const model::Model& model, Devices devices, const RunnerOptions& given) {
  const RunnerOptions options = options_for(model.config(), given);
  check_options(options);
  check(!devices.empty(), "a placement needs a device");
  if (!options.device_layers.empty()) return plan_as_told(model, devices, options);
  PlacementPlan plan;
  int64_t first = 0;
  const int64_t layers = model.config().layers;
  for (size_t d = 0; d + 1 < devices.size() && first < layers; ++d) {
    std::string reason;
    if (auto part = largest_part(model, devices, d, first, options, reason)) {
      first += part->layers;
      plan.parts.push_back(std::move(*part));
    } else {
      plan.unused.push_back(fmt::format("{}: {}", devices[d]->name(), reason));
    }
  }
  if (first < layers) {
    plan.parts.push_back(plan_part(model, devices, devices.size() - 1, first, layers - first, options));
  }
  return plan;
}

void check_budgets(const PlacementPlan& plan, Devices devices, const RunnerOptions& options) {
  const auto limit = options.memory_limit_bytes;
  if (plan.parts.size() == 1) return check_budget(plan.parts[0].memory, *devices[plan.parts[0].device], options);
  bool fits = true;
  std::string numbers;
  for (const PartPlan& part : plan.parts) {
    const graph::Backend& device = *devices[part.device];
    const int64_t lacking = part.memory.total_bytes() - budget_bytes(device, limit);
    fits = fits && lacking <= 0;
    numbers += fmt::format("; {} needs {:.1f} MB for layers {} to {} and has {:.1f} MB available", device.name(),
                           static_cast<double>(part.memory.total_bytes()) / 1e6, part.first_layer,
                           part.first_layer + part.layers - 1, static_cast<double>(budget_bytes(device, limit)) / 1e6);
    if (lacking > 0) numbers += fmt::format(", {} bytes too little", lacking);
  }
  if (fits) return;
  fail(ErrorCode::out_of_memory, "the model does not fit its devices{}; take {}, or a smaller or more quantized model",
       numbers, less_cache(options));
}

int64_t layers_that_fit(const model::Model& model, const graph::Backend& device, const RunnerOptions& options) {
  const graph::Backend* devices[] = {&device};
  std::string reason;
  const auto part = largest_part(model, devices, 0, 0, options, reason);
  return part ? part->layers : 0;
}

const graph::MemoryPlan& largest_plan(const PartPlan& part, const graph::Backend& device,
                                      const graph::StepShape& shape) {
  const auto traits = traits_of(part, device, shape);
  const bool hidden = shape.kind == graph::StepKind::hidden;
  const auto regime = std::find_if(part.regimes.begin(), part.regimes.end(),
                                   [&](const StepRegime& r) { return r.traits == traits && r.hidden == hidden; });
  check(regime != part.regimes.end(), "a step shape of no regime");
  return regime->largest;
}

std::vector<graph::Part> part_graphs(const model::Model& model, Devices devices, std::span<const PartPlan> parts,
                                     const graph::StepShape& shape, bool fuse) {
  std::vector<int64_t> first_layers;
  for (const PartPlan& part : parts) first_layers.push_back(part.first_layer);
  std::vector<graph::Part> graphs = cut(model, shape, parts[0].kv.sequence_tokens, first_layers);
  for (size_t p = 0; p < graphs.size(); ++p) {
    graphs[p].graph = for_device(model, *devices[parts[p].device], graphs[p].graph, fuse);
  }
  return graphs;
}

}  // namespace minfer::engine
