// The options that every command which loads a model shares, and the loading: name or path to file, devices, runner.
#pragma once

#include <CLI/CLI.hpp>

#include <memory>
#include <optional>
#include <string>

#include "engine/runner.hpp"
#include "graph/registry.hpp"
#include "model/model.hpp"

namespace minfer::cli {

struct ModelOptions {
  std::string model;
  int64_t context = 0;  // 0: the command's own default
  int threads = 0;      // 0: one a physical core
  int64_t batch = 512;
  std::string kv_type = "f16";
  bool explain = false;
  std::string dump_graph;
  bool no_fusion = false;
};

// Declares MODEL, -c, -t, --batch-tokens, --kv-type, --explain, --dump-graph, --no-fusion.
void add_model_options(CLI::App& app, ModelOptions& options, bool model_required = true);

// A path, or a name in the model cache ("smollm2-135m" is DIR/smollm2-135m.gguf). Errors: io, naming both places.
std::string find_model(const std::string& name_or_path);

// A model ready to run. Members refer to each other, so it does not move.
struct LoadedModel {
  graph::Registry registry;
  model::Model model;
  std::unique_ptr<engine::Runner> runner;

  LoadedModel(gguf::File file, const graph::BackendOptions& backend_options);
};

engine::RunnerOptions runner_options(const ModelOptions& options, int64_t context_tokens);
graph::BackendOptions backend_options(const ModelOptions& options);

// Opens the file, makes the devices, plans, loads with a progress line; prints the plan with --explain and writes the
// graph with --dump-graph. `default_context` caps the model's own context length where -c is not given.
std::unique_ptr<LoadedModel> load_model(gguf::File file, const ModelOptions& options, int64_t default_context);

}  // namespace minfer::cli
