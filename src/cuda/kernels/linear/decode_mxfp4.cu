// Decode kernels for MXFP4.
// How they work: decode.cuh; how launches are cut: launch/linear_decode.hpp.
#include "cuda/kernels/linear/decode.cuh"

namespace minfer::cuda {

void launch_decode_mxfp4(const Queue& queue, const DecodeLaunch& launch) {
  launch_decode_pair<DType::mxfp4, DType::mxfp4>(queue, launch);
}

}  // namespace minfer::cuda
