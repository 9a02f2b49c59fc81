// RoPE frequencies, computed in double. See rope.hpp.
#include "model/rope.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace minfer::model {
namespace {

// The (fractional) pair whose angle turns `rotations` times over the original context.
double yarn_pair(const Rope& rope, double rotations) {
  const double context = static_cast<double>(rope.original_context);
  return static_cast<double>(rope.dims) * std::log(context / (rotations * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(static_cast<double>(rope.base)));
}

// How much of a pair's angle is kept unscaled: 1 below `low`, 0 above `high`, a ramp between.
double yarn_kept(double pair, double low, double high) {
  const double ramp = (pair - low) / std::max(0.001, high - low);
  return 1.0 - std::clamp(ramp, 0.0, 1.0);
}

}  // namespace

graph::RopeAnglesAttributes rope_frequencies(const Rope& rope) {
  const int64_t pairs = rope.dims / 2;
  const double factor = rope.scaling == Rope::Scaling::none ? 1.0 : static_cast<double>(rope.factor);
  graph::RopeAnglesAttributes angles{std::vector<float>(static_cast<size_t>(pairs)), 1.0F};
  double low = 0, high = 0;
  if (rope.scaling == Rope::Scaling::yarn) {
    low = yarn_pair(rope, rope.yarn_beta_fast);
    high = yarn_pair(rope, rope.yarn_beta_slow);
    low = std::max(0.0, rope.yarn_truncated ? std::floor(low) : low);
    high = std::min(static_cast<double>(rope.dims - 1), rope.yarn_truncated ? std::ceil(high) : high);
    const double magnitude = (1.0 + 0.1 * std::log(factor)) / (1.0 + 0.1 * rope.yarn_log_multiplier * std::log(factor));
    angles.magnitude = static_cast<float>(rope.yarn_attention_factor * magnitude);
  }
  if (rope.scaling == Rope::Scaling::longrope) angles.magnitude = rope.yarn_attention_factor;
  for (int64_t i = 0; i < pairs; ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(rope.dims);
    double frequency = std::pow(static_cast<double>(rope.base), -exponent);
    if (!rope.frequency_divisors.empty()) frequency /= rope.frequency_divisors[static_cast<size_t>(i)];
    if (rope.scaling == Rope::Scaling::linear) frequency /= factor;
    if (rope.scaling == Rope::Scaling::yarn) {
      const double kept = yarn_kept(static_cast<double>(i), low, high);
      frequency = frequency / factor * (1.0 - kept) + frequency * kept;
    }
    angles.inverse_frequencies[static_cast<size_t>(i)] = static_cast<float>(frequency);
  }
  return angles;
}

}  // namespace minfer::model
