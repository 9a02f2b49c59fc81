// Sampler options. See sampler_options.hpp.
#include "cli/sampler_options.hpp"

#include <charconv>
#include <random>

#include "cli/command.hpp"

namespace minfer::cli {

void add_sampler_options(CLI::App& app, SamplerOptions& options) {
  engine::SamplerParams& p = options.params;
  app.add_option("--seed", options.seed, "Seed of the sampler (default: a random one, printed)");
  app.add_option("--temp,--temperature", p.temperature, "Temperature; 0 takes the likeliest token")
      ->capture_default_str();
  app.add_option("--top-k", p.top_k, "Keep the k likeliest tokens; 0: all")->capture_default_str();
  app.add_option("--top-p", p.top_p, "Keep the likeliest tokens of this total probability; 1: all")
      ->capture_default_str();
  app.add_option("--min-p", p.min_p, "Drop tokens under this share of the likeliest; 0: none")->capture_default_str();
  app.add_option("--typical-p", p.typical_p, "Locally typical sampling; 1: off")->capture_default_str();
  app.add_option("--penalty-last-n,--repeat-last-n", p.penalty_last_n, "Tokens that penalties look back on; -1: all")
      ->capture_default_str();
  app.add_option("--repeat-penalty", p.repeat_penalty, "Penalty of repeated tokens; 1: off")->capture_default_str();
  app.add_option("--frequency-penalty", p.frequency_penalty, "Penalty by count; 0: off")->capture_default_str();
  app.add_option("--presence-penalty", p.presence_penalty, "Penalty of presence; 0: off")->capture_default_str();
  app.add_option("--dry-multiplier", p.dry_multiplier, "DRY repetition penalty; 0: off")->capture_default_str();
  app.add_option("--dry-base", p.dry_base, "Base of the DRY penalty")->capture_default_str();
  app.add_option("--dry-allowed-length", p.dry_allowed_length, "Longest repetition without penalty")
      ->capture_default_str();
  app.add_option("--dry-penalty-last-n", p.dry_penalty_last_n, "Tokens that DRY looks back on; -1: all")
      ->capture_default_str();
  app.add_option("--dry-sequence-breaker", options.dry_breakers, "Text that ends a repetition (repeatable)");
  app.add_option("--xtc-probability", p.xtc_probability, "Chance to drop the top tokens; 0: off")
      ->capture_default_str();
  app.add_option("--xtc-threshold", p.xtc_threshold, "Probability over which XTC drops tokens")->capture_default_str();
  app.add_option("--mirostat", p.mirostat, "Mirostat version 1 or 2; 0: off")->capture_default_str();
  app.add_option("--mirostat-tau", p.mirostat_tau, "Mirostat's target surprise")->capture_default_str();
  app.add_option("--mirostat-eta", p.mirostat_eta, "Mirostat's learning rate")->capture_default_str();
  app.add_option("--logit-bias", options.logit_bias, "ID=BIAS: add to a token's logit (repeatable; -inf forbids it)");
}

namespace {

std::pair<int32_t, float> parse_bias(const std::string& text) {
  const size_t equals = text.find('=');
  int32_t token = 0;
  float bias = 0;
  const char* end = text.data() + text.size();
  const char* middle = text.data() + std::min(equals, text.size());
  const auto id = std::from_chars(text.data(), middle, token);
  const bool id_ok = equals != std::string::npos && id.ec == std::errc() && id.ptr == middle;
  const char* number = id_ok && middle + 1 < end && middle[1] == '+' ? middle + 2 : middle + 1;
  if (id_ok) {
    const auto value = std::from_chars(number, end, bias);
    if (value.ec == std::errc() && value.ptr == end) return {token, bias};
  }
  throw UsageError(fmt::format("--logit-bias {}: expected ID=BIAS, such as 42=-1.5", text));
}

// The ids of all tokens whose text has a breaker in it, ascending.
std::vector<int32_t> breaker_ids(const std::vector<std::string>& breakers, const tokenizer::Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  for (size_t id = 0; id < tokenizer.vocab().size(); ++id) {
    const std::string text = tokenizer.token_bytes(static_cast<int32_t>(id));
    for (const std::string& breaker : breakers) {
      if (breaker.empty() || text.find(breaker) == std::string::npos) continue;
      ids.push_back(static_cast<int32_t>(id));
      break;
    }
  }
  return ids;
}

}  // namespace

engine::SamplerParams resolve_sampler(const SamplerOptions& options, const tokenizer::Tokenizer& tokenizer) {
  engine::SamplerParams params = options.params;
  params.seed = options.seed ? *options.seed : std::random_device{}();
  for (const std::string& text : options.logit_bias) params.logit_bias.push_back(parse_bias(text));
  if (params.dry_multiplier != 0) params.dry_breakers = breaker_ids(options.dry_breakers, tokenizer);
  try {
    engine::check_sampler_params(params, static_cast<int64_t>(tokenizer.vocab().size()));
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
  return params;
}

}  // namespace minfer::cli
