// Decode kernels for Q5_K, with the Q6_K of Q5_K_M files.
// How they work: decode.cuh; how launches are cut: launch/linear_decode.hpp.
#include "cuda/kernels/linear/decode.cuh"

namespace minfer::cuda {

void launch_decode_q5_k(const Queue& queue, const DecodeLaunch& launch) {
  launch_decode_pair<DType::q5_k, DType::q6_k>(queue, launch);
}

}  // namespace minfer::cuda
