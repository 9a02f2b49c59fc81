// The gate functions, in the forms of the CPU's scalar kernels, in which nothing cancels.
#pragma once

#include "graph/enums.hpp"

namespace minfer::cuda {

__device__ __forceinline__ float silu(float x) {
  return x / (1.0F + expf(-x));
}
// x / 2 * (1 + tanh(u)) = x * sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3)
__device__ __forceinline__ float gelu_tanh(float x) {
  return x / (1.0F + expf(x * (-1.59576912F - 0.0713548163F * x * x)));
}

// x / 2 * (1 + erf(x / sqrt(2)))
__device__ __forceinline__ float gelu_erf(float x) {
  return x * (0.5F * erfcf(x * -0.70710678F));
}

template <graph::Activation kActivation>
__device__ __forceinline__ float4 gated(float4 gate, float4 up) {
  if constexpr (kActivation == graph::Activation::silu) {
    return make_float4(silu(gate.x) * up.x, silu(gate.y) * up.y, silu(gate.z) * up.z, silu(gate.w) * up.w);
  } else {
    return make_float4(gelu_tanh(gate.x) * up.x, gelu_tanh(gate.y) * up.y, gelu_tanh(gate.z) * up.z,
                       gelu_tanh(gate.w) * up.w);
  }
}

}  // namespace minfer::cuda
