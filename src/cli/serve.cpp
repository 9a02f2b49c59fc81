// `minfer serve MODEL`: an OpenAI-compatible server. It listens as soon as the files' headers and the options are found
// right; the weights are loaded by a thread of its own, and /health says how far that is. The main thread waits for
// Ctrl-C or SIGTERM, gives running answers their time, and ends. What it says goes to stderr.
//
// Exit codes: 0 where a signal came and every answer was given; 130 where some were abandoned, or the model was still
// being loaded; otherwise as for all commands.
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <optional>

#include "base/free_memory.hpp"
#include "cli/command.hpp"
#include "cli/interrupt.hpp"
#include "cli/io.hpp"
#include "cli/model_options.hpp"
#include "cli/op_timing.hpp"
#include "cli/sampler_options.hpp"
#include "cli/serve_options.hpp"
#include "cli/speculation_options.hpp"
#include "cli/usage.hpp"
#include "engine/engine.hpp"
#include "model/vocab.hpp"
#include "server/openai/routes.hpp"
#include "server/server.hpp"

namespace minfer::cli {
namespace {

constexpr std::chrono::milliseconds kFlushTime(500);

struct Options {
  ModelOptions model;
  SamplerOptions sampler;
  SpeculationOptions speculation;
  ServeOptions serve;
};

// What is loaded, in the order of making.
struct Serving {
  ModelOptions target_options;
  ModelOptions draft_options;
  int64_t context = 0;  // tokens of each sequence
  std::unique_ptr<LoadedModel> target;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  std::unique_ptr<LoadedModel> draft;
  std::unique_ptr<engine::Engine> engine;
};

// The alias, or the file's name without folder and ending.
std::string served_name(const Options& options, const std::string& path) {
  if (!options.serve.alias.empty()) return options.serve.alias;
  return std::filesystem::path(path).stem().string();
}

int64_t file_time(const std::string& path) {
  struct stat status = {};
  return stat(path.c_str(), &status) == 0 ? static_cast<int64_t>(status.st_mtime) : 0;
}

// The element type that most of the file is in.
std::string main_type(const gguf::File& file) {
  std::map<std::string_view, size_t> bytes;
  for (const gguf::TensorInfo& tensor : file.tensors()) bytes[tensor::dtype_info(tensor.dtype).name] += tensor.bytes;
  const auto most =
      std::max_element(bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == bytes.end() ? std::string() : std::string(most->first);
}

// --chat-template, empty where it is not given. Read before the server listens: a user's mistake ends it at once.
struct GivenTemplate {
  std::string source;
  std::optional<chat::Template> parsed;
};

GivenTemplate read_given_template(const std::string& file) {
  GivenTemplate given;
  if (file.empty()) return given;
  given.source = read_template(file);
  given.parsed = chat::Template::parse(given.source, file);
  return given;
}

void set_template(server::ServedModel& served, const gguf::File& file, const GivenTemplate& given) {
  served.template_source = given.source;
  served.chat_template = given.parsed;
  const auto source = file.metadata().find_string("tokenizer.chat_template");
  if (given.parsed || !source) return;
  try {
    served.chat_template = chat::Template::parse(*source, "tokenizer.chat_template of " + file.metadata().source());
    served.template_source = *source;
  } catch (const Error& error) {
    // The model is of use without it.
    say("minfer: warning: {}; chats are refused (--chat-template FILE takes another)\n", printable(error.what()));
  }
}

std::shared_ptr<server::ServedModel> describe(const Options& options, const GivenTemplate& given,
                                              const Serving& serving, const std::string& path) {
  const model::Model& model = serving.target->model;
  auto served = std::make_shared<server::ServedModel>();
  served->name = served_name(options, path);
  served->path = path;
  served->architecture = model.file().metadata().find_string("general.architecture").value_or("");
  served->description = main_type(model.file());
  served->created = file_time(path);
  served->context_tokens = serving.context;
  served->trained_context = model.config().context_length;
  served->embedding_width = model.config().width;
  served->parallel = options.serve.parallel;
  served->tokenizer = serving.tokenizer.get();
  served->token_table = engine::grammar::make_token_table(*serving.tokenizer);
  served->sampler = resolve_sampler(options.sampler, *serving.tokenizer);
  set_template(*served, model.file(), given);
  for (const model::Adapter& adapter : model.adapters())
    served->adapters.push_back({adapter.source(), adapter.scale()});
  return served;
}

// What files' headers and the options say, before the server listens: a user's mistake ends it at once. Errors: those
// of a command that loads a model.
void open_models(const Options& options, const std::string& path, Serving& serving) {
  ModelOptions& target = serving.target_options = options.model;
  target.sequences = options.serve.parallel;
  target.outputs = options.serve.parallel * (1 + most_drafted(options.speculation));
  target.has_text = true;
  serving.target = std::make_unique<LoadedModel>([&path] { return gguf::File(path); }, target);
  const LoadedModel& loaded = *serving.target;
  check_gpu_layers(loaded.model, target);
  serving.tokenizer = std::make_unique<tokenizer::Tokenizer>(model::read_vocab(loaded.model.file(), target.pre));
  resolve_sampler(options.sampler, *serving.tokenizer);
  serving.context = context_tokens(loaded, target, kDefaultContext);
  serving.draft_options = options.model;
  serving.draft_options.sequences = options.serve.parallel;
  serving.draft = open_draft_model(options.speculation, serving.draft_options, loaded.model);
}

// The weights, and the running engine. Errors: those of a command that loads a model.
std::shared_ptr<const server::ServedModel> load(const Options& options, const GivenTemplate& given,
                                                const std::string& path, Serving& serving, server::ServerState& state) {
  LoadedModel& loaded = *serving.target;
  const auto served = describe(options, given, serving, path);
  load_weights(loaded, serving.target_options, serving.context,
               [&state](double progress) { state.set_progress(progress); });
  if (serving.draft != nullptr) {
    load_draft_model(*serving.draft, serving.draft_options, loaded, serving.context);
  }
  engine::BatcherOptions batcher;
  batcher.max_running = options.serve.parallel;
  batcher.max_waiting = options.serve.max_queue;
  set_speculation(options.speculation, serving.draft.get(), batcher);
  serving.engine = std::make_unique<engine::Engine>(*loaded.runner, *serving.tokenizer, batcher);
  served->engine = serving.engine.get();
  release_free_memory();
  return served;
}

// As many open files as the system lets the process have: each connection is one.
void raise_file_limit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  // Refused, the server has fewer connections, and says so when one can't be taken.
  [[maybe_unused]] const int result = setrlimit(RLIMIT_NOFILE, &limit);
}

void say_address(const server::Server& server, const ServeOptions& options) {
  say("minfer: listening on {}\n", server.address());
  const std::string& host = options.server.http.host;
  const bool is_local = host == "localhost" || host == "::1" || host.starts_with("127.");
  if (!is_local && options.server.router.api_keys.empty()) {
    say("minfer: whoever reaches {} may use it; --api-key asks for a key\n", printable(host));
  }
}

// After a signal: the answers that run get their time. The exit code.
int drain(server::Server& server, const ServeOptions& options) {
  say("minfer: stopping: running answers have {} ms (--drain-ms); a second signal ends at once\n", options.drain_ms);
  const int64_t left = server.drain(std::chrono::milliseconds(options.drain_ms));
  if (left == 0) return 0;
  say("minfer: abandoned {} request(s) that had no end within {} ms; --drain-ms gives more time\n", left,
      options.drain_ms);
  return kExitCancelled;
}

int serve(Options& options) {
  finish_serve_options(options.serve);
  const std::string path = find_model(options.model.model);
  const GivenTemplate given = read_given_template(options.serve.template_file);
  Serving serving;
  open_models(options, path, serving);
  raise_file_limit();
  InterruptGate gate;
  server::ServerState state;
  server::Metrics metrics;
  server::openai::Endpoints endpoints({.model = [&state] { return state.model(); },
                                       .strict_fields = options.serve.strict_fields,
                                       .on_result =
                                           [&](std::string_view endpoint, const engine::Result& result) {
                                             metrics.observe(endpoint, result);
                                             state.note_result(result);
                                           }});
  server::Server server(options.serve.server, state, metrics, endpoints.routes());
  say_address(server, options.serve);
  auto loading = std::async(std::launch::async, [&] {
    try {
      const auto served = load(options, given, path, serving, state);
      state.set_model(served);
      say("minfer: serving {}: {} request(s) at once, of {} tokens each\n", printable(served->name), served->parallel,
          served->context_tokens);
    } catch (const std::exception& error) {
      state.set_failed(error.what());
      gate.wake();
      throw;
    }
  });
  while (!interrupted() && !state.has_failed()) gate.wait();
  gate.open();
  const int code = state.model() != nullptr ? drain(server, options.serve) : 0;
  endpoints.stop();
  server.drain(kFlushTime);  // clients are told that their answers end
  server.stop();
  state.set_model(nullptr);
  loading.get();  // its error, where it failed or was interrupted
  serving.engine.reset();
  if (options.model.op_timing) print_op_timing(*serving.target);
  return code;
}

}  // namespace

std::function<int()> declare_serve(CLI::App& app) {
  auto options = std::make_shared<Options>();
  add_model_options(app, options->model, fmt::format("the model's own, at most {}", kDefaultContext));
  add_pre_option(app, options->model.pre);
  add_serve_options(app, options->serve);
  add_speculation_options(app, options->speculation);
  add_sampler_options(app, options->sampler);
  return [options] { return serve(*options); };
}

}  // namespace minfer::cli
