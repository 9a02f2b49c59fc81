// The draw of speculative sampling (Leviathan et al., arXiv 2211.17192; Chen et al., arXiv 2302.01318): a token x that
// was drawn from q is kept with probability min(1, p(x) / q(x)); otherwise the token is drawn from the positive part of
// p - q. The result is distributed as p. XTC's coin, where it is on, has been thrown for p before: then p is the
// distribution under that coin, of which q knew nothing, so that the mixture stays exact too.
#include <algorithm>

#include "base/error.hpp"
#include "engine/sampler/stages.hpp"

namespace minfer::engine {
namespace {

float probability_of(int32_t id, std::span<const Candidate> candidates) {
  const auto found = std::find_if(candidates.begin(), candidates.end(), [&](const Candidate& c) { return c.id == id; });
  return found == candidates.end() ? 0.0F : found->p;
}

}  // namespace

int32_t draw_drafted(SamplerState& state, int32_t drafted, std::span<const Candidate> drafted_from) {
  softmax(state.candidates);
  const double q = static_cast<double>(probability_of(drafted, drafted_from));
  const double p = static_cast<double>(probability_of(drafted, state.candidates));
  check(q > 0, "a drafted token that its distribution doesn't have");
  if (uniform(state.random) * q < p) return drafted;

  // q by token id, where the target has candidates: the logits are not needed any more.
  std::vector<float>& q_of = state.logits;
  for (const Candidate& c : state.candidates) q_of[static_cast<size_t>(c.id)] = 0;
  for (const Candidate& c : drafted_from) q_of[static_cast<size_t>(c.id)] = c.p;
  const auto excess = [&](const Candidate& c) {
    return std::max(0.0, static_cast<double>(c.p) - static_cast<double>(q_of[static_cast<size_t>(c.id)]));
  };
  double total = 0;
  for (const Candidate& c : state.candidates) total += excess(c);
  // Where p and q differ by rounding alone, there may be no excess.
  if (total <= 0) return draw(state);
  const double target = uniform(state.random) * total;
  double sum = 0;
  int32_t id = state.candidates.front().id;
  for (const Candidate& c : state.candidates) {
    if (excess(c) <= 0) continue;
    id = c.id;
    sum += excess(c);
    if (target < sum) break;
  }
  return id;
}

}  // namespace minfer::engine
