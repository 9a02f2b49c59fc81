// Decode kernels for IQ4_NL and IQ4_XS.
// How they work: decode.cuh; how launches are cut: launch/linear_decode.hpp.
#include "cuda/kernels/linear/decode.cuh"

namespace minfer::cuda {

void launch_decode_iq4(const Queue& queue, const DecodeLaunch& launch) {
  launch_decode_pair<DType::iq4_nl, DType::iq4_xs>(queue, launch);
}

}  // namespace minfer::cuda
