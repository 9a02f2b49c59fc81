// The sources that the AVX-512 linear kernels are spread over, to compile in parallel. Each returns nullptr for types
// of the others.
#pragma once

#include "cpu/launch/linear_kernels.hpp"

namespace minfer::cpu::avx512 {

LinearTileFn linear_tile_32(tensor::DType dtype);
LinearTileFn linear_tile_k(tensor::DType dtype);
LinearTileFn linear_tile_bf16(tensor::DType dtype);
LinearTileFn linear_tile_plain(tensor::DType dtype);

}  // namespace minfer::cpu::avx512
