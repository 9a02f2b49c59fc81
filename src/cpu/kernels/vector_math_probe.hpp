// For vector_math_test.cpp: the vector functions of an instruction set over arrays. Each probe source is compiled with
// its set's flags; the test itself is not, so that no code of the test framework is built with instructions a machine
// may lack.
#pragma once

#include <cstdint>

#include "cpu/kernels/vector/math.hpp"

namespace minfer::cpu {

// out[i] = f(x[i]); n a multiple of 16.
struct MathProbe {
  using Function = void (*)(const float* x, int64_t n, float* out);
  Function exp;
  Function tanh;
  Function sigmoid;
  Function silu;
  Function gelu_tanh;
  Function gelu_erf;
};

namespace vector {

template <class S, class Apply>
void apply_all(const float* x, int64_t n, float* out, Apply apply) {
  for (int64_t i = 0; i < n; i += S::kLanes) S::store(out + i, apply(S::load(x + i)));
}

template <class S>
MathProbe make_probe() {
  using F = typename S::Float;
  MathProbe probe;
  probe.exp = [](const float* x, int64_t n, float* out) { apply_all<S>(x, n, out, [](F v) { return exp<S>(v); }); };
  probe.tanh = [](const float* x, int64_t n, float* out) { apply_all<S>(x, n, out, [](F v) { return tanh<S>(v); }); };
  probe.sigmoid = [](const float* x, int64_t n, float* out) {
    apply_all<S>(x, n, out, [](F v) { return sigmoid<S>(v); });
  };
  probe.silu = [](const float* x, int64_t n, float* out) { apply_all<S>(x, n, out, [](F v) { return silu<S>(v); }); };
  probe.gelu_tanh = [](const float* x, int64_t n, float* out) {
    apply_all<S>(x, n, out, [](F v) { return gelu_tanh<S>(v); });
  };
  probe.gelu_erf = [](const float* x, int64_t n, float* out) {
    apply_all<S>(x, n, out, [](F v) { return gelu_erf<S>(v); });
  };
  return probe;
}

}  // namespace vector

namespace avx2 {
MathProbe math_probe();
}
namespace avx512 {
MathProbe math_probe();
}

}  // namespace minfer::cpu
