// Stages on the logits: bias, and the penalties on tokens of the last n.
//   repeat (arXiv 1909.05858): a logit above 0 is divided by the penalty, another multiplied
//   frequency, presence (OpenAI's API): minus count * frequency, minus presence where the token occurs
#include <algorithm>

#include "engine/sampler/stages.hpp"

namespace minfer::engine {

void apply_logit_bias(SamplerState& state) {
  for (const auto& [token, bias] : state.params.logit_bias) state.logits[static_cast<size_t>(token)] += bias;
}

namespace {

// Which tokens the penalties look back on, ascending, with how often each occurs (as p): in `working`.
std::span<const Candidate> count_recent(const SamplerParams& params, std::span<const int32_t> history,
                                        std::vector<Candidate>& working) {
  if (params.penalty_last_n > 0) {
    history = history.last(std::min(history.size(), static_cast<size_t>(params.penalty_last_n)));
  }
  working.clear();
  for (const int32_t token : history) working.push_back({token, 0.0F, 1.0F});
  std::sort(working.begin(), working.end(), [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  size_t kept = 0;
  for (const Candidate& token : working) {
    if (kept > 0 && working[kept - 1].id == token.id) {
      working[kept - 1].p += 1.0F;
    } else {
      working[kept++] = token;
    }
  }
  return {working.data(), kept};
}

float to_subtract(const SamplerParams& params, const Candidate& counted) {
  return counted.p * params.frequency_penalty + params.presence_penalty;
}

}  // namespace

bool has_penalties(const SamplerParams& params) {
  return params.repeat_penalty != 1.0F || params.frequency_penalty != 0.0F || params.presence_penalty != 0.0F;
}

void apply_penalties(SamplerState& state) {
  const SamplerParams& p = state.params;
  if (!has_penalties(p) || p.penalty_last_n == 0) return;
  // The candidates are not made yet: working space, so that a draw allocates nothing.
  for (const Candidate& counted : count_recent(p, state.history, state.candidates)) {
    float& logit = state.logits[static_cast<size_t>(counted.id)];
    logit = logit > 0 ? logit / p.repeat_penalty : logit * p.repeat_penalty;
    logit -= to_subtract(p, counted);
  }
}

void collect_edits(const SamplerParams& params, std::span<const int32_t> history, std::vector<Candidate>& working,
                   std::vector<graph::LogitEdit>& edits) {
  edits.clear();
  for (const auto& [token, bias] : params.logit_bias) edits.push_back({token, bias, 1.0F, 0.0F, 0.0F});
  if (has_penalties(params) && params.penalty_last_n != 0) {
    for (const Candidate& counted : count_recent(params, history, working)) {
      edits.push_back({counted.id, 0.0F, params.repeat_penalty, to_subtract(params, counted), 0.0F});
    }
  }
  for (const Candidate& penalty : dry_penalties(params, history, working)) {
    edits.push_back({penalty.id, 0.0F, 1.0F, 0.0F, penalty.p});
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
      edits[kept - 1].dry += edits[at].dry;
    } else {
      edits[kept++] = edits[at];
    }
  }
  edits.resize(kept);
}

}  // namespace minfer::engine
