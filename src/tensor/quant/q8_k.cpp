// Scalar decoder of Q8_K. See q8_k.hpp.
// One rounding a float operation, in the order of the formula there (no contraction).
#include "tensor/quant/q8_k.hpp"

namespace minfer::tensor {

void dequantize_q8_k(const std::byte* source, int64_t blocks, float* destination) {
  for (int64_t b = 0; b < blocks; ++b, destination += kSuperBlockElements) {
    const auto block = load_block<BlockQ8_K>(source, b);
    for (size_t i = 0; i < kSuperBlockElements; ++i) destination[i] = block.d * static_cast<float>(block.qs[i]);
  }
}

}  // namespace minfer::tensor
