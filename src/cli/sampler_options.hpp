// The sampler's options on the command line.
// Defaults are those of engine::SamplerParams.
#pragma once

#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <vector>

#include "engine/sampler/params.hpp"
#include "tokenizer/tokenizer.hpp"

namespace minfer::cli {

struct SamplerOptions {
  engine::SamplerParams params;
  std::optional<uint64_t> seed;         // empty: a random one
  std::vector<std::string> logit_bias;  // "ID=BIAS"
  std::vector<std::string> dry_breakers = {"\n", ":", "\"", "*"};
  const CLI::App* app = nullptr;  // tells which options the user gave; outlives the command
};

void add_sampler_options(CLI::App& app, SamplerOptions& options);

// The parameters, complete: seed drawn where none was given, biases and breakers resolved to token ids, ranges and
// combinations checked. Errors: UsageError naming the option.
engine::SamplerParams resolve_sampler(const SamplerOptions& options, const tokenizer::Tokenizer& tokenizer);

}  // namespace minfer::cli
