// The options that every command which loads a model shares, and the loading: name or path to file, devices, runner.
// A model comes as a path, or as a name in the cache.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/runner.hpp"
#include "graph/registry.hpp"
#include "model/model.hpp"

namespace minfer::cli {

struct ModelOptions {
  std::string model;
  int64_t context = 0;    // 0: the command's own default
  int64_t sequences = 1;  // that the KV cache holds, each of the context's length; set by the command
  int64_t outputs = 0;    // rows of logits a step; 0: one a sequence; set by the command
  int threads = 0;        // 0: one a physical core
  int64_t batch = 0;      // 0: what the device prefers
  std::string gpu_layers = "auto";
  std::string kv_type = "f16";
  bool explain = false;
  std::string dump_graph;
  bool no_fusion = false;
  bool has_text = false;                // a tokenizer and samplers go with it; set by the command
  std::optional<int64_t> memory_limit;  // bytes; without, what the device has
  bool op_timing = false;
  bool measures_limits = false;  // those of the devices, as op_timing does; set by the command
  bool strict = false;
  std::string pre;                    // pre-tokenizer rule to use instead of the file's; empty: the file's
  std::vector<std::string> adapters;  // FILE[:SCALE]
};

inline constexpr int64_t kDefaultContext = 4096;  // tokens, where the model has no fewer
inline constexpr const char* kModelText = "A GGUF file, or the name of a model in the cache";

// Declares MODEL, --lora, -c, -t, --batch-tokens, --kv-type, --memory-limit, --strict: what memory depends on.
// `default_context` is what the help says of -c 0.
void add_plan_options(CLI::App& app, ModelOptions& options, const std::string& default_context,
                      bool model_required = true);
// These, --gpu-layers, --explain, --dump-graph, --no-fusion and --op-timing.
void add_model_options(CLI::App& app, ModelOptions& options, const std::string& default_context,
                       bool model_required = true);

inline constexpr const char* kNoCacheText =
    "there is no folder of models to look in: neither MINFER_MODEL_DIR nor HOME is set";

// Declares --pre NAME. Errors of a later load name the rules that there are.
void add_pre_option(CLI::App& app, std::string& pre);

// A path, or a name in the model cache ("smollm2-135m" is DIR/smollm2-135m.gguf). Errors: io, naming the places;
// UsageError for an empty name.
std::string find_model(const std::string& name_or_path);

// A model with the devices of this process: made from the file's header, then loaded. Opening a card takes a quarter of
// a second: a thread of its own does it, while the file's header and vocabulary are read. Members refer to each other,
// so it does not move.
class LoadedModel {
  std::future<graph::Registry> opening_;
  std::optional<graph::Registry> registry_;

 public:
  model::Model model;
  std::unique_ptr<engine::Runner> runner;             // null until load_weights
  std::map<std::string, graph::DeviceLimits> limits;  // by device, where they were measured

  // `open` opens the model's file. Errors: those of the file; UsageError for a wrong option.
  LoadedModel(const std::function<gguf::File()>& open, const ModelOptions& options);
  // The model of options.model.
  explicit LoadedModel(const ModelOptions& options);
  // Waits until they are open. Errors: UsageError where MINFER_FORCE_ISA can't be had.
  graph::Registry& registry();
};

// --gpu-layers as the model allows. Errors: UsageError.
void check_gpu_layers(const model::Model& model, const ModelOptions& options);

// The tokens of context to run with: -c, or the model's own up to `default_context`.
int64_t context_tokens(const LoadedModel& loaded, const ModelOptions& options, int64_t default_context);

// What the program takes in the memory of the CPU beside the model: the vocabulary's tables, most of all.
int64_t program_bytes(const gguf::File& file);

// For a model on `device`, or on it before others. Errors: UsageError, naming the option.
engine::RunnerOptions runner_options(const ModelOptions& options, int64_t context, const graph::Backend& device);

// A line on stderr where `context` is beyond what the model was trained for, and where --batch-tokens is beyond it.
void notice_limits(const model::Model& model, const ModelOptions& options, int64_t context);

// Plans and loads, with a progress line and notice_limits; before that prints the plan with --explain and writes
// the graph with --dump-graph; with --op-timing the steps that follow are timed. The limits of devices are measured
// before the model takes its memory, those that `loaded` has already left out. `on_progress` hears of it too: 0 to 1.
void load_weights(LoadedModel& loaded, const ModelOptions& options, int64_t context,
                  const std::function<void(double)>& on_progress = {});

}  // namespace minfer::cli
