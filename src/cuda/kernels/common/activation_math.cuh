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

// NaN stays.
__device__ __forceinline__ float swiglu_oai(float gate, float up) {
  constexpr float kLimit = graph::kSwigluOaiLimit;
  const float g = gate > kLimit ? kLimit : gate;
  const float u = up > kLimit ? kLimit : up < -kLimit ? -kLimit : up;
  return g / (1.0F + expf(-graph::kSwigluOaiAlpha * g)) * (u + 1.0F);
}

// What a gated layer makes of the outputs of its two matrices.
__device__ __forceinline__ float gated_value(graph::Activation activation, float gate, float up) {
  switch (activation) {
    case graph::Activation::silu:
      return silu(gate) * up;
    case graph::Activation::gelu_tanh:
      return gelu_tanh(gate) * up;
    case graph::Activation::swiglu_oai:
      return swiglu_oai(gate, up);
    case graph::Activation::gelu_erf:
      break;
  }
  return 0.0F;
}

template <graph::Activation kActivation>
__device__ __forceinline__ float4 gated(float4 gate, float4 up) {
  return make_float4(gated_value(kActivation, gate.x, up.x), gated_value(kActivation, gate.y, up.y),
                     gated_value(kActivation, gate.z, up.z), gated_value(kActivation, gate.w, up.w));
}

}  // namespace minfer::cuda
