// `minfer plan MODEL [--parallel N] [--json]`: what a model will take in memory on each device, by purpose, and whether
// it fits, from the file's header alone: nothing is loaded.
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "cli/io.hpp"
#include "cli/model_options.hpp"
#include "cli/usage.hpp"
#include "engine/placement_plan.hpp"
#include "engine/plan.hpp"

namespace minfer::cli {
namespace {

using Json = nlohmann::ordered_json;
using Verdict = engine::Budget::Verdict;

struct Options {
  ModelOptions model;
  bool json = false;
};

// A device that is there, and the model's plan on it.
struct DevicePlan {
  const graph::Backend& device;
  graph::DeviceMemory memory;
  graph::MemoryUse use;
  engine::Budget budget;
  std::vector<engine::LayoutUse> layouts;
  int64_t layers_that_fit;
};

DevicePlan plan_device(const model::Model& model, const graph::Backend& device, const engine::RunnerOptions& runner) {
  const graph::Backend* devices[] = {&device};
  const engine::PartPlan whole = engine::plan_placement(model, devices, runner).parts[0];
  const graph::DeviceMemory memory = device.memory();
  const engine::Budget budget = engine::decide_budget(whole.memory, memory, runner.memory_limit_bytes);
  const int64_t layers =
      budget.verdict == Verdict::too_large ? engine::layers_that_fit(model, device, runner) : model.config().layers;
  return {device, memory, whole.memory, budget, engine::weights_by_layout(model, device, whole), layers};
}

Json device_json(const DevicePlan& plan) {
  Json json;
  json["name"] = plan.device.name();
  json["memory_bytes"] = plan.budget.verdict == Verdict::unknown ? Json() : Json(plan.budget.budget_bytes);
  json["weights_bytes"] = plan.use.weights_bytes;
  json["kv_bytes"] = plan.use.kv_bytes;
  json["activation_bytes"] = plan.use.activation_bytes;
  json["scratch_bytes"] = plan.use.scratch_bytes;
  json["total_bytes"] = plan.use.total_bytes();
  json["fits"] = plan.budget.verdict == Verdict::unknown ? Json() : Json(plan.budget.verdict == Verdict::fits);
  json["layers_that_fit"] = plan.layers_that_fit;
  for (const engine::LayoutUse& layout : plan.layouts) {
    json["layouts"].push_back({{"type", layout.dtype},
                               {"layout", layout.layout},
                               {"tensors", layout.tensors},
                               {"bytes", layout.bytes},
                               {"mapped", !layout.copied}});
  }
  return json;
}

std::string megabytes(int64_t bytes) {
  return fmt::format("{:11.1f} MB", static_cast<double>(bytes) / 1e6);
}

std::string memory_text(const DevicePlan& plan) {
  std::string text;
  if (plan.memory.answer == graph::DeviceMemory::Answer::reported) {
    text = fmt::format("  {:<12} {}, of {:.1f} MB\n", "available", megabytes(plan.memory.available_bytes),
                       static_cast<double>(plan.memory.total_bytes) / 1e6);
  } else {
    text = fmt::format("  {:<12} unknown: {}\n", "available", plan.memory.reason);
  }
  if (plan.budget.limited) text += fmt::format("  {:<12} {}\n", "limit", megabytes(plan.budget.budget_bytes));
  return text;
}

std::string device_text(const DevicePlan& plan, int64_t layers) {
  std::string text = fmt::format("{}: {}\n", plan.device.name(), plan.device.description());
  for (const engine::LayoutUse& layout : plan.layouts) {
    text += fmt::format("    {:<10} {}, {} tensors as {}\n", layout.dtype, megabytes(layout.bytes), layout.tensors,
                        layout.layout);
  }
  const auto line = [&text](std::string_view name, int64_t bytes) {
    text += fmt::format("  {:<12} {}\n", name, megabytes(bytes));
  };
  line("weights", plan.use.weights_bytes);
  line("KV cache", plan.use.kv_bytes);
  line("activations", plan.use.activation_bytes);
  line("scratch", plan.use.scratch_bytes);
  line("total", plan.use.total_bytes());
  text += memory_text(plan);
  const std::string offload =
      plan.layers_that_fit == 0
          ? "no; nor would the embedding with the first layer"
          : fmt::format("no; the first {} of {} layers would, with the embedding", plan.layers_that_fit, layers);
  text += fmt::format("  {:<12} {}\n", "fits",
                      plan.budget.verdict == Verdict::fits        ? "yes"
                      : plan.budget.verdict == Verdict::too_large ? offload
                                                                  : "unknown");
  return text;
}

int run_plan(const Options& options) {
  LoadedModel loaded(options.model);
  const int64_t context = context_tokens(loaded, options.model, kDefaultContext);
  const auto runner_of = [&](const graph::Backend& device) {
    engine::RunnerOptions runner = runner_options(options.model, context, device);
    if (&device == loaded.registry().available().back()) runner.program_bytes = program_bytes(loaded.model.file());
    return runner;
  };
  const engine::RunnerOptions runner = runner_of(loaded.registry().preferred());
  Json json = {{"context", runner.context_tokens}, {"parallel", runner.sequences}, {"devices", Json::array()}};
  std::string text = fmt::format("context {} tokens, {} sequence{}\n", runner.context_tokens, runner.sequences,
                                 runner.sequences == 1 ? "" : "s");
  for (const graph::Registry::Entry& entry : loaded.registry().entries()) {
    if (entry.backend == nullptr) {
      text += fmt::format("{}: unavailable: {}\n", entry.name, entry.unavailable_reason);
      continue;
    }
    const DevicePlan plan = plan_device(loaded.model, *entry.backend, runner_of(*entry.backend));
    json["devices"].push_back(device_json(plan));
    text += device_text(plan, loaded.model.config().layers);
  }
  notice_limits(loaded.model, options.model, runner.context_tokens);
  write_stdout(options.json ? json.dump() + "\n" : text);
  return 0;
}

}  // namespace

std::function<int()> declare_plan(CLI::App& app) {
  auto options = std::make_shared<Options>();
  add_plan_options(app, options->model, fmt::format("the model's own, at most {}", kDefaultContext));
  app.add_option("--parallel", options->model.sequences, "Sequences of that context at once")
      ->type_name("N")
      ->check(whole_number(1, engine::kMaxSequences))
      ->capture_default_str();
  app.add_flag("--json", options->json, "Print {\"context\", \"parallel\", \"devices\": [...]}");
  return [options] { return run_plan(*options); };
}

}  // namespace minfer::cli
