// Layer norm: the mean, then the squares of what is left of it, then the output; a block reads its group three times,
// twice from its cache. Sums run in an order fixed by the group. See launch/rows.hpp.
#include <algorithm>

#include "cuda/kernels/common/chain.cuh"
#include "cuda/kernels/common/require.hpp"
#include "cuda/kernels/rows/norm.cuh"
#include "cuda/launch/rows.hpp"

namespace minfer::cuda {
namespace {

struct Layer {
  Norm norm;
  const float* bias;
  bool own_weights;
};

__device__ __forceinline__ float4 add(float4 a, float4 b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

// x - mean, 0 in the columns past the group.
__device__ __forceinline__ float4 centered(float4 quad, float mean, int64_t column, int64_t group) {
  return make_float4(column < group ? quad.x - mean : 0.0F, column + 1 < group ? quad.y - mean : 0.0F,
                     column + 2 < group ? quad.z - mean : 0.0F, column + 3 < group ? quad.w - mean : 0.0F);
}

template <ActivationFormat kFormat>
__global__ void __launch_bounds__(kMaxThreads) layer_norm_kernel(Layer layer) {
  allow_dependents();
  wait_for_dependencies();
  const Norm& norm = layer.norm;
  const float* x = group_x(norm, blockIdx.x);
  const bool aligned = norm.group % kQuad == 0 || norm.groups == 1;
  const int64_t own = layer.own_weights ? blockIdx.x % norm.groups * norm.group : 0;
  const int64_t quads = padded_quads(norm.group);
  const auto count = static_cast<float>(norm.group);
  const auto load_x = [&](int64_t at) { return load_quad(x, at * kQuad, norm.group, aligned); };
  float sum = 0.0F;
  for (int64_t at = threadIdx.x; at < quads; at += blockDim.x) {
    const float4 quad = load_x(at);
    sum += (quad.x + quad.y) + (quad.z + quad.w);
  }
  const float mean = block_sum(sum) / count;
  float squares = 0.0F;
  for (int64_t at = threadIdx.x; at < quads; at += blockDim.x) {
    const float4 quad = centered(load_x(at), mean, at * kQuad, norm.group);
    squares += (quad.x * quad.x + quad.y * quad.y) + (quad.z * quad.z + quad.w * quad.w);
  }
  __syncthreads();  // the first sum's partial ones have been read
  const float factor = 1.0F / sqrtf(block_sum(squares) / count + norm.eps);
  for (int64_t at = threadIdx.x; at < quads; at += blockDim.x) {
    const int64_t column = at * kQuad;
    const float4 quad = centered(load_x(at), mean, column, norm.group);
    const float4 weight = load_quad(norm.weight + own, column, norm.group, aligned);
    float4 out = make_float4(quad.x * factor * weight.x, quad.y * factor * weight.y, quad.z * factor * weight.z,
                             quad.w * factor * weight.w);
    if (layer.bias != nullptr) out = add(out, load_quad(layer.bias + own, column, norm.group, aligned));
    store_group<kFormat>(norm, blockIdx.x, column, out, aligned);
  }
}

template <ActivationFormat kFormat>
void launch(const Queue& queue, const Layer& layer) {
  const int64_t quads = padded_quads(layer.norm.group);
  LaunchShape shape;
  shape.grid = dim3(layer.norm.total);
  shape.block = dim3(static_cast<uint32_t>(std::min(kMaxThreads, (quads + kWarp - 1) / kWarp * kWarp)));
  launch_kernel(queue, "rows/layer_norm", shape, layer_norm_kernel<kFormat>, layer);
}

}  // namespace

void launch_layer_norm(const Queue& queue, const LayerNormArgs& args) {
  require_groups(args.x, args.out, args.group);
  if (args.x.rows == 0) return;
  const Layer layer = {norm_of(args.x, args.weight, args.group, args.eps, args.out), args.bias, args.own_weights};
  switch (args.out.format) {
    case ActivationFormat::f32:
      return launch<ActivationFormat::f32>(queue, layer);
    case ActivationFormat::bf16:
      return launch<ActivationFormat::bf16>(queue, layer);
    case ActivationFormat::q8:
      return launch<ActivationFormat::q8>(queue, layer);
  }
}

}  // namespace minfer::cuda
