// The kernel of single entries: the decode kernel for one token, where the expert, and so the weights, are found on the
// card. `parts` blocks share an entry's panels. A block's copy of the parameters, made for its entry, is in shared
// memory. Oracle: launch/experts_device_test's reference in double precision.
#pragma once

#include "cuda/kernels/experts/entry_params.hpp"
#include "cuda/kernels/linear/decode.cuh"

namespace minfer::cuda {

// The parameters of an entry, by all threads; then a barrier.
__device__ __forceinline__ void make_entry_params(const EntryParams& e, int entry, DecodeParams& p) {
  constexpr int kWords = static_cast<int>(sizeof(DecodeParams) / 4);
  static_assert(sizeof(DecodeParams) % 4 == 0);
  for (int i = static_cast<int>(threadIdx.x); i < kWords; i += kDecodeThreads) {
    reinterpret_cast<uint32_t*>(&p)[i] = reinterpret_cast<const uint32_t*>(&e.decode)[i];
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    const int64_t expert = e.expert[entry], row = e.source == nullptr ? entry : e.source[entry];
    p.x += row * p.x_stride;
    p.out += entry * p.out_stride;
    for (int s = 0; s < p.segments; ++s) {
      DecodeSegment& segment = p.segment[s];
      segment.weights += expert * e.stride[s];
      segment.out += entry * segment.out_stride;
      if (segment.bias != nullptr) segment.bias += expert * segment.rows;
    }
  }
  __syncthreads();
}

template <DType type_a, DType type_b>
__global__ void __launch_bounds__(kDecodeThreads, 2) entry_kernel(const __grid_constant__ EntryParams e) {
  extern __shared__ __align__(128) std::byte shared[];
  __shared__ RingBarriers barriers;
  __shared__ DecodeParams p;
  if (threadIdx.x == 0) init_ring(barriers, e.decode.stages, kDecodeWarps);
  allow_dependents();
  wait_for_dependencies();
  const int entry = static_cast<int>(blockIdx.x) / e.parts, part = static_cast<int>(blockIdx.x) % e.parts;
  make_entry_params(e, entry, p);
  std::byte* act = shared + p.stages * p.stage_bytes;
  auto* partial = reinterpret_cast<float*>(act + p.act_bytes);
  const int begin = p.units * part / e.parts, end = p.units * (part + 1) / e.parts;
  if (threadIdx.x >= kConsumers) return stream_units<type_a, type_b>(p, begin, end, shared, barriers);
  if (part_count<type_a>(p) == 1) load_activations<1>(p, activation_bytes<type_a>(p), 0, act);
  consume_units<type_a, type_b, 1>(p, begin, end, shared, barriers, act, partial, nullptr);
}

// For the units that instantiate.
template <DType type_a, DType type_b>
void launch_entry_pair(const Queue& queue, const EntryLaunch& launch) {
  LaunchShape shape;
  shape.grid = dim3(static_cast<unsigned>(launch.blocks));
  shape.block = dim3(kDecodeThreads);
  shape.shared_bytes = launch.shared_bytes;
  const char* site = launch.params.decode.glu ? "experts/entry_glu" : "experts/entry";
  launch_kernel(queue, site, shape, entry_kernel<type_a, type_b>, launch.params);
}

}  // namespace minfer::cuda
