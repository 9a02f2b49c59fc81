// The printer behind --explain. See explain.hpp.
// Numbers are those of the plan, made before anything is loaded.
#include "cli/explain.hpp"
#include "cli/io.hpp"

#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "engine/plan.hpp"
#include "graph/split.hpp"

namespace minfer::cli {
namespace {

double megabytes(int64_t bytes) {
  return static_cast<double>(bytes) / 1e6;
}

void print_devices(const graph::Registry& registry) {
  for (const auto& entry : registry.entries()) {
    say("device {}: {}\n", entry.name,
        entry.backend != nullptr ? entry.backend->description() : "unavailable: " + entry.unavailable_reason);
  }
}

void print_layouts(const model::Model& model, const graph::Backend& device, const engine::PartPlan& part) {
  for (const engine::LayoutUse& use : engine::weights_by_layout(model, device, part)) {
    say("weights {:<6} -> {:<8} {:4} tensors {:9.1f} MB, activations {}\n", use.dtype, use.layout, use.tensors,
        megabytes(use.bytes), graph::format_name(use.activation_format));
  }
}

void print_nodes(const graph::Graph& graph, const engine::PartPlan& part, const graph::Backend& device) {
  std::map<std::string, int> counts;
  for (const graph::Node& node : graph.nodes) ++counts[std::string(graph::op_name(node.op))];
  std::string ops;
  for (const auto& [op, count] : counts) ops += fmt::format(" {}x{}", op, count);
  say("placement: layers {} to {}, {} nodes of a decode step, on {}:{}\n", part.first_layer,
      part.first_layer + part.layers - 1, graph.nodes.size(), device.name(), ops);
}

void print_memory(const graph::MemoryUse& use, const graph::Backend& device, int64_t context_tokens) {
  say("memory: weights {:.1f} MB, KV cache {:.1f} MB for {} tokens, activations {:.1f} MB, scratch {:.1f} MB, in all "
      "{:.1f} MB on {}\n",
      megabytes(use.weights_bytes), megabytes(use.kv_bytes), context_tokens, megabytes(use.activation_bytes),
      megabytes(use.scratch_bytes), megabytes(use.total_bytes()), device.name());
}

}  // namespace

void print_explanation(const graph::Registry& registry, const model::Model& model,
                       const engine::RunnerOptions& options) {
  print_devices(registry);
  const model::Config& config = model.config();
  say("model {} ({}): {} layers, width {}, {} heads, {} KV heads, vocabulary {}\n", printable(config.name),
      config.architecture, config.layers, config.width, config.heads, config.kv_heads, config.vocabulary);
  const std::vector<graph::Backend*> devices = registry.available();
  const engine::PlacementPlan plan = engine::plan_placement(model, devices, options);
  for (const std::string& reason : plan.unused) say("placement: no layers on {}\n", reason);
  const graph::StepShape decode{1, 1, graph::StepKind::decode};
  const auto graphs = engine::part_graphs(model, devices, plan.parts, decode, options.fuse);
  int64_t copied_bytes = 0;
  for (size_t p = 0; p < graphs.size(); ++p) {
    const graph::Backend& device = *devices[plan.parts[p].device];
    print_layouts(model, device, plan.parts[p]);
    print_nodes(graphs[p].graph, plan.parts[p], device);
    print_memory(plan.parts[p].memory, device, options.context_tokens);
    copied_bytes += graph::import_bytes(graphs[p].graph, decode);
  }
  say("splits: {}, {} bytes copied between devices in a step of one token\n", graphs.size() - 1, copied_bytes);
}

}  // namespace minfer::cli
