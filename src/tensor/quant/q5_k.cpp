// Scalar decoder of Q5_K. See q5_k.hpp.
// One rounding a float operation, in the order of the formula there (no contraction).
#include "tensor/quant/q5_k.hpp"

#include "tensor/dtype.hpp"

namespace minfer::tensor {

void dequantize_q5_k(const std::byte* source, int64_t blocks, float* destination) {
  for (int64_t b = 0; b < blocks; ++b, destination += kSuperBlockElements) {
    const auto block = load_block<BlockQ5_K>(source, b);
    const float d = half_to_float(block.d);
    const float dmin = half_to_float(block.dmin);
    const ScaleMins groups = unpack_scale_mins(block.scales);
    const auto quants = unpack_quants(block);
    for (size_t i = 0; i < quants.size(); ++i) {
      const float scale = d * static_cast<float>(groups.scales[i / 32]);
      const float min = dmin * static_cast<float>(groups.mins[i / 32]);
      destination[i] = scale * static_cast<float>(quants[i]) - min;
    }
  }
}

}  // namespace minfer::tensor
