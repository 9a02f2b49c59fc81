// DRY ("don't repeat yourself", by p-e-w for text-generation-webui): a token that would continue a repetition of the
// recent text loses multiplier * base^(length - allowed length), where length is that of the longest earlier stretch
// that equals the end of the text and was followed by that token. Tokens in dry_breakers end a stretch. Linear in the
// look-back by the Z function of the reversed text.
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "engine/sampler/stages.hpp"

namespace minfer::engine {
namespace {

// z[i]: the length of the longest common prefix of s and s[i..].
std::vector<size_t> z_function(std::span<const int32_t> s) {
  std::vector<size_t> z(s.size(), 0);
  size_t left = 0, right = 0;
  for (size_t i = 1; i < s.size(); ++i) {
    size_t length = i < right ? std::min(right - i, z[i - left]) : 0;
    while (i + length < s.size() && s[length] == s[i + length]) ++length;
    z[i] = length;
    if (i + length > right) left = i, right = i + length;
  }
  return z;
}

// The history, newest first, cut at the look-back and before the newest breaker.
std::vector<int32_t> reversed_recent(const SamplerState& state) {
  const SamplerParams& p = state.params;
  size_t length = state.history.size();
  if (p.dry_penalty_last_n >= 0) length = std::min(length, static_cast<size_t>(p.dry_penalty_last_n));
  const auto recent = state.history.last(length);
  return {recent.rbegin(), recent.rend()};
}

}  // namespace

void apply_dry(SamplerState& state) {
  const SamplerParams& p = state.params;
  if (p.dry_multiplier == 0.0F || p.dry_penalty_last_n == 0) return;
  const std::vector<int32_t> text = reversed_recent(state);
  const auto is_breaker = [&](int32_t token) {
    return std::binary_search(p.dry_breakers.begin(), p.dry_breakers.end(), token);
  };
  // A stretch may not reach past the newest breaker, seen from the end of the text.
  const size_t most = static_cast<size_t>(std::find_if(text.begin(), text.end(), is_breaker) - text.begin());
  const std::vector<size_t> z = z_function(text);
  std::unordered_map<int32_t, size_t> longest;
  for (size_t i = 1; i < text.size(); ++i) {
    const size_t length = std::min(z[i], most);
    if (length < static_cast<size_t>(p.dry_allowed_length)) continue;
    size_t& best = longest[text[i - 1]];  // the token that followed the stretch
    best = std::max(best, length);
  }
  for (const auto& [token, length] : longest) {
    const double excess = static_cast<double>(length) - p.dry_allowed_length;
    const double penalty = p.dry_multiplier * std::pow(static_cast<double>(p.dry_base), excess);
    // A long repetition overflows to infinity, which forbids the token as it should.
    if (!is_breaker(token)) state.logits[static_cast<size_t>(token)] -= static_cast<float>(penalty);
  }
}

}  // namespace minfer::engine
