// The gated activation of a slice's columns: reads the product's rows, mostly from the cache, and writes the layer's.
// See decode.hpp.
#include "cuda/kernels/common/activation_math.cuh"
#include "cuda/kernels/common/map_rows.cuh"
#include "cuda/kernels/gemm/decode.hpp"

namespace minfer::cuda {
namespace {

__device__ __forceinline__ float4 load_product(const std::byte* x, bool bf16, int64_t element) {
  if (!bf16) return *reinterpret_cast<const float4*>(x + element * 4);
  const uint2 pairs = *reinterpret_cast<const uint2*>(x + element * 2);
  return make_float4(__uint_as_float(pairs.x << 16), __uint_as_float(pairs.x & 0xFFFF0000U),
                     __uint_as_float(pairs.y << 16), __uint_as_float(pairs.y & 0xFFFF0000U));
}

__device__ __forceinline__ float4 plus_bias(float4 quad, const float* bias, int64_t column, int64_t columns) {
  if (bias == nullptr) return quad;
  const float4 by = load_quad(bias, column, columns, reinterpret_cast<uintptr_t>(bias) % 16 == 0);
  return make_float4(quad.x + by.x, quad.y + by.y, quad.z + by.z, quad.w + by.w);
}

template <graph::Activation kActivation>
struct GluColumnsOp {
  const std::byte* x;
  bool bf16;
  int64_t stride, up_column, columns;
  const float* gate_bias;
  const float* up_bias;

  // Columns up to the next multiple of kPanelRows are there: products with rows of zeros.
  __device__ __forceinline__ float4 operator()(int64_t row, int64_t column) const {
    float4 quad = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    if (column >= columns) return quad;
    const float4 gate = plus_bias(load_product(x, bf16, row * stride + column), gate_bias, column, columns);
    const float4 up = plus_bias(load_product(x, bf16, row * stride + up_column + column), up_bias, column, columns);
    return gated<kActivation>(gate, up);
  }
};

template <graph::Activation kActivation>
void launch(const Queue& queue, const GluColumns& args) {
  const GluColumnsOp<kActivation> op = {args.x,       args.bf16,      args.stride, args.up_column,
                                        args.columns, args.gate_bias, args.up_bias};
  launch_map_columns(queue, "gemm/glu", op, args.out, args.base, args.columns);
}

}  // namespace

void launch_glu_columns(const Queue& queue, const GluColumns& args) {
  switch (args.activation) {
    case graph::Activation::silu:
      return launch<graph::Activation::silu>(queue, args);
    case graph::Activation::gelu_tanh:
      return launch<graph::Activation::gelu_tanh>(queue, args);
    case graph::Activation::gelu_erf:
      break;
    case graph::Activation::swiglu_oai:
      return launch<graph::Activation::swiglu_oai>(queue, args);
  }
  require(false, "a gate function with a kernel");
}

}  // namespace minfer::cuda
