// The vector functions of avx2 for vector_math_test.cpp. See kernels/vector_math_probe.hpp.
#include "cpu/kernels/vector_math_probe.hpp"

#include "cpu/kernels/avx2/vector_math.hpp"

namespace minfer::cpu::avx2 {

MathProbe math_probe() {
  return vector::make_probe<Simd>();
}

}  // namespace minfer::cpu::avx2
