// `minfer run MODEL [PROMPT]`: loads a model and answers one prompt. The answer streams to stdout and nothing else goes
// there; notices and timings go to stderr.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>

#include "base/output_file.hpp"
#include "chat/value.hpp"
#include "cli/command.hpp"
#include "cli/interrupt.hpp"
#include "cli/io.hpp"
#include "cli/model_options.hpp"
#include "cli/op_timing.hpp"
#include "cli/prompt.hpp"
#include "cli/sampler_options.hpp"
#include "cli/speculation_options.hpp"
#include "cli/usage.hpp"
#include "engine/engine.hpp"
#include "engine/grammar/gbnf.hpp"
#include "engine/grammar/grammar.hpp"
#include "engine/grammar/json_schema.hpp"
#include "engine/kv/session_file.hpp"
#include "engine/plan.hpp"
#include "model/vocab.hpp"

namespace minfer::cli {
namespace {

// Without its first tokens, to which much of the attention goes, a shifted model falls apart (arXiv 2309.17453).
constexpr int64_t kSinkTokens = 4;

constexpr int64_t kMaxGrammarBytes = int64_t{16} << 20;

struct Options {
  ModelOptions model;
  SamplerOptions sampler;
  std::optional<std::string> prompt;
  std::string file;
  std::string system;
  std::string template_file;
  bool raw = false;
  int64_t max_tokens = -1;
  std::vector<std::string> stops;
  std::string overflow = "stop";
  std::optional<int64_t> keep;
  std::string session;
  std::string grammar_file;
  std::string schema_file;
  SpeculationOptions speculation;
};

std::string prompt_text(const Options& options) {
  if (options.prompt && !options.file.empty()) throw UsageError("give PROMPT or -f FILE, not both");
  if (options.prompt) return *options.prompt;
  if (options.file.empty() && stdin_is_terminal())
    throw UsageError("no prompt: give PROMPT, -f FILE, or text on stdin");
  return read_input(options.file.empty() ? "-" : options.file);
}

void print_timings(const engine::Result& result, uint64_t seed) {
  const auto rate = [](int64_t tokens, double seconds) {
    return seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0;
  };
  say("minfer: prompt {} tokens in {:.2f} s ({:.1f} tokens/s), generated {} tokens in {:.2f} s ({:.1f} "
      "tokens/s), seed {}\n",
      result.prompt_tokens, result.prompt_seconds, rate(result.prompt_tokens, result.prompt_seconds),
      result.generated_tokens, result.generate_seconds,
      rate(std::max<int64_t>(result.generated_tokens - 1, 0), result.generate_seconds), seed);
  if (result.session_tokens > 0) say("minfer: went on after {} tokens of the session\n", result.session_tokens);
  if (result.shifts > 0) say("minfer: the context was shifted {} time(s)\n", result.shifts);
  if (result.drafted_tokens > 0) {
    say("minfer: {} of {} drafted tokens were accepted ({:.0f}%)\n", result.accepted_tokens, result.drafted_tokens,
        100.0 * static_cast<double>(result.accepted_tokens) / static_cast<double>(result.drafted_tokens));
  }
}

int finish(const engine::Result& result, int64_t context, bool shifts) {
  if (result.reason == engine::StopReason::context_full) {
    say("minfer: stopped: the context of {} tokens is full{}; take a larger one with -c\n", context,
        shifts ? ", and --keep leaves nothing to shift" : "");
  }
  return result.reason == engine::StopReason::cancelled ? kExitCancelled : 0;
}

void print_stats(const engine::BatcherStats& stats, const engine::Runner& runner) {
  say("engine: {} steps of {} rows in all; {} tokens found in the prefix cache, {} pages kept for it, {} evicted; {} "
      "preemptions; {} bytes copied between devices\n",
      stats.steps, stats.rows, stats.reused_tokens, stats.idle_pages, stats.evictions, stats.preemptions,
      runner.copied_bytes());
}

// Streams the answer to stdout, and ends its line; Ctrl-C ends it between two steps. Errors: those of stdout; that of
// the request is in the result.
engine::Result answer(LoadedModel& loaded, const tokenizer::Tokenizer& tokenizer, engine::Request request,
                      const engine::BatcherOptions& batcher, bool explain) {
  constexpr auto kInterruptPoll = std::chrono::milliseconds(20);
  std::promise<engine::Result> ended;
  std::optional<Error> broken_output;
  std::atomic<bool> stop = false;
  const engine::Listener listener{[&](const engine::DrawnToken&, std::string_view text) {
                                    if (broken_output) return;
                                    try {
                                      write_stdout(text);
                                    } catch (const Error& error) {
                                      broken_output = error;
                                      stop = true;
                                    }
                                  },
                                  [&](const engine::Result& result) { ended.set_value(result); }};
  engine::Engine engine(*loaded.runner, tokenizer, batcher);
  const engine::RequestId id = engine.submit(std::move(request), listener);
  auto result = ended.get_future();
  while (result.wait_for(kInterruptPoll) != std::future_status::ready) {
    if (stop || interrupted()) engine.cancel(id);
  }
  if (broken_output) throw *broken_output;
  const engine::Result ended_result = result.get();
  if (ended_result.generated_tokens > 0) write_stdout("\n");
  // The numbers are those of its last step once that is over.
  if (explain && engine.wait_until_idle(std::chrono::minutes(1))) print_stats(engine.stats(), *loaded.runner);
  return ended_result;
}

// What the answer is held to; null: nothing. Errors: UsageError; those of reading the file and of the grammar.
std::shared_ptr<const engine::grammar::Grammar> read_grammar(const Options& options,
                                                             const tokenizer::Tokenizer& tokenizer) {
  namespace grammar = engine::grammar;
  if (options.grammar_file.empty() && options.schema_file.empty()) return nullptr;
  grammar::Ast ast;
  if (!options.grammar_file.empty()) {
    ast = grammar::parse_gbnf(read_input(options.grammar_file, kMaxGrammarBytes), options.grammar_file);
  } else {
    const chat::Value schema = chat::value_from_json(read_input(options.schema_file, kMaxGrammarBytes));
    grammar::AstBuilder builder;
    const grammar::RuleId root = builder.declare("root");
    builder.define(root, grammar::add_json_schema(builder, schema));
    ast = std::move(builder).finish(root);
  }
  return grammar::compile(ast, grammar::make_token_table(tokenizer));
}

// Everything that the user gave is checked here, before the model is loaded.
engine::Request make_request(const Options& options, const Prompt& prompt, const tokenizer::Tokenizer& tokenizer,
                             int64_t context, bool continues) {
  engine::Request request;
  request.sampler = resolve_sampler(options.sampler, tokenizer);
  request.prompt = prompt.tokens;
  request.grammar = read_grammar(options, tokenizer);
  request.max_tokens = options.max_tokens;
  request.stops = options.stops;
  request.overflow = options.overflow == "shift" ? engine::Overflow::shift : engine::Overflow::stop;
  request.turn_end = prompt.turn_end;
  if (options.keep && options.overflow != "shift") throw UsageError("--keep goes with --overflow shift");
  // What is kept are a session's first tokens, where one is gone on with.
  const int64_t length = continues ? context : static_cast<int64_t>(prompt.tokens.size());
  request.keep_tokens = options.keep.value_or(std::min(kSinkTokens, length));
  if (request.keep_tokens > length) {
    throw UsageError(fmt::format("--keep {}: the {} {} tokens", request.keep_tokens,
                                 continues ? "context holds" : "prompt has", length));
  }
  for (const std::string& stop : options.stops) {
    if (stop.empty()) throw UsageError("--stop: an empty text stops nothing; give at least one character");
    check_utf8(stop, "--stop");
  }
  if (request.prompt.empty()) throw UsageError("the prompt is empty, and the model needs at least one token to start");
  if (static_cast<int64_t>(request.prompt.size()) > context) {
    throw UsageError(fmt::format("the prompt has {} tokens, the context {}; take a larger one with -c",
                                 request.prompt.size(), context));
  }
  return request;
}

// The file that --session names, and whether it is there. That it can be written is tried before anything runs. Errors:
// UsageError for a name of something else; io.
bool find_session(std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (error && status.type() != fs::file_type::not_found)
    fail(ErrorCode::io, "--session {}: {}", path, error.message());
  const bool exists = fs::exists(status);
  if (exists && !fs::is_regular_file(status)) throw UsageError(fmt::format("--session {}: not a file", path));
  // A link stays one: what it points to is written. Loops were an error of status() above.
  for (fs::path link = path; fs::is_symlink(link, error); path = link.string()) {
    link = link.parent_path() / fs::read_symlink(link, error);
  }
  const OutputFile trial(path, OutputFile::Access::owner);
  return exists;
}

// Before the weights are loaded: that the session there is of this model and this kind of cache.
void check_session(LoadedModel& loaded, const ModelOptions& options, const std::string& path, int64_t context) {
  const engine::RunnerOptions runner = runner_options(options, context, *loaded.registry().available().front());
  const auto identity = engine::identify_model(loaded.model, context);
  engine::check_session(path, identity, engine::kv_spec(loaded.model, runner));
}

// One sequence, whose last token gives logits, and a draft behind it. The draft model has neither text nor outputs.
ModelOptions target_options(const Options& options) {
  ModelOptions target = options.model;
  target.outputs = 1 + most_drafted(options.speculation);
  target.has_text = true;
  return target;
}

int run(const Options& options) {
  if (!options.grammar_file.empty() && !options.schema_file.empty()) {
    throw UsageError("give --grammar or --json-schema, not both");
  }
  const std::string text = prompt_text(options);
  LoadedModel loaded(options.model);
  const tokenizer::Tokenizer tokenizer(model::read_vocab(loaded.model.file(), options.model.pre));
  const int64_t context = context_tokens(loaded, options.model, kDefaultContext);
  std::string session = options.session;
  const bool continues = !session.empty() && find_session(session);
  const Prompt prompt = build_prompt(loaded.model.file(), tokenizer,
                                     {text, options.system, options.raw, options.template_file, continues});
  engine::Request request = make_request(options, prompt, tokenizer, context, continues);
  request.session_path = session;
  if (continues) check_session(loaded, options.model, session, context);
  const auto draft = open_draft_model(options.speculation, options.model, loaded.model);
  load_weights(loaded, target_options(options), context);
  if (draft != nullptr) load_draft_model(*draft, options.model, loaded, context);
  engine::BatcherOptions batcher;
  batcher.max_running = 1;
  set_speculation(options.speculation, draft.get(), batcher);
  if (!prompt.has_template && !options.raw) {
    say("minfer: the model has no chat template: the prompt goes to it as it is (--raw)\n");
  }
  if (!prompt.control_token.empty()) {
    say("minfer: the prompt has the text of the control token '{}' in it, and the model reads it as that token\n",
        printable(prompt.control_token));
  }
  const engine::Result result = answer(loaded, tokenizer, request, batcher, options.model.explain);
  if (result.too_long) throw UsageError(result.error->what());
  // An answer that was given took its time, whatever failed afterwards.
  if (result.generated_tokens > 0 || !result.error) print_timings(result, request.sampler.seed);
  if (result.error) throw *result.error;
  if (options.model.op_timing) {
    print_op_timing(loaded);
    if (draft != nullptr) print_op_timing(*draft, "draft model");
  }
  return finish(result, context, request.overflow == engine::Overflow::shift);
}

}  // namespace

std::function<int()> declare_run(CLI::App& app) {
  auto options = std::make_shared<Options>();
  add_model_options(app, options->model, fmt::format("the model's own, at most {}", kDefaultContext));
  add_pre_option(app, options->model.pre);
  app.add_option("PROMPT", options->prompt, "The prompt; without it, -f or stdin");
  app.add_option("-f,--file", options->file, "Read the prompt from a file; -: stdin")->type_name("FILE");
  app.add_option("--system", options->system, "A system message before the prompt")->type_name("TEXT");
  app.add_flag("--raw", options->raw, "Give the prompt as it is, without a template");
  app.add_option("--chat-template", options->template_file, "A Jinja template in place of the model's")
      ->type_name("FILE");
  app.add_option("-n,--max-tokens", options->max_tokens, "Most tokens to generate; -1: until it ends")
      ->type_name("N")
      ->check(whole_number(-1, engine::kMaxContextTokens))
      ->capture_default_str();
  app.add_option("--stop", options->stops, "Text that ends the answer; may be repeated")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  app.add_option("--overflow", options->overflow, "A full context: stop, or shift (drop the older half)")
      ->type_name("POLICY")
      ->check(one_of({"stop", "shift"}))
      ->capture_default_str();
  app.add_option("--keep", options->keep, "First tokens that a shift keeps (default 4)")
      ->type_name("N")
      ->check(whole_number(0, engine::kMaxContextTokens));
  app.add_option("--session", options->session, "Go on with the session in FILE if there, and save it")
      ->type_name("FILE")
      ->check(not_empty());
  app.add_option("--grammar", options->grammar_file, "Hold the answer to a grammar in FILE (GBNF)")
      ->type_name("FILE")
      ->check(not_empty());
  app.add_option("--json-schema", options->schema_file, "Hold the answer to a JSON Schema in FILE")
      ->type_name("FILE")
      ->check(not_empty());
  add_speculation_options(app, options->speculation);
  add_sampler_options(app, options->sampler);
  return [options] { return run(*options); };
}

}  // namespace minfer::cli
