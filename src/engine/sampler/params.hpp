// What a user may ask of the sampler, with the field's usual defaults, and the check of every value. Plain data.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace minfer::engine {

struct SamplerParams {
  uint64_t seed = 0;
  float temperature = 0.8F;  // 0: greedy
  int32_t top_k = 40;        // 0: off
  float top_p = 0.95F;       // 1: off
  float min_p = 0.05F;       // 0: off
  float typical_p = 1.0F;    // 1: off

  int32_t penalty_last_n = 64;     // tokens looked back on; 0: off, -1: all of the sequence
  float repeat_penalty = 1.0F;     // 1: off
  float frequency_penalty = 0.0F;  // 0: off
  float presence_penalty = 0.0F;   // 0: off

  float dry_multiplier = 0.0F;  // 0: off
  float dry_base = 1.75F;
  int32_t dry_allowed_length = 2;
  int32_t dry_penalty_last_n = -1;    // -1: all
  std::vector<int32_t> dry_breakers;  // token ids that end a repetition, ascending

  float xtc_probability = 0.0F;  // 0: off
  float xtc_threshold = 0.1F;

  int32_t mirostat = 0;  // 0: off, 1 or 2: the version; replaces top-k, typical, top-p, min-p and XTC
  float mirostat_tau = 5.0F;
  float mirostat_eta = 0.1F;

  std::vector<std::pair<int32_t, float>> logit_bias;  // added to a token's logit; -infinity forbids it
};

// Errors: invalid_input, naming the parameter, its value and the allowed range.
void check_sampler_params(const SamplerParams& params, int64_t vocabulary);

}  // namespace minfer::engine
