// Stages that choose candidates: top-k, typical (arXiv 2202.00666), top-p (arXiv 1904.09751), min-p (arXiv 2407.01082),
// XTC (p-e-w), temperature, and the draw. Candidates stay in descending order of logit, ties in order of id, so that
// results do not depend on the sort.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/sampler/stages.hpp"

namespace minfer::engine {
namespace {

bool ranks_before(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

// Keeps the first `count` candidates, at least one.
void keep_first(std::vector<Candidate>& candidates, size_t count) {
  candidates.resize(std::clamp<size_t>(count, 1, candidates.size()));
}

}  // namespace

double uniform(std::mt19937_64& random) {
  return static_cast<double>(random() >> 11) * 0x1.0p-53;
}

void select_top_k(SamplerState& state, int32_t k) {
  const size_t vocabulary = state.logits.size();
  const size_t keep = k == 0 ? vocabulary : std::min(static_cast<size_t>(k), vocabulary);
  auto& candidates = state.candidates;
  candidates.clear();
  // A heap of the best so far, its worst at the front: almost every logit fails one comparison.
  for (size_t id = 0; id < vocabulary; ++id) {
    const Candidate candidate{static_cast<int32_t>(id), state.logits[id], 0.0F};
    if (keep == vocabulary) {
      candidates.push_back(candidate);
    } else if (candidates.size() < keep) {
      candidates.push_back(candidate);
      std::push_heap(candidates.begin(), candidates.end(), ranks_before);
    } else if (candidate.logit > candidates.front().logit) {
      std::pop_heap(candidates.begin(), candidates.end(), ranks_before);
      candidates.back() = candidate;
      std::push_heap(candidates.begin(), candidates.end(), ranks_before);
    }
  }
  std::sort(candidates.begin(), candidates.end(), ranks_before);
}

void softmax(std::vector<Candidate>& candidates) {
  const float largest = candidates.front().logit;
  double sum = 0;
  for (Candidate& candidate : candidates) {
    candidate.p = std::exp(candidate.logit - largest);
    sum += candidate.p;
  }
  for (Candidate& candidate : candidates) candidate.p = static_cast<float>(candidate.p / sum);
}

void apply_typical(SamplerState& state) {
  if (state.params.typical_p >= 1.0F) return;
  auto& candidates = state.candidates;
  softmax(candidates);
  double entropy = 0;
  for (const Candidate& c : candidates) {
    if (c.p > 0) entropy -= static_cast<double>(c.p) * std::log(static_cast<double>(c.p));
  }
  const auto distance = [&](const Candidate& c) { return std::fabs(-std::log(static_cast<double>(c.p)) - entropy); };
  // Not a stable sort: that one allocates.
  std::sort(candidates.begin(), candidates.end(), [&](const Candidate& a, const Candidate& b) {
    const double of_a = distance(a), of_b = distance(b);
    return of_a < of_b || (of_a == of_b && ranks_before(a, b));
  });
  double sum = 0;
  size_t count = 0;
  while (count < candidates.size() && sum < static_cast<double>(state.params.typical_p)) sum += candidates[count++].p;
  keep_first(candidates, count);
  std::sort(candidates.begin(), candidates.end(), ranks_before);
}

void apply_top_p(SamplerState& state) {
  if (state.params.top_p >= 1.0F) return;
  softmax(state.candidates);
  double sum = 0;
  size_t count = 0;
  while (count < state.candidates.size() && sum < static_cast<double>(state.params.top_p)) {
    sum += state.candidates[count++].p;
  }
  keep_first(state.candidates, count);
}

void apply_min_p(SamplerState& state) {
  if (state.params.min_p <= 0.0F) return;
  const float least = state.candidates.front().logit + std::log(state.params.min_p);
  size_t count = 0;
  while (count < state.candidates.size() && state.candidates[count].logit >= least) ++count;
  keep_first(state.candidates, count);
}

void apply_xtc(SamplerState& state) {
  const SamplerParams& p = state.params;
  // A threshold above one half can't have two tokens over it.
  if (p.xtc_probability <= 0.0F || p.xtc_threshold > 0.5F || state.candidates.size() < 2) return;
  if (uniform(state.random) >= static_cast<double>(p.xtc_probability)) return;
  softmax(state.candidates);
  size_t above = 0;
  while (above < state.candidates.size() && state.candidates[above].p >= p.xtc_threshold) ++above;
  // Of the tokens over the threshold the least likely stays.
  if (above >= 2)
    state.candidates.erase(state.candidates.begin(), state.candidates.begin() + static_cast<long>(above - 1));
}

void apply_temperature(SamplerState& state) {
  // From the largest down, so that no quotient overflows at a tiny temperature.
  const float largest = state.candidates.front().logit;
  for (Candidate& candidate : state.candidates) {
    candidate.logit = (candidate.logit - largest) / state.params.temperature;
  }
}

int32_t draw(SamplerState& state) {
  softmax(state.candidates);
  const double target = uniform(state.random);
  double sum = 0;
  int32_t id = state.candidates.front().id;
  for (const Candidate& candidate : state.candidates) {
    if (candidate.p <= 0) continue;
    id = candidate.id;
    sum += candidate.p;
    if (target < sum) break;
  }
  return id;  // the last possible one where rounding left the sum just under 1
}

}  // namespace minfer::engine
