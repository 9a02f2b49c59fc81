// Decode kernels for Q2_K and Q3_K.
// How they work: decode.cuh; how launches are cut: launch/linear_decode.hpp.
#include "cuda/kernels/linear/decode.cuh"

namespace minfer::cuda {

void launch_decode_q2_k(const Queue& queue, const DecodeLaunch& launch) {
  launch_decode_pair<DType::q2_k, DType::q3_k>(queue, launch);
}

}  // namespace minfer::cuda
