// Decode kernels for F16.
// How they work: decode.cuh; how launches are cut: launch/linear_decode.hpp.
#include "cuda/kernels/linear/decode.cuh"

namespace minfer::cuda {

void launch_decode_f16(const Queue& queue, const DecodeLaunch& launch) {
  launch_decode_pair<DType::f16, DType::f16>(queue, launch);
}

}  // namespace minfer::cuda
