// Perplexity of a text as the field measures it (llama-perplexity's default): the tokens are cut in windows of `window`
// without overlap; in each, from the middle on, every token is predicted from those before it in the window, and
// perplexity is exp of the mean negative log probability. Where the model adds BOS, it replaces each window's first
// token.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "engine/runner.hpp"

namespace minfer::engine {

struct PerplexityResult {
  double perplexity = 0;
  double mean_nll = 0;        // natural logarithm
  double standard_error = 0;  // of the perplexity
  int64_t windows = 0;
  int64_t scored_tokens = 0;
};

// Called for each scored token with the window, the position in it of the predicting token, and its logits.
using LogitsFn = std::function<void(int64_t window, int64_t position, std::span<const float> logits)>;

// `bos`: the BOS token where the model adds one. `each` may be empty; so may `progress`. Errors: invalid_input for a
// text shorter than two windows, a window under 4 tokens or beyond the runner's context, or logits that are no numbers
// (broken weights).
PerplexityResult perplexity(Runner& runner, std::span<const int32_t> tokens, int64_t window, int64_t max_windows,
                            std::optional<int32_t> bos, const LogitsFn& each,
                            const std::function<void(int64_t done, int64_t total)>& progress);

}  // namespace minfer::engine
