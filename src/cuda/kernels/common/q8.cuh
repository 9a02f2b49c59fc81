// A block of 32 values to q8 by one warp, a value a lane. The numbers of launch/activation.hpp. Oracle: the CPU's rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/launch/activation.hpp"

namespace minfer::cuda {

// Writes block `block` of the q8 row of `width` elements at `row`. All lanes of a warp; lanes beyond the width give 0.
__device__ __forceinline__ void store_q8_block(std::byte* row, int64_t width, int64_t block, float value) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  float largest = fabsf(value);
  for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0U, largest, step));
  const float d = __fdiv_rn(largest, 127.0F);
  const int quant = largest == 0.0F ? 0 : __float2int_rn(__fdiv_rn(value, d));
  const int sum = __reduce_add_sync(~0U, quant);
  reinterpret_cast<int8_t*>(row)[block * kQ8Block + lane] = static_cast<int8_t>(quant);
  if (lane == 0) {
    reinterpret_cast<float2*>(row + q8_quants_bytes(width))[block] = {d, __fmul_rn(d, static_cast<float>(sum))};
  }
}

}  // namespace minfer::cuda
