// Range checks of sampler parameters: one row a number. See params.hpp.
#include "engine/sampler/params.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>

#include "base/error.hpp"

namespace minfer::engine {
namespace {

constexpr double kMaxLookBack = 1 << 30;

struct Range {
  std::string_view name;
  double value;
  double low;
  double high;
};

}  // namespace

void check_sampler_params(const SamplerParams& p, int64_t vocabulary) {
  const Range ranges[] = {
      {"temperature", p.temperature, 0, 1000},
      {"top_k", static_cast<double>(p.top_k), 0, std::numeric_limits<int32_t>::max()},
      {"top_p", p.top_p, 0, 1},
      {"min_p", p.min_p, 0, 1},
      {"typical_p", p.typical_p, 0, 1},
      {"penalty_last_n", static_cast<double>(p.penalty_last_n), -1, kMaxLookBack},
      {"repeat_penalty", p.repeat_penalty, 0.01, 100},
      {"frequency_penalty", p.frequency_penalty, -100, 100},
      {"presence_penalty", p.presence_penalty, -100, 100},
      {"dry_multiplier", p.dry_multiplier, 0, 100},
      {"dry_base", p.dry_base, 1, 100},
      {"dry_allowed_length", static_cast<double>(p.dry_allowed_length), 1, kMaxLookBack},
      {"dry_penalty_last_n", static_cast<double>(p.dry_penalty_last_n), -1, kMaxLookBack},
      {"xtc_probability", p.xtc_probability, 0, 1},
      {"xtc_threshold", p.xtc_threshold, 0, 1},
      {"mirostat", static_cast<double>(p.mirostat), 0, 2},
      {"mirostat_tau", p.mirostat_tau, 0.01, 100},
      {"mirostat_eta", p.mirostat_eta, 0, 1},
  };
  for (const Range& range : ranges) {
    // Written so that NaN is refused too. Bounds are rounded as the values are.
    if (!(range.value >= static_cast<float>(range.low) && range.value <= static_cast<float>(range.high))) {
      fail(ErrorCode::invalid_input, "{} is {}; expected {} to {}", range.name, range.value, range.low, range.high);
    }
  }
  for (const auto& [token, bias] : p.logit_bias) {
    if (token < 0 || token >= vocabulary) {
      fail(ErrorCode::invalid_input, "logit_bias names token {}; the vocabulary has {} tokens", token, vocabulary);
    }
    if (std::isnan(bias) || bias == std::numeric_limits<float>::infinity()) {
      fail(ErrorCode::invalid_input, "logit_bias of token {} is {}; expected a number or -infinity", token, bias);
    }
  }
  check(std::is_sorted(p.dry_breakers.begin(), p.dry_breakers.end()), "dry_breakers must ascend");
}

}  // namespace minfer::engine
