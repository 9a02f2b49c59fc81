// The last step of every attention kernel: elements of a query head's result to the output row, in its format.
#pragma once

#include <cuda_bf16.h>

#include "cuda/kernels/attention/cache.cuh"
#include "cuda/kernels/attention/params.hpp"

namespace minfer::cuda::attention {

// Element i of the row `row`. q8: the lanes of a warp hold 32 consecutive elements from a multiple of 32; all call.
__device__ __forceinline__ void write_output(const AttentionParams& p, int64_t row, int i, float value) {
  std::byte* at = p.out + row * p.out_stride;
  if (p.out_format == ActivationFormat::f32) {
    reinterpret_cast<float*>(at)[i] = value;
  } else if (p.out_format == ActivationFormat::bf16) {
    reinterpret_cast<__nv_bfloat16*>(at)[i] = __float2bfloat16_rn(value);
  } else {
    const float d = __uint_as_float(warp_max(__float_as_uint(fabsf(value)))) / 127.0F;
    const bool finite = isfinite(d);
    const bool none = !finite || d < 1.17549435e-38F;
    const int quant = none ? 0 : __float2int_rn(value / d);
    const int sum = __reduce_add_sync(kAllLanes, quant);
    reinterpret_cast<int8_t*>(at)[i] = static_cast<int8_t>(quant);
    if (i % kQ8Block == 0) {
      const float scale = finite ? (none ? 0.0F : d) : __uint_as_float(0x7fc00000U);
      float2* scales = reinterpret_cast<float2*>(at + q8_quants_bytes(p.out_width));
      scales[i / kQ8Block] = make_float2(scale, scale * static_cast<float>(sum));
    }
  }
}

// Scores in powers of two, capped where the model asks for it. tanh(x) = 1 - 2 / (1 + e^2x): exact to a few units of
// the last place of 1, where the hardware's tanh is not (2^-11).
__device__ __forceinline__ float capped(float score, float cap_factor) {
  const float e = exp2f(score * 2.88539008F);
  return cap_factor * (1.0F - __fdividef(2.0F, 1.0F + e));
}

}  // namespace minfer::cuda::attention
