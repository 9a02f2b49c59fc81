// exp, tanh, sigmoid, silu and gelu over one vector register, written once over S, the register type of an instruction
// set (avx2::Simd, avx512::Simd in kernels/<isa>/vector_math.hpp, which also gives them their plain names). Included
// only by sources that are compiled for that set; every symbol carries S in its name, so no code crosses to another
// set. Errors against double precision, measured over the floats of the whole range (vector_math_test.cpp): exp 1 ulp,
// subnormal results included; tanh 2 ulp; sigmoid and silu 3 ulp while exp(-x) is finite (x > -88.7), under it 0;
// gelu_tanh and gelu_erf relative 2.5e-7 and 4.5e-7 times (1 + x^2) for x > -10. NaN gives NaN. silu, gelu_tanh and
// gelu_erf of -inf are NaN (inf / inf, inf * 0).
// Method: exp(x) = 2^n e^r, n = round(x / ln 2), e^r = 1 + r + r^2 q(r), q of degree 4 fitted for least relative error
// on |r| <= ln2 / 2; tanh(x) = x + x^3 p(x^2) under 0.625, p of degree 4 fitted alike, else 1 - 2 / (exp(2|x|) + 1);
// erfc(t) = exp(-t^2) u p(u), u = 1 / (1 + t / 2), p of degree 8 fitted for least relative error on 0 <= t <= 10.
#pragma once

#include "graph/enums.hpp"

namespace minfer::cpu::vector {

template <class S>
inline typename S::Float exp(typename S::Float x) {
  using F = typename S::Float;
  // Outside the range the result is 0 or inf anyhow; min and max give back their second operand where one is NaN.
  x = S::min(S::set1(89.0f), S::max(S::set1(-104.0f), x));
  const F n = S::round(S::mul(x, S::set1(1.44269504f)));
  F r = S::fnma(n, S::set1(0.693145751953125f), x);  // ln 2 in two parts, the first short enough to be exact times n
  r = S::fnma(n, S::set1(1.42860677e-6f), r);
  F q = S::set1(0.0013814596f);
  q = S::fma(q, r, S::set1(0.0083687171f));
  q = S::fma(q, r, S::set1(0.0416683881f));
  q = S::fma(q, r, S::set1(0.1666652063f));
  q = S::fma(q, r, S::set1(0.4999999345f));
  const F power = S::add(S::fma(q, S::mul(r, r), r), S::set1(1.0f));
  return S::scale_by_power(power, n);
}

template <class S>
inline typename S::Float tanh(typename S::Float x) {
  using F = typename S::Float;
  const F magnitude = S::abs(x);
  const F square = S::mul(x, x);
  F p = S::set1(-0.005704978374f);
  p = S::fma(p, square, S::set1(0.02063907874f));
  p = S::fma(p, square, S::set1(-0.05373971216f));
  p = S::fma(p, square, S::set1(0.1333144216f));
  p = S::fma(p, square, S::set1(-0.3333328194f));
  const F near_zero = S::fma(S::mul(magnitude, square), p, magnitude);
  const F power = vector::exp<S>(S::add(magnitude, magnitude));
  const F far = S::sub(S::set1(1.0f), S::div(S::set1(2.0f), S::add(power, S::set1(1.0f))));
  return S::with_sign_of(S::select_less(magnitude, S::set1(0.625f), near_zero, far), x);
}

template <class S>
inline typename S::Float sigmoid(typename S::Float x) {
  const typename S::Float one = S::set1(1.0f);
  return S::div(one, S::add(one, vector::exp<S>(S::sub(S::set1(0.0f), x))));
}

// x * sigmoid(x)
template <class S>
inline typename S::Float silu(typename S::Float x) {
  return S::div(x, S::add(S::set1(1.0f), vector::exp<S>(S::sub(S::set1(0.0f), x))));
}

// x / 2 * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), as x * sigmoid(2u): nothing cancels for negative x.
template <class S>
inline typename S::Float gelu_tanh(typename S::Float x) {
  using F = typename S::Float;
  const F minus_two_u = S::mul(x, S::fma(S::mul(x, x), S::set1(-0.0713548163f), S::set1(-1.59576912f)));
  return S::div(x, S::add(S::set1(1.0f), vector::exp<S>(minus_two_u)));
}

// x / 2 * (1 + erf(x / sqrt(2))): half of erfc(|x| / sqrt(2)) is the part of x that is left for x < 0, and is taken
// from it for x > 0, so nothing cancels.
template <class S>
inline typename S::Float gelu_erf(typename S::Float x) {
  using F = typename S::Float;
  const F magnitude = S::abs(x);
  const F u = S::div(S::set1(1.0f), S::fma(magnitude, S::set1(0.353553391f), S::set1(1.0f)));
  F p = S::set1(-0.0295345786f);  // half of p
  p = S::fma(p, u, S::set1(0.142287947f));
  p = S::fma(p, u, S::set1(-0.243600879f));
  p = S::fma(p, u, S::set1(0.139034599f));
  p = S::fma(p, u, S::set1(-0.0133135007f));
  p = S::fma(p, u, S::set1(0.101343701f));
  p = S::fma(p, u, S::set1(0.121551832f));
  p = S::fma(p, u, S::set1(0.141187662f));
  p = S::fma(p, u, S::set1(0.141043209f));
  const F power = vector::exp<S>(S::mul(S::mul(x, x), S::set1(-0.5f)));
  const F half = S::mul(power, S::mul(u, p));
  return S::mul(x, S::select_less(x, S::set1(0.0f), half, S::sub(S::set1(1.0f), half)));
}

// The gated product of graph::Activation::swiglu_oai. NaN stays: min and max give their second operand then.
template <class S>
inline typename S::Float swiglu_oai(typename S::Float gate, typename S::Float up) {
  using F = typename S::Float;
  const F limit = S::set1(graph::kSwigluOaiLimit);
  const F g = S::min(limit, gate);
  const F u = S::max(S::set1(-graph::kSwigluOaiLimit), S::min(limit, up));
  const F power = vector::exp<S>(S::mul(g, S::set1(-graph::kSwigluOaiAlpha)));
  return S::mul(S::div(g, S::add(S::set1(1.0f), power)), S::add(u, S::set1(1.0f)));
}

}  // namespace minfer::cpu::vector
