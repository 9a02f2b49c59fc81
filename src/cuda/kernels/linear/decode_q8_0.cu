// Decode kernels for Q8_0.
// How they work: decode.cuh; how launches are cut: launch/linear_decode.hpp.
#include "cuda/kernels/linear/decode.cuh"

namespace minfer::cuda {

void launch_decode_q8_0(const Queue& queue, const DecodeLaunch& launch) {
  launch_decode_pair<DType::q8_0, DType::q8_0>(queue, launch);
}

}  // namespace minfer::cuda
