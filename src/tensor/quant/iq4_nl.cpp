// Scalar decoder of IQ4_NL. See iq4_nl.hpp.
// One rounding a float operation, in the order of the formula there (no contraction).
#include "tensor/quant/iq4_nl.hpp"

#include "tensor/dtype.hpp"

namespace minfer::tensor {

void dequantize_iq4_nl(const std::byte* source, int64_t blocks, float* destination) {
  for (int64_t b = 0; b < blocks; ++b, destination += kBlockElements) {
    const auto block = load_block<BlockIQ4_NL>(source, b);
    const float d = half_to_float(block.d);
    const auto quants = unpack_quants(block);
    for (size_t i = 0; i < quants.size(); ++i) destination[i] = d * static_cast<float>(quants[i]);
  }
}

}  // namespace minfer::tensor
