// Decode kernels for Q8_0 and Q5_0: they share products in files whose rows are not multiples of 256.
// How they work: decode.cuh; how launches are cut: launch/linear_decode.hpp.
#include "cuda/kernels/linear/decode.cuh"

namespace minfer::cuda {

void launch_decode_q8_0(const Queue& queue, const DecodeLaunch& launch) {
  launch_decode_pair<DType::q8_0, DType::q5_0>(queue, launch);
}

}  // namespace minfer::cuda
