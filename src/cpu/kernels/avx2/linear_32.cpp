// AVX2 linear kernels of the types with blocks of 32. See linear_tile.hpp.
#include "cpu/kernels/avx2/linear_families.hpp"
#include "cpu/kernels/avx2/linear_tile.hpp"

namespace minfer::cpu::avx2 {

LinearTileFn linear_tile_32(tensor::DType dtype) {
  using tensor::DType;
  switch (dtype) {
    case DType::q4_0:
      return linear_tile_of<Q4_0>;
    case DType::q4_1:
      return linear_tile_of<Q4_1>;
    case DType::q5_0:
      return linear_tile_of<Q5_0>;
    case DType::q5_1:
      return linear_tile_of<Q5_1>;
    case DType::q8_0:
      return linear_tile_of<Q8_0>;
    case DType::iq4_nl:
      return linear_tile_of<IQ4_NL>;
    case DType::mxfp4:
      return linear_tile_of<MXFP4>;
    default:
      return nullptr;
  }
}

}  // namespace minfer::cpu::avx2
