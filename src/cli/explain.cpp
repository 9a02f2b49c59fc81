// The printer behind --explain. See explain.hpp.
// Numbers are those of the plan, made before anything is loaded.
#include "cli/explain.hpp"
#include "cli/io.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <string>
#include <tuple>

#include "graph/placement.hpp"

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

void print_layouts(const model::Model& model, const graph::Backend& device) {
  std::map<std::tuple<std::string, std::string, std::string>, std::pair<int, int64_t>> groups;
  for (const graph::WeightSource& weight : model.weights()) {
    const graph::WeightLayout layout = device.choose_layout(weight.shape, weight.dtype, weight.role);
    auto& [count, bytes] = groups[{std::string(tensor::dtype_info(weight.dtype).name), std::string(layout.name),
                                   std::string(graph::format_name(layout.activation_format))}];
    ++count;
    bytes += layout.bytes;
  }
  for (const auto& [key, value] : groups) {
    const auto& [dtype, layout, activation] = key;
    say("weights {:<6} -> {:<8} {:4} tensors {:9.1f} MB, activations {}\n", dtype, layout, value.first,
        megabytes(value.second), activation);
  }
}

void print_placement(const model::Model& model, const graph::Backend& device, bool fuse) {
  const graph::Graph graph = engine::device_graph(model, device, {1, 1}, fuse);
  const graph::Backend* devices[] = {&device};
  const auto placement = graph::place(graph, devices);
  std::map<std::string, int> counts;
  for (const graph::Node& node : graph.nodes) ++counts[std::string(graph::op_name(node.op))];
  std::string ops;
  for (const auto& [op, count] : counts) ops += fmt::format(" {}x{}", op, count);
  say("placement: {} nodes of a decode step on {}:{}\n", placement.size(), device.name(), ops);
}

}  // namespace

void print_explanation(const graph::Registry& registry, const model::Model& model, const graph::Backend& device,
                       const engine::RunnerOptions& options) {
  print_devices(registry);
  const model::Config& config = model.config();
  say("model {} ({}): {} layers, width {}, {} heads, {} KV heads, vocabulary {}\n", printable(config.name),
      config.architecture, config.layers, config.width, config.heads, config.kv_heads, config.vocabulary);
  print_layouts(model, device);
  print_placement(model, device, options.fuse);
  const graph::MemoryUse use = engine::plan_memory_use(model, device, options);
  say("memory: weights {:.1f} MB, KV cache {:.1f} MB for {} tokens, activations {:.1f} MB, scratch {:.1f} MB, in all "
      "{:.1f} MB\n",
      megabytes(use.weights_bytes), megabytes(use.kv_bytes), options.context_tokens, megabytes(use.activation_bytes),
      megabytes(use.scratch_bytes), megabytes(use.total_bytes()));
}

}  // namespace minfer::cli
