// AVX2 linear kernels of the types with super-blocks of 256. See linear_tile.hpp.
#include "cpu/kernels/avx2/linear_families.hpp"
#include "cpu/kernels/avx2/linear_tile.hpp"

namespace minfer::cpu::avx2 {

LinearTileFn linear_tile_k(tensor::DType dtype) {
  using tensor::DType;
  switch (dtype) {
    case DType::q2_k:
      return linear_tile_of<Q2_K>;
    case DType::q3_k:
      return linear_tile_of<Q3_K>;
    case DType::q4_k:
      return linear_tile_of<Q4_K>;
    case DType::q5_k:
      return linear_tile_of<Q5_K>;
    case DType::q6_k:
      return linear_tile_of<Q6_K>;
    case DType::iq4_xs:
      return linear_tile_of<IQ4_XS>;
    default:
      return nullptr;
  }
}

}  // namespace minfer::cpu::avx2
