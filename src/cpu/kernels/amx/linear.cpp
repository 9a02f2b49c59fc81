// AMX linear kernels: AVX-512's tile, compiled with tdpbssd for the integer sums of its sweeps (see
// avx512/linear_tile.hpp), so that outputs have the same bits, for the types where that is faster
// (docs/performance.md). Plain types have nothing of it: the order of sums in tdpbf16ps is another than that of
// vdpbf16ps, and a row may not depend on the batch.
#include "cpu/kernels/avx512/linear_tile.hpp"
#include "cpu/launch/linear_kernels.hpp"

namespace minfer::cpu::amx {

LinearTileFn linear_tile(tensor::DType dtype) {
  using tensor::DType;
  switch (dtype) {
    case DType::q8_0:
      return avx512::linear_tile_of<avx512::Q8_0>;
    case DType::iq4_nl:
      return avx512::linear_tile_of<avx512::IQ4_NL>;
    case DType::iq4_xs:
      return avx512::linear_tile_of<avx512::IQ4_XS>;
    case DType::q5_k:
      return avx512::linear_tile_of<avx512::Q5_K>;
    default:
      return avx512::linear_tile(dtype);
  }
}

}  // namespace minfer::cpu::amx
