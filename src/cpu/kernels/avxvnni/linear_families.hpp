// The sources that the AVX-VNNI linear kernels are spread over, to compile in parallel. Each returns nullptr for types
// of the other.
#pragma once

#include "cpu/launch/linear_kernels.hpp"

namespace minfer::cpu::avxvnni {

LinearTileFn linear_tile_32(tensor::DType dtype);
LinearTileFn linear_tile_k(tensor::DType dtype);

}  // namespace minfer::cpu::avxvnni
