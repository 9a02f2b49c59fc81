// Stages on the logits: bias, and the penalties on tokens of the last n.
//   repeat (arXiv 1909.05858): a logit above 0 is divided by the penalty, another multiplied
//   frequency, presence (OpenAI's API): minus count * frequency, minus presence where the token occurs
#include <algorithm>
#include <unordered_map>

#include "engine/sampler/stages.hpp"

namespace minfer::engine {

void apply_logit_bias(SamplerState& state) {
  for (const auto& [token, bias] : state.params.logit_bias) state.logits[static_cast<size_t>(token)] += bias;
}

void apply_penalties(SamplerState& state) {
  const SamplerParams& p = state.params;
  const bool off = p.repeat_penalty == 1.0F && p.frequency_penalty == 0.0F && p.presence_penalty == 0.0F;
  if (off || p.penalty_last_n == 0) return;
  std::span<const int32_t> recent = state.history;
  if (p.penalty_last_n > 0) recent = recent.last(std::min(recent.size(), static_cast<size_t>(p.penalty_last_n)));
  std::unordered_map<int32_t, int32_t> counts;
  for (const int32_t token : recent) ++counts[token];
  for (const auto& [token, count] : counts) {
    float& logit = state.logits[static_cast<size_t>(token)];
    logit = logit > 0 ? logit / p.repeat_penalty : logit * p.repeat_penalty;
    logit -= static_cast<float>(count) * p.frequency_penalty + p.presence_penalty;
  }
}

}  // namespace minfer::engine
