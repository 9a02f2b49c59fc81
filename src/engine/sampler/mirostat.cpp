// Mirostat (arXiv 2007.14966): keeps the surprise of the drawn tokens near tau, by a bound mu that each draw corrects
// by eta. Version 1 turns mu into a k by an estimate of the Zipf exponent; version 2 cuts at surprise mu itself.
#include <algorithm>
#include <cmath>

#include "engine/sampler/stages.hpp"

namespace minfer::engine {
namespace {

// Draws, and moves mu towards the target by the drawn token's surprise in bits.
int32_t draw_and_learn(SamplerState& state) {
  const int32_t id = draw(state);
  const auto drawn =
      std::find_if(state.candidates.begin(), state.candidates.end(), [&](const Candidate& c) { return c.id == id; });
  learn_surprise(state.params, -std::log2(drawn->p), state.mirostat_mu);
  return id;
}

// The Zipf exponent of the head of the distribution (the paper's estimate over the first 100 tokens).
double zipf_exponent(const std::vector<Candidate>& candidates) {
  constexpr size_t kHead = 100;
  double sum_tb = 0, sum_tt = 0;
  for (size_t i = 0; i + 1 < std::min(kHead, candidates.size()); ++i) {
    if (candidates[i + 1].p <= 0) break;
    const double t = std::log(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    const double b = std::log(static_cast<double>(candidates[i].p) / static_cast<double>(candidates[i + 1].p));
    sum_tb += t * b;
    sum_tt += t * t;
  }
  return sum_tt > 0 ? sum_tb / sum_tt : 1.0;
}

}  // namespace

void learn_surprise(const SamplerParams& params, float surprise, float& mu) {
  mu -= params.mirostat_eta * (surprise - params.mirostat_tau);
}

int32_t draw_mirostat_1(SamplerState& state) {
  softmax(state.candidates);
  const double s = zipf_exponent(state.candidates);
  const double n = static_cast<double>(state.logits.size());
  const double epsilon = s - 1.0;
  const double base = epsilon * std::exp2(static_cast<double>(state.mirostat_mu)) / (1.0 - std::pow(n, -epsilon));
  const double k = std::pow(base, 1.0 / s);
  const double count = static_cast<double>(state.candidates.size());
  // The estimate has no finite value for s = 1 and flat heads: then nothing is cut.
  const size_t keep = std::isfinite(k) ? static_cast<size_t>(std::clamp(k, 1.0, count)) : state.candidates.size();
  state.candidates.resize(keep);
  return draw_and_learn(state);
}

int32_t draw_mirostat_2(SamplerState& state) {
  softmax(state.candidates);
  size_t keep = 0;
  while (keep < state.candidates.size() && -std::log2(state.candidates[keep].p) <= state.mirostat_mu) ++keep;
  state.candidates.resize(std::max<size_t>(keep, 1));
  return draw_and_learn(state);
}

}  // namespace minfer::engine
