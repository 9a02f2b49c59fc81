// Sampler options. See sampler_options.hpp.
// Ranges are checked by engine/sampler/params.hpp; here only that a value is a number.
#include "cli/sampler_options.hpp"

#include <charconv>
#include <limits>
#include <random>

#include "cli/command.hpp"
#include "cli/io.hpp"
#include "cli/usage.hpp"
#include "engine/sampler/breakers.hpp"

namespace minfer::cli {

void add_sampler_options(CLI::App& app, SamplerOptions& options) {
  engine::SamplerParams& p = options.params;
  options.app = &app;
  const auto add = [&app](const std::string& flags, auto& value, const std::string& text, const std::string& unit,
                          const CLI::Validator& check) {
    app.add_option(flags, value, text)->type_name(unit)->check(check)->capture_default_str()->group("Sampling");
  };
  const auto count = [&](const std::string& flags, int32_t& value, int64_t least, const std::string& text) {
    add(flags, value, text, "N", whole_number(least, std::numeric_limits<int32_t>::max()));
  };
  const auto number = [&](const std::string& flags, float& value, const std::string& text) {
    add(flags, value, text, "X", decimal_number());
  };
  const auto texts = [&app](const std::string& flags, std::vector<std::string>& values, const std::string& text,
                            const std::string& unit) {
    app.add_option(flags, values, text)->type_name(unit)->allow_extra_args(false)->group("Sampling");
  };
  app.add_option("--seed", options.seed, "Seed; without it a random one, printed at the end")
      ->type_name("N")
      ->check(whole_number(0, std::numeric_limits<int64_t>::max()))
      ->group("Sampling");
  number("--temp,--temperature", p.temperature, "0 takes the likeliest token");
  count("--top-k", p.top_k, 0, "Keep the N likeliest tokens; 0: all");
  number("--top-p", p.top_p, "Keep tokens of this total probability");
  number("--min-p", p.min_p, "Drop tokens under this share of the best");
  number("--typical-p", p.typical_p, "Locally typical sampling; 1: off");
  count("--repeat-last-n", p.penalty_last_n, -1, "Tokens that penalties look back on; -1: all");
  number("--repeat-penalty", p.repeat_penalty, "Divide logits of seen tokens; 1: off");
  number("--frequency-penalty", p.frequency_penalty, "Subtract by count; 0: off");
  number("--presence-penalty", p.presence_penalty, "Subtract from seen tokens; 0: off");
  number("--dry-multiplier", p.dry_multiplier, "DRY: strength against repetition; 0: off");
  number("--dry-base", p.dry_base, "DRY: growth with the length");
  count("--dry-allowed-length", p.dry_allowed_length, 1, "DRY: longest repetition that is free");
  count("--dry-penalty-last-n", p.dry_penalty_last_n, -1, "DRY: tokens looked back on; -1: all");
  texts("--dry-sequence-breaker", options.dry_breakers, "DRY: text that ends a repetition; may be repeated", "TEXT");
  number("--xtc-probability", p.xtc_probability, "Chance to drop the top tokens; 0: off");
  number("--xtc-threshold", p.xtc_threshold, "XTC drops tokens over this probability");
  count("--mirostat", p.mirostat, 0, "Mirostat version 1 or 2; 0: off");
  number("--mirostat-tau", p.mirostat_tau, "Mirostat: wanted surprise");
  number("--mirostat-eta", p.mirostat_eta, "Mirostat: learning rate");
  texts("--logit-bias", options.logit_bias, "Add to a token's logit (-inf forbids it); may be repeated", "ID=X");
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

void check_breakers(const std::vector<std::string>& breakers) {
  for (const std::string& breaker : breakers) {
    if (breaker.empty()) throw UsageError("--dry-sequence-breaker: an empty text breaks nothing; give a character");
    check_utf8(breaker, "--dry-sequence-breaker");
  }
}

// Mirostat takes the place of the filters: one that the user turned on himself would do nothing.
void check_mirostat(const SamplerOptions& options) {
  const engine::SamplerParams& p = options.params;
  if (p.mirostat == 0) return;
  const auto refuse = [&](const char* name) {
    throw UsageError(fmt::format("--mirostat {} and {} can't both hold; leave one of them out", p.mirostat, name));
  };
  if (p.temperature == 0.0F) refuse("--temp 0");
  const std::pair<const char*, bool> filters[] = {{"--top-k", p.top_k != 0},
                                                  {"--top-p", p.top_p != 1.0F},
                                                  {"--min-p", p.min_p != 0.0F},
                                                  {"--typical-p", p.typical_p != 1.0F},
                                                  {"--xtc-probability", p.xtc_probability != 0.0F}};
  for (const auto& [name, is_on] : filters) {
    if (is_on && options.app->count(name) > 0) refuse(name);
  }
}

}  // namespace

engine::SamplerParams resolve_sampler(const SamplerOptions& options, const tokenizer::Tokenizer& tokenizer) {
  engine::SamplerParams params = options.params;
  params.seed = options.seed ? *options.seed : std::random_device{}();
  for (const std::string& text : options.logit_bias) params.logit_bias.push_back(parse_bias(text));
  check_breakers(options.dry_breakers);
  if (params.dry_multiplier != 0) params.dry_breakers = engine::dry_breaker_ids(options.dry_breakers, tokenizer);
  try {
    engine::check_sampler_params(params, static_cast<int64_t>(tokenizer.vocab().size()));
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
  check_mirostat(options);
  return params;
}

}  // namespace minfer::cli
