// Options of speculative decoding. See speculation_options.hpp.
#include "cli/speculation_options.hpp"

#include "cli/command.hpp"
#include "cli/usage.hpp"
#include "engine/speculation/draft_model_proposer.hpp"
#include "engine/speculation/ngram_proposer.hpp"

namespace minfer::cli {
namespace {

constexpr std::string_view kDraftPrefix = "draft:";

// What is left of --memory-limit for the draft model.
ModelOptions draft_options(const ModelOptions& options, const engine::Runner& target) {
  ModelOptions rest = options;
  if (rest.memory_limit) *rest.memory_limit = std::max<int64_t>(*rest.memory_limit - target.memory().total_bytes(), 0);
  return rest;
}

}  // namespace

void add_speculation_options(CLI::App& app, SpeculationOptions& options) {
  app.add_option("--speculate", options.kind, "Guess tokens ahead: ngram (from the text) or draft:MODEL")
      ->type_name("KIND")
      ->check(not_empty())
      ->group("Speculation");
  app.add_option("--draft-depth", options.depth, "Tokens to guess a step; 0: as many as pay")
      ->type_name("N")
      ->check(whole_number(0, engine::kMaxDepth))
      ->capture_default_str()
      ->group("Speculation");
}

std::unique_ptr<LoadedModel> open_draft_model(const SpeculationOptions& options, const ModelOptions& target_options,
                                              const model::Model& target) {
  if (options.kind.empty() && options.depth != 0) throw UsageError("--draft-depth goes with --speculate");
  if (options.kind.empty() || options.kind == "ngram") return nullptr;
  if (!options.kind.starts_with(kDraftPrefix)) {
    throw UsageError(fmt::format("--speculate {}: expected ngram or draft:MODEL", options.kind));
  }
  const std::string name = options.kind.substr(kDraftPrefix.size());
  const std::string path = find_model(name);
  ModelOptions own = target_options;
  own.adapters.clear();  // they are the target's
  auto draft = std::make_unique<LoadedModel>([&path] { return gguf::File(path); }, own);
  engine::check_same_vocabulary(target, draft->model);
  return draft;
}

void load_draft_model(LoadedModel& draft, const ModelOptions& options, const LoadedModel& target, int64_t context) {
  draft.limits = target.limits;
  try {
    load_weights(draft, draft_options(options, *target.runner), context);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::out_of_memory) throw;
    constexpr double kMegabyte = 1e6;
    fail(ErrorCode::out_of_memory, "draft model, beside the {:.0f} MB of the target: {}",
         static_cast<double>(target.runner->memory().total_bytes()) / kMegabyte, error.what());
  }
}

int64_t most_drafted(const SpeculationOptions& options) {
  if (options.kind.empty()) return 0;
  return options.depth != 0 ? options.depth : engine::kMaxDepth;
}

void set_speculation(const SpeculationOptions& options, LoadedModel* draft, engine::BatcherOptions& batcher) {
  batcher.draft_depth = options.depth;
  if (draft != nullptr) {
    // With an adaptive depth, which depends on measured times, only guesses that are compared keep a seed's tokens.
    const auto guess = options.depth == 0 ? engine::Guess::likeliest : engine::Guess::drawn;
    batcher.make_proposer = [draft, guess](const engine::Request& request) {
      return std::make_unique<engine::DraftModelProposer>(*draft->runner, request.sampler, guess);
    };
  } else if (!options.kind.empty()) {
    batcher.make_proposer = [](const engine::Request&) { return std::make_unique<engine::NgramProposer>(); };
  }
}

}  // namespace minfer::cli
