// Decode kernels for Q4_K and Q6_K, which share products in Q4_K_M files.
// How they work: decode.cuh; how launches are cut: launch/linear_decode.hpp.
#include "cuda/kernels/linear/decode.cuh"

namespace minfer::cuda {

void launch_decode_q4_k(const Queue& queue, const DecodeLaunch& launch) {
  launch_decode_pair<DType::q4_k, DType::q6_k>(queue, launch);
}

}  // namespace minfer::cuda
