// Decode kernels for Q5_1, with the Q8_0 beside it in files whose rows are not multiples of 256.
// How they work: decode.cuh; how launches are cut: launch/linear_decode.hpp.
#include "cuda/kernels/linear/decode.cuh"

namespace minfer::cuda {

void launch_decode_q5_1(const Queue& queue, const DecodeLaunch& launch) {
  launch_decode_pair<DType::q5_1, DType::q8_0>(queue, launch);
}

}  // namespace minfer::cuda
