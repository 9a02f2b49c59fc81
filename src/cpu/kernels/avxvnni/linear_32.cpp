// AVX-VNNI linear kernels of the types with blocks of 32: AVX2's tile, compiled with vpdpbusd for its integer sums (see
// avx2/linear_tile.hpp), so that outputs have the same bits.
#include "cpu/kernels/avx2/linear_tile.hpp"
#include "cpu/kernels/avxvnni/linear_families.hpp"

namespace minfer::cpu::avxvnni {

LinearTileFn linear_tile_32(tensor::DType dtype) {
  using tensor::DType;
  switch (dtype) {
    case DType::q4_0:
      return avx2::linear_tile_of<avx2::Q4_0>;
    case DType::q4_1:
      return avx2::linear_tile_of<avx2::Q4_1>;
    case DType::q5_0:
      return avx2::linear_tile_of<avx2::Q5_0>;
    case DType::q5_1:
      return avx2::linear_tile_of<avx2::Q5_1>;
    case DType::q8_0:
      return avx2::linear_tile_of<avx2::Q8_0>;
    case DType::iq4_nl:
      return avx2::linear_tile_of<avx2::IQ4_NL>;
    case DType::mxfp4:
      return avx2::linear_tile_of<avx2::MXFP4>;
    default:
      return nullptr;
  }
}

}  // namespace minfer::cpu::avxvnni
