// Scalar decoder of Q8_0. See q8_0.hpp.
// One rounding a float operation, in the order of the formula there (no contraction).
#include "tensor/quant/q8_0.hpp"

#include "tensor/dtype.hpp"

namespace minfer::tensor {

void dequantize_q8_0(const std::byte* source, int64_t blocks, float* destination) {
  for (int64_t b = 0; b < blocks; ++b, destination += kBlockElements) {
    const auto block = load_block<BlockQ8_0>(source, b);
    const float d = half_to_float(block.d);
    const auto quants = unpack_quants(block);
    for (size_t i = 0; i < quants.size(); ++i) destination[i] = d * static_cast<float>(quants[i]);
  }
}

}  // namespace minfer::tensor
