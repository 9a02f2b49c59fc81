// Decode kernels for Q4_0 and Q4_1.
// How they work: decode.cuh; how launches are cut: launch/linear_decode.hpp.
#include "cuda/kernels/linear/decode.cuh"

namespace minfer::cuda {

void launch_decode_q4_0(const Queue& queue, const DecodeLaunch& launch) {
  launch_decode_pair<DType::q4_0, DType::q4_1>(queue, launch);
}

}  // namespace minfer::cuda
