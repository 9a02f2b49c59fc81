// The cosines and sines of a step's positions, once for all layers, in double precision: a float's angle of position
// 100,000 would be off by 0.004. One thread a pair. See launch/rows.hpp.
#include "cuda/kernels/common/chain.cuh"
#include "cuda/kernels/common/require.hpp"
#include "cuda/launch/rows.hpp"

namespace minfer::cuda {
namespace {

constexpr int64_t kThreads = 64;

__global__ void __launch_bounds__(kThreads)
    rope_angles_kernel(const int32_t* positions, const float* inverse_frequencies, double magnitude, double temperature,
                       int64_t temperature_length, int64_t pairs, int64_t total, std::byte* out, int64_t stride) {
  allow_dependents();
  wait_for_dependencies();
  const int64_t index = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (index >= total) return;
  const int64_t row = index / pairs;
  const int64_t pair = index % pairs;
  const double angle = static_cast<double>(positions[row]) * static_cast<double>(inverse_frequencies[pair]);
  if (temperature != 0) magnitude *= 1 + temperature * log1p(static_cast<double>(positions[row] / temperature_length));
  double sine = 0;
  double cosine = 0;
  sincos(angle, &sine, &cosine);
  reinterpret_cast<float2*>(out + row * stride)[pair] =
      make_float2(static_cast<float>(magnitude * cosine), static_cast<float>(magnitude * sine));
}

}  // namespace

void launch_rope_angles(const Queue& queue, const RopeAnglesArgs& args) {
  require(args.out.format == ActivationFormat::f32 && args.out.width % 2 == 0, "angles are pairs of f32");
  require(args.temperature == 0.0F || args.temperature_length > 0, "a temperature has a length");
  const int64_t pairs = args.out.width / 2;
  const int64_t total = pairs * args.out.rows;
  if (total == 0) return;
  LaunchShape shape;
  shape.grid = dim3(static_cast<uint32_t>((total + kThreads - 1) / kThreads));
  shape.block = dim3(kThreads);
  launch_kernel(queue, "rows/rope_angles", shape, rope_angles_kernel, args.positions, args.inverse_frequencies,
                static_cast<double>(args.magnitude), static_cast<double>(args.temperature), args.temperature_length,
                pairs, total, args.out.data, row_stride(args.out.format, args.out.width));
}

}  // namespace minfer::cuda
