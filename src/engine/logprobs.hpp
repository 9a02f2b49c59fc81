// Log-probabilities of the tokens of one row of logits: log-softmax of what the model gave, before any stage of the
// sampler, and the likeliest tokens. Sums are made in double in a fixed order, so that equal rows give equal bits. The
// likeliest are found by one pass that keeps the best so far; nothing is sorted, and nothing allocated after the
// construction. One thread uses it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/request.hpp"

namespace minfer::engine {

class Logprobs {
 public:
  // Of the `most` likeliest tokens, 0 or more.
  explicit Logprobs(int32_t most);

  // Reads a row [vocabulary] of logits without NaN and +infinity, one of them finite: as the sampler leaves through.
  void read(std::span<const float> logits);
  // Of a token by its logit in the row read last; -infinity where that is.
  float of(float logit) const { return static_cast<float>(static_cast<double>(logit) - log_sum_); }
  // The likeliest first, ties by id; fewer than `most` in a smaller vocabulary. Valid until the next read().
  std::span<const TokenLogprob> top() const { return top_; }

 private:
  void select(std::span<const float> logits);

  size_t most_;
  double log_sum_ = 0;             // log of the sum of exp(logit)
  std::vector<TokenLogprob> top_;  // of select() on, with logits in place of their log-probabilities
};

}  // namespace minfer::engine
