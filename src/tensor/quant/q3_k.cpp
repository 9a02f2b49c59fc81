// Scalar decoder of Q3_K. See q3_k.hpp.
// One rounding a float operation, in the order of the formula there (no contraction).
#include "tensor/quant/q3_k.hpp"

#include "tensor/dtype.hpp"

namespace minfer::tensor {

void dequantize_q3_k(const std::byte* source, int64_t blocks, float* destination) {
  for (int64_t b = 0; b < blocks; ++b, destination += kSuperBlockElements) {
    const auto block = load_block<BlockQ3_K>(source, b);
    const float d = half_to_float(block.d);
    const auto scales = unpack_scales(block);
    const auto quants = unpack_quants(block);
    for (size_t i = 0; i < quants.size(); ++i) {
      const float scale = d * static_cast<float>(scales[i / 16]);
      destination[i] = scale * static_cast<float>(quants[i]);
    }
  }
}

}  // namespace minfer::tensor
