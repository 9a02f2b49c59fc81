// Decode kernels for F32.
// How they work: decode.cuh; how launches are cut: launch/linear_decode.hpp.
#include "cuda/kernels/linear/decode.cuh"

namespace minfer::cuda {

void launch_decode_f32(const Queue& queue, const DecodeLaunch& launch) {
  launch_decode_pair<DType::f32, DType::f32>(queue, launch);
}

}  // namespace minfer::cuda
