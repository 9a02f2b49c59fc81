// The vector functions of avx512 for vector_math_test.cpp. See kernels/vector_math_probe.hpp.
#include "cpu/kernels/vector_math_probe.hpp"

#include "cpu/kernels/avx512/vector_math.hpp"

namespace minfer::cpu::avx512 {

MathProbe math_probe() {
  return vector::make_probe<Simd>();
}

}  // namespace minfer::cpu::avx512
