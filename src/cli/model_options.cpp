// Loading a model for a command. See model_options.hpp.
// Everything that can be wrong with the options is found before weights are loaded.
#include "cli/model_options.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>

#include "base/options.hpp"
#include "cli/command.hpp"
#include "cli/explain.hpp"
#include "cli/interrupt.hpp"
#include "cli/io.hpp"
#include "cli/op_timing.hpp"
#include "cli/usage.hpp"
#include "devices.hpp"
#include "graph/export.hpp"
#include "graph/kv.hpp"

namespace minfer::cli {

namespace {

constexpr int64_t kMaxThreads = 1024;

}  // namespace

void add_plan_options(CLI::App& app, ModelOptions& options, const std::string& default_context, bool model_required) {
  app.add_option("MODEL", options.model, kModelText)->required(model_required);
  const auto add = [&app](const std::string& flags, auto& value, const std::string& text, const std::string& unit) {
    return app.add_option(flags, value, text)->type_name(unit)->group("Engine");
  };
  app.add_option("--lora", options.adapters, "A LoRA adapter (GGUF), and how much of it (default 1)")
      ->type_name("FILE[:SCALE]")
      ->group("Engine")
      ->allow_extra_args(false);
  add("-c,--ctx", options.context, "Context in tokens; 0: " + default_context, "N")
      ->check(whole_number(0, engine::kMaxContextTokens));
  add("-t,--threads", options.threads, "CPU threads; 0: one a physical core", "N")->check(whole_number(0, kMaxThreads));
  add("--batch-tokens", options.batch, "Most tokens of one step; 0: what fills the device", "N")
      ->check(whole_number(0, engine::kMaxBatchTokens));
  add("--kv-type", options.kv_type, "KV cache: f32, f16, bf16, q8_0, or k=TYPE,v=TYPE", "TYPE")->capture_default_str();
  app.add_option_function<std::string>(
         "--memory-limit", [&options](const std::string& text) { options.memory_limit = parse_bytes(text); },
         "Most memory to take, such as 4G or 512MiB")
      ->type_name("BYTES")
      ->group("Engine")
      ->check(byte_size());
  app.add_flag("--strict", options.strict, "No result depends on the batch, to the bit (never on a CPU); slower")
      ->group("Engine");
}

void add_model_options(CLI::App& app, ModelOptions& options, const std::string& default_context, bool model_required) {
  add_plan_options(app, options, default_context, model_required);
  app.add_option("--gpu-layers", options.gpu_layers, "Layers on the GPU, from the first on: auto, or N")
      ->type_name("N")
      ->capture_default_str()
      ->group("Engine");
  app.add_flag("--explain", options.explain, "Say which device, kernels and layouts run")->group("Engine");
  app.add_option("--dump-graph", options.dump_graph, "Write a decode step's graph (.dot, .json)")
      ->type_name("FILE")
      ->group("Engine");
  app.add_flag("--no-fusion", options.no_fusion, "Run the graph unfused, to compare")->group("Engine");
  app.add_flag("--op-timing", options.op_timing, "Say at the end where the time went, op by op")->group("Engine");
}

void add_pre_option(CLI::App& app, std::string& pre) {
  app.add_option("--pre", pre, "Pre-tokenizer rule to use instead of the file's, such as llama-bpe")
      ->type_name("NAME")
      ->group("Engine");
}

std::string find_model(const std::string& name_or_path) {
  namespace fs = std::filesystem;
  if (name_or_path.empty()) throw UsageError("MODEL is empty; give a GGUF file, or the name of a model in the cache");
  std::error_code error;
  if (fs::exists(name_or_path, error)) return name_or_path;
  if (error) fail(ErrorCode::io, "no model '{}': {}", name_or_path, error.message());
  if (name_or_path.find('/') != std::string::npos) fail(ErrorCode::io, "no model '{}': no such file", name_or_path);
  const std::string& folder = environment_options().model_dir;
  if (folder.empty()) fail(ErrorCode::io, "no model '{}': no such file, and {}", name_or_path, kNoCacheText);
  const fs::path cached = fs::path(folder) / (name_or_path.ends_with(".gguf") ? name_or_path : name_or_path + ".gguf");
  if (fs::exists(cached, error)) return cached.string();
  fail(ErrorCode::io, "no model '{}': neither that file nor {} exists; `minfer list` shows the models in the cache",
       name_or_path, cached.string());
}

namespace {

graph::KvFormat kv_format(std::string_view name, std::string_view option) {
  const auto found = std::find(graph::kKvFormatNames.begin(), graph::kKvFormatNames.end(), name);
  if (found != graph::kKvFormatNames.end()) {
    return static_cast<graph::KvFormat>(found - graph::kKvFormatNames.begin());
  }
  throw UsageError(fmt::format("--kv-type {}: '{}' is not a KV cache format; expected one of {}", option, name,
                               fmt::join(graph::kKvFormatNames, ", ")));
}

// "f16", or "k=f16,v=f32" in either order.
void parse_kv_type(const std::string& text, engine::RunnerOptions& options) {
  if (text.find('=') == std::string::npos) {
    options.key_format = options.value_format = kv_format(text, text);
    return;
  }
  std::set<char> given;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    if (!part.starts_with("k=") && !part.starts_with("v=")) {
      throw UsageError(fmt::format("--kv-type {}: expected TYPE, or k=TYPE,v=TYPE", text));
    }
    if (!given.insert(part[0]).second) {
      throw UsageError(fmt::format("--kv-type {}: {} is given twice", text, part[0]));
    }
    (part[0] == 'k' ? options.key_format : options.value_format) = kv_format(part.substr(2), text);
  }
}

}  // namespace

int64_t program_bytes(const gguf::File& file) {
  // A few megabytes, and what each token and each merge takes in the tables of tokenizer and sampler: measured, and
  // held to what the program takes by plan_cli_test.py.
  constexpr int64_t kProgramBytes = 3'000'000;
  constexpr int64_t kEntryBytes = 52;
  const auto count = [&file](std::string_view key) {
    const auto strings = file.metadata().find_strings(key);
    return strings ? static_cast<int64_t>(strings->size()) : 0;
  };
  return kProgramBytes + kEntryBytes * (count("tokenizer.ggml.tokens") + count("tokenizer.ggml.merges"));
}

engine::RunnerOptions runner_options(const ModelOptions& options, int64_t context, const graph::Backend& device) {
  engine::RunnerOptions runner;
  runner.context_tokens = context;
  runner.sequences = options.sequences;
  runner.outputs = std::max(options.outputs, options.sequences);
  const int64_t batch =
      options.batch != 0 ? options.batch : std::max(device.preferred_batch_tokens(), options.sequences);
  runner.batch_tokens = std::min(batch, context * options.sequences);
  runner.fuse = !options.no_fusion;
  parse_kv_type(options.kv_type, runner);
  runner.memory_limit_bytes = options.memory_limit;
  return runner;
}

namespace {

std::string graph_extension(const ModelOptions& options) {
  return std::filesystem::path(options.dump_graph).extension().string();
}

// One file; with several devices one a part, "graph.dot" for the first and "graph.1.dot" for the next.
void dump_graph(LoadedModel& loaded, const ModelOptions& options, const engine::RunnerOptions& runner) {
  const std::vector<graph::Backend*> devices = loaded.registry().available();
  const auto plan = engine::plan_placement(loaded.model, devices, runner);
  const auto parts = engine::part_graphs(loaded.model, devices, plan.parts, {1, 1}, runner.fuse);
  const auto shapes = loaded.model.weight_shapes();
  const std::string extension = graph_extension(options);
  for (size_t p = 0; p < parts.size(); ++p) {
    std::filesystem::path path = options.dump_graph;
    if (p > 0) path.replace_extension(fmt::format(".{}{}", p, extension));
    const graph::Graph& graph = parts[p].graph;
    write_file(path.string(), extension == ".dot" ? graph::to_dot(graph, shapes) : graph::to_json(graph, shapes));
  }
}

void check_options(const ModelOptions& options) {
  engine::RunnerOptions runner;
  parse_kv_type(options.kv_type, runner);
  const std::string extension = graph_extension(options);
  if (!options.dump_graph.empty() && extension != ".dot" && extension != ".json") {
    throw UsageError(fmt::format("--dump-graph {}: expected a file name ending in .dot or .json", options.dump_graph));
  }
}

// The number of --gpu-layers; nothing for "auto".
std::optional<int64_t> gpu_layers(const std::string& text, int64_t layers) {
  if (text == "auto") return std::nullopt;
  int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count < 0 || count > layers) {
    throw UsageError(fmt::format("--gpu-layers {}: expected auto, or 0 to the model's {} layers", text, layers));
  }
  return count;
}

// How many leading layers the cards take, the CPU the rest; "auto": as many as they have memory for.
void place_layers(LoadedModel& loaded, const std::string& text, engine::RunnerOptions& runner) {
  const int64_t layers = loaded.model.config().layers;
  const std::optional<int64_t> given = gpu_layers(text, layers);
  if (!given) return;
  const int64_t count = *given;
  std::string reasons;
  for (const graph::Registry::Entry& entry : loaded.registry().entries()) {
    if (entry.backend != nullptr) {
      const bool takes = runner.device_layers.empty() && entry.name != "cpu";
      runner.device_layers.push_back(takes ? count : 0);
    } else {
      reasons += fmt::format("; {}: {}", entry.name, entry.unavailable_reason);
    }
  }
  if (runner.device_layers.size() == 1 && count > 0) {
    throw UsageError(fmt::format("--gpu-layers {}: there is no GPU{}", text, reasons));
  }
  runner.device_layers.back() = runner.device_layers.size() == 1 ? layers : layers - count;
}

// Of the devices that get layers. What it takes is given back before the model is loaded, which has to fit first.
void measure_limits(LoadedModel& loaded, const engine::RunnerOptions& runner) {
  const std::vector<graph::Backend*> devices = loaded.registry().available();
  const auto plan = engine::plan_placement(loaded.model, devices, runner);
  engine::check_budgets(plan, devices, runner);
  for (const engine::PartPlan& part : plan.parts) {
    graph::Backend& device = *devices[part.device];
    if (loaded.limits.contains(device.name())) continue;
    const int64_t taken = device.measuring_bytes();
    if (runner.memory_limit_bytes && *runner.memory_limit_bytes < taken) {
      fail(ErrorCode::out_of_memory,
           "measuring the limits of {} takes {} bytes of memory for a second, more than the {} of --memory-limit",
           device.name(), taken, *runner.memory_limit_bytes);
    }
    loaded.limits[device.name()] = device.measure_limits();
  }
}

// A wrong instruction set is the user's to mend, not a fault of the model.
graph::Registry make_registry(const graph::BackendOptions& options) {
  try {
    return {device_factories(), options};
  } catch (const Error& error) {
    if (options.force_isa.empty()) throw;
    throw UsageError(fmt::format("MINFER_FORCE_ISA: {}", error.what()));
  }
}

std::future<graph::Registry> open_devices(const ModelOptions& options) {
  check_options(options);
  return std::async(make_registry,
                    graph::BackendOptions{options.threads, environment_options().force_isa, options.strict});
}

}  // namespace

namespace {

// FILE, or FILE:SCALE where what follows the last colon is a number.
void add_adapter(model::Model& model, const std::string& text) {
  std::string path = text;
  float scale = 1.0F;
  const size_t colon = text.rfind(':');
  if (colon != std::string::npos && colon + 1 < text.size()) {
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data() + colon + 1, end, scale);
    if (read.ec == std::errc() && read.ptr == end) {
      path = text.substr(0, colon);
    } else {
      scale = 1.0F;
    }
  }
  model.add_adapter(gguf::File(path), scale);
}

}  // namespace

LoadedModel::LoadedModel(const std::function<gguf::File()>& open, const ModelOptions& options)
    : opening_(open_devices(options)), model(open()) {
  for (const std::string& adapter : options.adapters) add_adapter(model, adapter);
}

LoadedModel::LoadedModel(const ModelOptions& options)
    : LoadedModel([path = find_model(options.model)] { return gguf::File(path); }, options) {}

graph::Registry& LoadedModel::registry() {
  if (!registry_) registry_.emplace(opening_.get());
  return *registry_;
}

void check_gpu_layers(const model::Model& model, const ModelOptions& options) {
  gpu_layers(options.gpu_layers, model.config().layers);
}

int64_t context_tokens(const LoadedModel& loaded, const ModelOptions& options, int64_t default_context) {
  return options.context != 0 ? options.context : std::min(loaded.model.config().context_length, default_context);
}

void notice_limits(const model::Model& model, const ModelOptions& options, int64_t context) {
  const int64_t trained = model.config().context_length;
  if (context > trained) {
    say("minfer: the context of {} tokens is larger than the {} that the model was trained for; what lies beyond may "
        "be of poor quality\n",
        context, trained);
  }
  const int64_t most = context * options.sequences;
  if (options.batch > most) {
    say("minfer: --batch-tokens {}: no step has more than the {} tokens of the context\n", options.batch, most);
  }
}

void load_weights(LoadedModel& loaded, const ModelOptions& options, int64_t context,
                  const std::function<void(double)>& on_progress) {
  engine::RunnerOptions runner = runner_options(options, context, loaded.registry().preferred());
  if (options.has_text) runner.program_bytes = program_bytes(loaded.model.file());
  place_layers(loaded, options.gpu_layers, runner);
  const std::vector<graph::Backend*> devices = loaded.registry().available();
  if (options.explain) print_explanation(loaded.registry(), loaded.model, runner);
  if (!options.dump_graph.empty()) dump_graph(loaded, options, runner);
  if (options.op_timing || options.measures_limits) measure_limits(loaded, runner);
  ProgressLine progress("loading");
  loaded.runner = std::make_unique<engine::Runner>(loaded.model, devices, runner, [&](int64_t done, int64_t total) {
    progress.update(done, total);
    if (on_progress && total > 0) on_progress(static_cast<double>(done) / static_cast<double>(total));
    if (interrupted()) fail(ErrorCode::cancelled, "cancelled while loading");
  });
  progress.clear();
  notice_limits(loaded.model, options, context);
  if (!options.explain) {  // which says so itself
    for (const std::string& reason : loaded.runner->placement().unused) say("minfer: no layers on {}\n", reason);
  }
  if (options.op_timing) set_op_timing(loaded, true);
}

}  // namespace minfer::cli
