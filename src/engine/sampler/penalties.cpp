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

// Which tokens the penalties look back on, ascending, with how often each occurs (as p): in `working`. Behind the
// history there are `unknown` tokens more, which are left out.
std::span<const Candidate> count_recent(const SamplerParams& params, std::span<const int32_t> history, int32_t unknown,
                                        std::vector<Candidate>& working) {
  if (params.penalty_last_n > 0) {
    const int32_t known = std::max(0, params.penalty_last_n - unknown);
    history = history.last(std::min(history.size(), static_cast<size_t>(known)));
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
  for (const Candidate& counted : count_recent(p, state.history, 0, state.candidates)) {
    float& logit = state.logits[static_cast<size_t>(counted.id)];
    logit = logit > 0 ? logit / p.repeat_penalty : logit * p.repeat_penalty;
    logit -= to_subtract(p, counted);
  }
}

void collect_edits(const SamplerParams& params, std::span<const int32_t> history, int32_t unknown,
                   std::vector<Candidate>& working, std::vector<graph::LogitEdit>& edits) {
  edits.clear();
  // Those of one token behind one another: they add up in the order of apply_logit_bias.
  for (const auto& [token, bias] : params.logit_bias) {
    if (edits.empty() || edits.back().token != token) edits.push_back({token, 0.0F, 0, 0.0F});
    edits.back().bias += bias;
  }
  if (has_penalties(params) && params.penalty_last_n != 0) {
    for (const Candidate& counted : count_recent(params, history, unknown, working)) {
      edits.push_back({counted.id, 0.0F, static_cast<int32_t>(counted.p), 0.0F});
    }
  }
  for (const Candidate& penalty : dry_penalties(params, history, working)) {
    edits.push_back({penalty.id, 0.0F, 0, penalty.p});
  }
  // A token is now in it at most once of each kind.
  std::sort(edits.begin(), edits.end(),
            [](const graph::LogitEdit& a, const graph::LogitEdit& b) { return a.token < b.token; });
  size_t kept = 0;
  for (const graph::LogitEdit& edit : edits) {
    if (kept > 0 && edits[kept - 1].token == edit.token) {
      edits[kept - 1].bias += edit.bias;
      edits[kept - 1].count += edit.count;
      edits[kept - 1].dry += edit.dry;
    } else {
      edits[kept++] = edit;
    }
  }
  edits.resize(kept);
}

}  // namespace minfer::engine
