// Scalar decoder of IQ4_XS. See iq4_xs.hpp.
// One rounding a float operation, in the order of the formula there (no contraction).
#include "tensor/quant/iq4_xs.hpp"

#include "tensor/dtype.hpp"

namespace minfer::tensor {

void dequantize_iq4_xs(const std::byte* source, int64_t blocks, float* destination) {
  for (int64_t b = 0; b < blocks; ++b, destination += kSuperBlockElements) {
    const auto block = load_block<BlockIQ4_XS>(source, b);
    const float d = half_to_float(block.d);
    const auto scales = unpack_scales(block);
    const auto quants = unpack_quants(block);
    for (size_t i = 0; i < quants.size(); ++i) {
      const float scale = d * static_cast<float>(scales[i / 32]);
      destination[i] = scale * static_cast<float>(quants[i]);
    }
  }
}

}  // namespace minfer::tensor
