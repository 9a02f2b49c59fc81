// Scalar: the functions of the vector instruction sets for one float, by the same names; the oracle of kernels. exp and
// tanh are the C library's. The forms of silu, gelu_tanh and gelu_erf are those of kernels/vector/math.hpp, in which
// nothing cancels.
#pragma once

#include <cmath>

#include "graph/enums.hpp"

namespace minfer::cpu::scalar {

inline float sigmoid(float x) {
  return 1.0f / (1.0f + std::exp(-x));
}
inline float silu(float x) {
  return x / (1.0f + std::exp(-x));
}
// x / 2 * (1 + tanh(u)) = x * sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3)
inline float gelu_tanh(float x) {
  return x / (1.0f + std::exp(x * (-1.59576912f - 0.0713548163f * x * x)));
}

// x / 2 * (1 + erf(x / sqrt(2)))
inline float gelu_erf(float x) {
  return x * (0.5f * std::erfc(x * -0.70710678f));
}

// The gated product of graph::Activation::swiglu_oai; NaN stays.
inline float swiglu_oai(float gate, float up) {
  const float g = gate > graph::kSwigluOaiLimit ? graph::kSwigluOaiLimit : gate;
  const float below = up > graph::kSwigluOaiLimit ? graph::kSwigluOaiLimit : up;
  const float u = below < -graph::kSwigluOaiLimit ? -graph::kSwigluOaiLimit : below;
  return g / (1.0f + std::exp(-graph::kSwigluOaiAlpha * g)) * (u + 1.0f);
}

}  // namespace minfer::cpu::scalar
