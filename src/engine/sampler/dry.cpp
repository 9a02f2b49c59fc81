// DRY ("don't repeat yourself", by p-e-w for text-generation-webui): a token that would continue a repetition of the
// recent text loses multiplier * base^(length - allowed length), where length is that of the longest earlier stretch
// that equals the end of the text and was followed by that token. Tokens in dry_breakers end a stretch. Linear in the
// look-back by the Z function of the reversed text.
#include <algorithm>
#include <cmath>

#include "engine/sampler/stages.hpp"

namespace minfer::engine {
namespace {

// The history, newest first, cut at the look-back.
struct Reversed {
  std::span<const int32_t> recent;
  size_t size() const { return recent.size(); }
  int32_t operator[](size_t i) const { return recent[recent.size() - 1 - i]; }
};

Reversed reversed_recent(const SamplerParams& params, std::span<const int32_t> history) {
  size_t length = history.size();
  if (params.dry_penalty_last_n >= 0) length = std::min(length, static_cast<size_t>(params.dry_penalty_last_n));
  return {history.last(length)};
}

// z[i].id: the length of the longest common prefix of s and s[i..].
void z_function(const Reversed& s, std::vector<Candidate>& z) {
  if (z.capacity() < s.size()) z.reserve(2 * s.size());  // a text that grows token by token
  z.assign(s.size(), {0, 0.0F, 0.0F});
  size_t left = 0, right = 0;
  for (size_t i = 1; i < s.size(); ++i) {
    size_t length = i < right ? std::min(right - i, static_cast<size_t>(z[i - left].id)) : 0;
    while (i + length < s.size() && s[length] == s[i + length]) ++length;
    z[i].id = static_cast<int32_t>(length);
    if (i + length > right) left = i, right = i + length;
  }
}

}  // namespace

std::span<const Candidate> dry_penalties(const SamplerParams& params, std::span<const int32_t> history,
                                         std::vector<Candidate>& work) {
  const SamplerParams& p = params;
  work.clear();
  if (p.dry_multiplier == 0.0F || p.dry_penalty_last_n == 0) return {};
  const Reversed text = reversed_recent(p, history);
  const auto is_breaker = [&](int32_t token) {
    return std::binary_search(p.dry_breakers.begin(), p.dry_breakers.end(), token);
  };
  // A stretch may not reach past the newest breaker, seen from the end of the text.
  size_t most = 0;
  while (most < text.size() && !is_breaker(text[most])) ++most;
  // First z, then, in its place, the tokens that followed a stretch, with its length (exact to 2^24, where any penalty
  // is out of range).
  z_function(text, work);
  size_t kept = 0;
  for (size_t i = 1; i < text.size(); ++i) {
    const size_t length = std::min(static_cast<size_t>(work[i].id), most);
    if (length >= static_cast<size_t>(p.dry_allowed_length)) {
      work[kept++] = {text[i - 1], static_cast<float>(length), 0.0F};
    }
  }
  work.resize(kept);
  std::sort(work.begin(), work.end(), [](const Candidate& a, const Candidate& b) {
    return a.id < b.id || (a.id == b.id && a.logit > b.logit);  // of a token the longest first
  });
  size_t tokens = 0;
  for (size_t i = 0; i < kept; ++i) {
    if ((tokens > 0 && work[i].id == work[tokens - 1].id) || is_breaker(work[i].id)) continue;
    const double excess = static_cast<double>(work[i].logit) - p.dry_allowed_length;
    const double penalty = p.dry_multiplier * std::pow(static_cast<double>(p.dry_base), excess);
    // A long repetition overflows to infinity, which forbids the token as it should.
    work[tokens++] = {work[i].id, work[i].logit, static_cast<float>(penalty)};
  }
  return {work.data(), tokens};
}

void apply_dry(SamplerState& state) {
  // The candidates are not made yet: they are the working space, so that a draw allocates nothing.
  for (const Candidate& penalty : dry_penalties(state.params, state.history, state.candidates)) {
    state.logits[static_cast<size_t>(penalty.id)] -= penalty.p;
  }
}

}  // namespace minfer::engine
