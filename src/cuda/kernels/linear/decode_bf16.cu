// Decode kernels for BF16.
// How they work: decode.cuh; how launches are cut: launch/linear_decode.hpp.
#include "cuda/kernels/linear/decode.cuh"

namespace minfer::cuda {

void launch_decode_bf16(const Queue& queue, const DecodeLaunch& launch) {
  launch_decode_pair<DType::bf16, DType::bf16>(queue, launch);
}

}  // namespace minfer::cuda
