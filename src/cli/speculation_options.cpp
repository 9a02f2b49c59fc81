// Options of speculative decoding. See speculation_options.hpp.
#include "cli/speculation_options.hpp"

#include "cli/command.hpp"
#include "cli/usage.hpp"
#include "engine/speculation/draft_model_proposer.hpp"
#include "engine/speculation/ngram_proposer.hpp"

namespace minfer::cli {
namespace {

constexpr std::string_view kDraftPrefix = "draft:";

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
  auto draft = std::make_unique<LoadedModel>([&path] { return gguf::File(path); }, target_options);
  engine::check_same_vocabulary(target, draft->model);
  return draft;
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
