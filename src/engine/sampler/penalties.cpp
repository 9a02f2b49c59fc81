// Stages on the logits: bias, and the penalties on tokens of the last n.
//   repeat (arXiv 1909.05858): a logit above 0 is divided by the penalty, another multiplied
//   frequency, presence (OpenAI's API): minus count * frequency, minus presence where the token occurs
#include <algorithm>

#include "engine/sampler/stages.hpp"

namespace minfer::engine {

void apply_logit_bias(SamplerState& state) {
  for (const auto& [token, bias] : state.params.logit_bias) state.logits[static_cast<size_t>(token)] += bias;
}

bool has_penalties(const SamplerParams& params) {
  return params.repeat_penalty != 1.0F || params.frequency_penalty != 0.0F || params.presence_penalty != 0.0F;
}

void apply_penalties(SamplerState& state) {
  const SamplerParams& p = state.params;
  if (!has_penalties(p) || p.penalty_last_n == 0) return;
  std::span<const int32_t> recent = state.history;
  if (p.penalty_last_n > 0) recent = recent.last(std::min(recent.size(), static_cast<size_t>(p.penalty_last_n)));
  auto& sorted = state.candidates;  // not made yet: working space, so that a draw allocates nothing
  sorted.clear();
  for (const int32_t token : recent) sorted.push_back({token, 0.0F, 0.0F});
  std::sort(sorted.begin(), sorted.end(), [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  for (size_t at = 0, end = 0; at < sorted.size(); at = end) {
    while (end < sorted.size() && sorted[end].id == sorted[at].id) ++end;
    float& logit = state.logits[static_cast<size_t>(sorted[at].id)];
    logit = logit > 0 ? logit / p.repeat_penalty : logit * p.repeat_penalty;
    logit -= static_cast<float>(end - at) * p.frequency_penalty + p.presence_penalty;
  }
}

void collect_edits(const SamplerParams& params, std::span<const int32_t> history, std::vector<int32_t>& working,
                   std::vector<graph::LogitEdit>& edits) {
  edits.clear();
  for (const auto& [token, bias] : params.logit_bias) edits.push_back({token, bias, 1.0F, 0.0F});
  working.clear();
  if (has_penalties(params) && params.penalty_last_n != 0) {
    if (params.penalty_last_n > 0) {
      history = history.last(std::min(history.size(), static_cast<size_t>(params.penalty_last_n)));
    }
    working.assign(history.begin(), history.end());
    std::sort(working.begin(), working.end());
  }
  for (size_t at = 0, end = 0; at < working.size(); at = end) {
    while (end < working.size() && working[end] == working[at]) ++end;
    const float subtract = static_cast<float>(end - at) * params.frequency_penalty + params.presence_penalty;
    edits.push_back({working[at], 0.0F, params.repeat_penalty, subtract});
  }
  // Biases of a token add up, before its penalties.
  std::stable_sort(edits.begin(), edits.end(),
                   [](const graph::LogitEdit& a, const graph::LogitEdit& b) { return a.token < b.token; });
  size_t kept = 0;
  for (size_t at = 0; at < edits.size(); ++at) {
    if (kept > 0 && edits[kept - 1].token == edits[at].token) {
      edits[kept - 1].bias += edits[at].bias;
      edits[kept - 1].repeat *= edits[at].repeat;
      edits[kept - 1].subtract += edits[at].subtract;
    } else {
      edits[kept++] = edits[at];
    }
  }
  edits.resize(kept);
}

}  // namespace minfer::engine
