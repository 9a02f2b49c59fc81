// Scalar decoder of MXFP4. See mxfp4.hpp.
// One rounding a float operation, in the order of the formula there (no contraction).
#include "tensor/quant/mxfp4.hpp"

namespace minfer::tensor {

void dequantize_mxfp4(const std::byte* source, int64_t blocks, float* destination) {
  for (int64_t b = 0; b < blocks; ++b, destination += kBlockElements) {
    const auto block = load_block<BlockMXFP4>(source, b);
    const float d = e8m0_half_scale(block.e);
    const auto quants = unpack_quants(block);
    for (size_t i = 0; i < quants.size(); ++i) destination[i] = d * static_cast<float>(quants[i]);
  }
}

}  // namespace minfer::tensor
