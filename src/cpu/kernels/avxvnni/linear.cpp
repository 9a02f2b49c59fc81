// The kernel of a type for AVX-VNNI: its own for quantized types; plain ones have nothing of it, so that AVX2's serve.
#include "cpu/kernels/avxvnni/linear_families.hpp"

namespace minfer::cpu::avxvnni {

LinearTileFn linear_tile(tensor::DType dtype) {
  if (const LinearTileFn tile = linear_tile_32(dtype)) return tile;
  if (const LinearTileFn tile = linear_tile_k(dtype)) return tile;
  return avx2::linear_tile(dtype);
}

}  // namespace minfer::cpu::avxvnni
