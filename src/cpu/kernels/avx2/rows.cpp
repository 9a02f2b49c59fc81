// The row kernels for AVX2: kernels/vector/rows.hpp over avx2::Simd. Compiled with the flags of its instruction set, so
// it includes no header whose inline functions other sources share.
#include "cpu/kernels/vector/rows.hpp"

#include "cpu/kernels/avx2/vector_math.hpp"

namespace minfer::cpu::avx2 {

const RowKernels& row_kernels() noexcept {
  return vector::kRowKernels<Simd>;
}

}  // namespace minfer::cpu::avx2
