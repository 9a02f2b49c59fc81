// Windowed perplexity. See perplexity.hpp.
#include "engine/perplexity.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.hpp"
#include "engine/forward.hpp"
#include "model/weight_check.hpp"

namespace minfer::engine {
namespace {

double log_probability(std::span<const float> logits, int32_t token) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return static_cast<double>(logits[static_cast<size_t>(token)]) - largest - std::log(sum);
}

// The surprise of `target`, which is a number unless the model's logits are none.
double surprise(std::span<const float> logits, int32_t target, int64_t window, int64_t position,
                const model::Model& model) {
  const double nll = -log_probability(logits, target);
  if (std::isfinite(nll)) return nll;
  const auto wrong = std::find_if(logits.begin(), logits.end(), [](float logit) { return !std::isfinite(logit); });
  // A NaN has a sign, which says nothing.
  fail(ErrorCode::invalid_input,
       "the model gave {} as the logit of token {} at position {} of window {}; its weights are broken; {}",
       std::isnan(*wrong) ? "NaN"
       : *wrong > 0       ? "infinity"
                          : "-infinity",
       wrong - logits.begin(), position, window, model::describe_broken_weights(model));
}

}  // namespace

PerplexityResult perplexity(Runner& runner, std::span<const int32_t> tokens, int64_t window, int64_t max_windows,
                            std::optional<int32_t> bos, const LogitsFn& each,
                            const std::function<void(int64_t, int64_t)>& progress) {
  const int64_t count = static_cast<int64_t>(tokens.size());
  if (window < 4 || window > runner.options().context_tokens) {
    fail(ErrorCode::invalid_input, "window of {} tokens; expected 4 to the context of {}", window,
         runner.options().context_tokens);
  }
  if (count < 2 * window) {
    fail(ErrorCode::invalid_input, "the text has {} tokens; perplexity with windows of {} needs at least {}", count,
         window, 2 * window);
  }
  PerplexityResult result;
  const int64_t windows = max_windows > 0 ? std::min(max_windows, count / window) : count / window;
  const int64_t first = window / 2;
  double sum = 0, sum_squares = 0;
  for (int64_t w = 0; w < windows; ++w) {
    std::vector<int32_t> ids(tokens.begin() + w * window, tokens.begin() + (w + 1) * window);
    const std::vector<int32_t> targets = ids;
    if (bos) ids[0] = *bos;
    Sequence sequence(runner.cache());
    append_scored(runner, sequence, ids, first, [&](int64_t position, std::span<const float> logits) {
      if (position + 1 >= window) return;
      const double nll = surprise(logits, targets[static_cast<size_t>(position + 1)], w, position, runner.model());
      if (each) each(w, position, logits);
      sum += nll;
      sum_squares += nll * nll;
      ++result.scored_tokens;
    });
    if (progress) progress(w + 1, windows);
  }
  const double n = static_cast<double>(result.scored_tokens);
  result.windows = windows;
  result.mean_nll = sum / n;
  result.perplexity = std::exp(result.mean_nll);
  const double variance = std::max(0.0, sum_squares / n - result.mean_nll * result.mean_nll);
  result.standard_error = result.perplexity * std::sqrt(variance / std::max(1.0, n - 1));
  return result;
}

}  // namespace minfer::engine
