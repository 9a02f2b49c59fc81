// Log-softmax and partial selection. See logprobs.hpp.
#include "engine/logprobs.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace minfer::engine {
namespace {

// Independent sums, which the processor adds at the same time.
constexpr size_t kSums = 8;

double sum_of_exponentials(std::span<const float> logits, float largest) {
  std::array<double, kSums> sums{};
  size_t i = 0;
  for (; i + kSums <= logits.size(); i += kSums) {
    for (size_t lane = 0; lane < kSums; ++lane) {
      sums[lane] += static_cast<double>(std::exp(logits[i + lane] - largest));
    }
  }
  for (; i < logits.size(); ++i) sums[i % kSums] += static_cast<double>(std::exp(logits[i] - largest));
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum;
}

}  // namespace

Logprobs::Logprobs(int32_t most) : most_(static_cast<size_t>(most)) {
  top_.reserve(most_ + 1);
}

// A token that is equal to one before it comes behind that one: ids ascend.
void Logprobs::select(std::span<const float> logits) {
  top_.clear();
  if (most_ == 0) return;
  const auto is_before = [](float logit, const TokenLogprob& kept) { return logit > kept.logprob; };
  for (size_t id = 0; id < logits.size(); ++id) {
    if (top_.size() == most_ && !(logits[id] > top_.back().logprob)) continue;
    const auto place = std::upper_bound(top_.begin(), top_.end(), logits[id], is_before);
    top_.insert(place, {static_cast<int32_t>(id), logits[id]});
    if (top_.size() > most_) top_.pop_back();
  }
}

void Logprobs::read(std::span<const float> logits) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  log_sum_ = static_cast<double>(largest) + std::log(sum_of_exponentials(logits, largest));
  select(logits);
  for (TokenLogprob& token : top_) token.logprob = of(token.logprob);
}

}  // namespace minfer::engine
