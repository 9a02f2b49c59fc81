// `minfer perplexity MODEL FILE -c 512 [--json]`: see engine/perplexity.hpp for what is measured.
// Progress goes to a terminal only; the text is tokenized as it is, without special tokens in it.
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "cli/interrupt.hpp"
#include "cli/io.hpp"
#include "cli/model_options.hpp"
#include "cli/op_timing.hpp"
#include "cli/usage.hpp"
#include "engine/perplexity.hpp"
#include "model/vocab.hpp"
#include "tokenizer/tokenizer.hpp"

namespace minfer::cli {
namespace {

constexpr int64_t kDefaultWindow = 512;
constexpr int64_t kMinWindow = 4;
constexpr int64_t kScoredRows = 64;  // a step

struct Options {
  ModelOptions model;
  std::string file;
  int64_t windows = 0;
  bool json = false;
};

int run_perplexity(Options options) {
  if (options.model.context == 0) options.model.context = kDefaultWindow;
  if (options.model.context < kMinWindow) {
    throw UsageError(fmt::format("-c {}: a window has at least {} tokens", options.model.context, kMinWindow));
  }
  options.model.outputs = kScoredRows;
  options.model.has_text = true;
  const std::string text = read_input(options.file);
  check_utf8(text, options.file);
  LoadedModel loaded(options.model);
  const tokenizer::Tokenizer tokenizer(model::read_vocab(loaded.model.file(), options.model.pre));
  const auto tokens = tokenizer.encode(text, {.parse_special = false, .add_special = true});
  const auto bos = tokenizer.adds_bos() ? tokenizer.vocab().bos() : std::nullopt;
  const int64_t wanted = 2 * options.model.context;
  if (static_cast<int64_t>(tokens.size()) < wanted) {
    throw UsageError(fmt::format("{} has {} tokens; windows of {} (-c) need at least {}", options.file, tokens.size(),
                                 options.model.context, wanted));
  }
  load_weights(loaded, options.model, options.model.context);
  ProgressLine progress("perplexity");
  const auto result = engine::perplexity(*loaded.runner, tokens, options.model.context, options.windows, bos, {},
                                         [&](int64_t done, int64_t total) {
                                           progress.update(done, total);
                                           if (interrupted())
                                             fail(ErrorCode::cancelled, "cancelled after {} windows", done);
                                         });
  progress.clear();
  if (!std::isfinite(result.perplexity)) {
    fail(ErrorCode::invalid_input, "{}: the model's logits give no finite perplexity; its weights are broken",
         options.model.model);
  }
  if (options.json) {
    write_stdout(nlohmann::ordered_json{{"perplexity", result.perplexity},
                                        {"standard_error", result.standard_error},
                                        {"window", options.model.context},
                                        {"windows", result.windows},
                                        {"scored_tokens", result.scored_tokens}}
                     .dump() +
                 "\n");
  } else {
    write_stdout(fmt::format("perplexity {:.4f} +- {:.4f} ({} tokens in {} windows of {})\n", result.perplexity,
                             result.standard_error, result.scored_tokens, result.windows, options.model.context));
  }
  if (options.model.op_timing) print_op_timing(loaded);
  return 0;
}

}  // namespace

std::function<int()> declare_perplexity(CLI::App& app) {
  auto options = std::make_shared<Options>();
  add_model_options(app, options->model, fmt::format("windows of {}", kDefaultWindow));
  add_pre_option(app, options->model.pre);
  app.add_option("FILE", options->file, "The text; -: stdin")->required();
  app.add_option("--windows", options->windows, "Windows to measure; 0: all")
      ->type_name("N")
      ->check(whole_number(0, kMaxInputBytes));
  app.add_flag("--json", options->json, "Print {\"perplexity\": ...}");
  return [options] { return run_perplexity(*options); };
}

}  // namespace minfer::cli
