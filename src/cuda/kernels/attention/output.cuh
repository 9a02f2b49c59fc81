// The last step of every attention kernel: elements of a query head's result to the output row, in its format.
#pragma once

#include <cuda_bf16.h>

#include "cuda/kernels/attention/cache.cuh"
#include "cuda/kernels/attention/mma.cuh"
#include "cuda/launch/attention_params.hpp"

namespace minfer::cuda::attention {

// The scale of a q8 block, by the largest of its |x| taken as integers (NaN > infinity > finite): see activation.hpp.
// Blocks that are not finite get a scale of NaN, as on the CPU.
struct Q8Scale {
  float d;
  bool finite, none;

  __device__ __forceinline__ explicit Q8Scale(float largest)
      : d(largest / 127.0F), finite(isfinite(d)), none(!finite || d < 1.17549435e-38F) {}
  __device__ __forceinline__ int quant(float x) const { return none ? 0 : __float2int_rn(x / d); }
  __device__ __forceinline__ float2 pair(int sum) const {
    const float scale = finite ? (none ? 0.0F : d) : __uint_as_float(0x7fc00000U);
    return make_float2(scale, scale * static_cast<float>(sum));
  }
};

// Elements i .. i + 3 of a row, where it exists. q8: 8 neighbouring lanes hold 32 consecutive elements from a multiple
// of 32; all lanes of the warp call.
__device__ __forceinline__ void write_output(const AttentionParams& p, bool exists, int64_t row, int i, float4 x) {
  std::byte* at = p.out + row * p.out_stride;
  if (p.out_format == ActivationFormat::q8) {
    uint32_t top = max(max(__float_as_uint(fabsf(x.x)), __float_as_uint(fabsf(x.y))),
                       max(__float_as_uint(fabsf(x.z)), __float_as_uint(fabsf(x.w))));
#pragma unroll
    for (int step = 1; step < 8; step *= 2) top = max(top, __shfl_xor_sync(kAllLanes, top, step));
    const Q8Scale scale(__uint_as_float(top));
    const int quants[4] = {scale.quant(x.x), scale.quant(x.y), scale.quant(x.z), scale.quant(x.w)};
    int sum = quants[0] + quants[1] + quants[2] + quants[3];
#pragma unroll
    for (int step = 1; step < 8; step *= 2) sum += __shfl_xor_sync(kAllLanes, sum, step);
    if (!exists) return;
    *reinterpret_cast<char4*>(at + i) = make_char4(static_cast<char>(quants[0]), static_cast<char>(quants[1]),
                                                   static_cast<char>(quants[2]), static_cast<char>(quants[3]));
    if (i % kQ8Block == 0) reinterpret_cast<float2*>(at + q8_quants_bytes(p.out_width))[i / kQ8Block] = scale.pair(sum);
  } else if (!exists) {
    return;
  } else if (p.out_format == ActivationFormat::f32) {
    reinterpret_cast<float4*>(at)[i / 4] = x;
  } else {
    reinterpret_cast<uint2*>(at)[i / 4] = make_uint2(Bfloat::pack(x.x, x.y), Bfloat::pack(x.z, x.w));
  }
}

// Scores in powers of two, capped where the model asks for it. tanh(x) = 1 - 2 / (1 + e^2x): exact to a few units of
// the last place of 1, where the hardware's tanh is not (2^-11).
__device__ __forceinline__ float capped(float score, float cap_factor) {
  const float e = exp2f(score * 2.88539008F);
  return cap_factor * (1.0F - __fdividef(2.0F, 1.0F + e));
}

// What a head's sum of values is multiplied by, when its largest score is `maximum` and its weights sum to `sum`: the
// inverse of the sum, which a sink joins as a score without a value.
__device__ __forceinline__ float softmax_factor(const AttentionParams& p, int head, float maximum, float sum) {
  if (p.sinks == nullptr) return 1.0F / sum;
  const float sink = p.sinks[head] * 1.44269504F;
  const float top = fmaxf(maximum, sink);
  const float own = power_of_two(maximum - top);
  return own / (sum * own + power_of_two(sink - top));
}

}  // namespace minfer::cuda::attention
