// AVX-VNNI linear kernels of the types with super-blocks of 256: AVX2's tile, compiled with vpdpbusd for its integer
// sums (see avx2/linear_tile.hpp), so that outputs have the same bits.
#include "cpu/kernels/avx2/linear_tile.hpp"
#include "cpu/kernels/avxvnni/linear_families.hpp"

namespace minfer::cpu::avxvnni {

LinearTileFn linear_tile_k(tensor::DType dtype) {
  using tensor::DType;
  switch (dtype) {
    case DType::q2_k:
      return avx2::linear_tile_of<avx2::Q2_K>;
    case DType::q3_k:
      return avx2::linear_tile_of<avx2::Q3_K>;
    case DType::q4_k:
      return avx2::linear_tile_of<avx2::Q4_K>;
    case DType::q5_k:
      return avx2::linear_tile_of<avx2::Q5_K>;
    case DType::q6_k:
      return avx2::linear_tile_of<avx2::Q6_K>;
    case DType::iq4_xs:
      return avx2::linear_tile_of<avx2::IQ4_XS>;
    default:
      return nullptr;
  }
}

}  // namespace minfer::cpu::avxvnni
