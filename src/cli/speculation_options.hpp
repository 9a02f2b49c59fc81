// --speculate and --draft-depth: who guesses tokens ahead, and the draft model that it may take.
#pragma once

#include <CLI/CLI.hpp>

#include <memory>
#include <string>

#include "cli/model_options.hpp"
#include "engine/batcher.hpp"

namespace minfer::cli {

struct SpeculationOptions {
  std::string kind;   // "", "ngram" or "draft:MODEL"
  int64_t depth = 0;  // 0: adaptive
};

void add_speculation_options(CLI::App& app, SpeculationOptions& options);

// The draft model of --speculate draft:MODEL, opened and checked against the target; null for other kinds. Errors:
// UsageError for an unknown kind; those of the file; unsupported where the vocabularies differ.
std::unique_ptr<LoadedModel> open_draft_model(const SpeculationOptions& options, const ModelOptions& target_options,
                                              const model::Model& target);

// Loads its weights beside the target's, which are loaded. Errors: those of load_weights.
void load_draft_model(LoadedModel& draft, const ModelOptions& options, const LoadedModel& target, int64_t context);

// The most tokens that are guessed a step.
int64_t most_drafted(const SpeculationOptions& options);

// The batcher's part of it. `draft` is loaded, or null.
void set_speculation(const SpeculationOptions& options, LoadedModel* draft, engine::BatcherOptions& batcher);

}  // namespace minfer::cli
