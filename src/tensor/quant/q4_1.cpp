// Scalar decoder of Q4_1. See q4_1.hpp.
// One rounding a float operation, in the order of the formula there (no contraction).
#include "tensor/quant/q4_1.hpp"

#include "tensor/dtype.hpp"

namespace minfer::tensor {

void dequantize_q4_1(const std::byte* source, int64_t blocks, float* destination) {
  for (int64_t b = 0; b < blocks; ++b, destination += kBlockElements) {
    const auto block = load_block<BlockQ4_1>(source, b);
    const float d = half_to_float(block.d);
    const float m = half_to_float(block.m);
    const auto quants = unpack_quants(block);
    for (size_t i = 0; i < quants.size(); ++i) destination[i] = d * static_cast<float>(quants[i]) + m;
  }
}

}  // namespace minfer::tensor
