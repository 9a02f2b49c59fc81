// The row kernels for AVX-512: kernels/vector/rows.hpp over avx512::Simd. Compiled with the flags of its instruction
// set, so it includes no header whose inline functions other sources share.
#include "cpu/kernels/vector/rows.hpp"

#include "cpu/kernels/avx512/vector_math.hpp"

namespace minfer::cpu::avx512 {

const RowKernels& row_kernels() noexcept {
  return vector::kRowKernels<Simd>;
}

}  // namespace minfer::cpu::avx512
