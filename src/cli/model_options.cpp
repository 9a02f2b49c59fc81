// Loading a model for a command. See model_options.hpp.
#include "cli/model_options.hpp"

#include <algorithm>
#include <filesystem>

#include "base/options.hpp"
#include "cli/command.hpp"
#include "cli/explain.hpp"
#include "cli/interrupt.hpp"
#include "cli/io.hpp"
#include "devices.hpp"
#include "graph/export.hpp"

namespace minfer::cli {

void add_model_options(CLI::App& app, ModelOptions& options, bool model_required) {
  auto* model = app.add_option("model", options.model, "A GGUF file, or the name of a model in the cache");
  if (model_required) model->required();
  app.add_option("-c,--ctx", options.context, "Tokens of context (0: the model's own, up to a default)")
      ->check(CLI::Range(int64_t{0}, engine::kMaxContextTokens));
  app.add_option("-t,--threads", options.threads, "CPU threads (0: one a physical core)")->check(CLI::Range(0, 1024));
  app.add_option("--batch-tokens", options.batch, "Most tokens of one step")
      ->check(CLI::Range(int64_t{1}, engine::kMaxBatchTokens));
  app.add_option("--kv-type", options.kv_type, "KV cache format: f16, f32, or k=TYPE,v=TYPE");
  app.add_flag("--explain", options.explain, "Print devices, instruction set, placement and layouts to stderr");
  app.add_option("--dump-graph", options.dump_graph, "Write the graph of a decode step to FILE (.dot or .json)");
  app.add_flag("--no-fusion", options.no_fusion, "Run the graph unfused, to compare");
}

std::string find_model(const std::string& name_or_path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::exists(name_or_path, ignored)) return name_or_path;
  const fs::path cached = fs::path(environment_options().model_dir) / (name_or_path + ".gguf");
  if (name_or_path.find('/') == std::string::npos && fs::exists(cached, ignored)) return cached.string();
  fail(ErrorCode::io, "no model '{}': neither that file nor {} exists; `minfer list` shows the models in the cache",
       name_or_path, cached.string());
}

namespace {

graph::KvFormat kv_format(std::string_view name, std::string_view option) {
  if (name == "f32") return graph::KvFormat::f32;
  if (name == "f16") return graph::KvFormat::f16;
  throw UsageError(fmt::format("--kv-type {}: '{}' is not a KV cache format; expected f16 or f32", option, name));
}

// "f16", or "k=f16,v=f32" in either order.
void parse_kv_type(const std::string& text, engine::RunnerOptions& options) {
  if (text.find('=') == std::string::npos) {
    options.key_format = options.value_format = kv_format(text, text);
    return;
  }
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    if (!part.starts_with("k=") && !part.starts_with("v=")) {
      throw UsageError(fmt::format("--kv-type {}: expected TYPE, or k=TYPE,v=TYPE", text));
    }
    (part[0] == 'k' ? options.key_format : options.value_format) = kv_format(part.substr(2), text);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
}

void dump_graph(const LoadedModel& loaded, const ModelOptions& options) {
  const graph::Graph graph =
      engine::device_graph(loaded.model, loaded.registry.preferred(), {1, 1}, !options.no_fusion);
  const auto shapes = loaded.model.weight_shapes();
  const std::string extension = std::filesystem::path(options.dump_graph).extension().string();
  if (extension != ".dot" && extension != ".json") {
    throw UsageError(fmt::format("--dump-graph {}: expected a file name ending in .dot or .json", options.dump_graph));
  }
  write_file(options.dump_graph, extension == ".dot" ? graph::to_dot(graph, shapes) : graph::to_json(graph, shapes));
}

}  // namespace

LoadedModel::LoadedModel(gguf::File file, const graph::BackendOptions& options)
    : registry(device_factories(), options), model(std::move(file)) {}

engine::RunnerOptions runner_options(const ModelOptions& options, int64_t context_tokens) {
  engine::RunnerOptions runner;
  runner.context_tokens = context_tokens;
  runner.batch_tokens = std::min(options.batch, context_tokens);
  runner.fuse = !options.no_fusion;
  parse_kv_type(options.kv_type, runner);
  return runner;
}

graph::BackendOptions backend_options(const ModelOptions& options) {
  return {options.threads, environment_options().force_isa};
}

std::unique_ptr<LoadedModel> load_model(gguf::File file, const ModelOptions& options, int64_t default_context) {
  auto loaded = std::make_unique<LoadedModel>(std::move(file), backend_options(options));
  const int64_t own = loaded->model.config().context_length;
  const int64_t context = options.context != 0 ? options.context : std::min(own, default_context);
  const engine::RunnerOptions runner = runner_options(options, context);
  graph::Backend& device = loaded->registry.preferred();
  if (options.explain) print_explanation(loaded->registry, loaded->model, device, runner);
  if (!options.dump_graph.empty()) dump_graph(*loaded, options);
  ProgressLine progress("loading");
  loaded->runner = std::make_unique<engine::Runner>(loaded->model, device, runner, [&](int64_t done, int64_t total) {
    progress.update(done, total);
    if (interrupted()) fail(ErrorCode::cancelled, "cancelled while loading");
  });
  return loaded;
}

}  // namespace minfer::cli
