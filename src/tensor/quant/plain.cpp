// Decoders of F32, F16 and BF16. See plain.hpp.
// Values are read by memcpy, since the source may have any alignment.
#include "tensor/quant/plain.hpp"

#include <cstring>

#include "tensor/dtype.hpp"
#include "tensor/quant/block.hpp"

namespace minfer::tensor {

void dequantize_f32(const std::byte* source, int64_t elements, float* destination) {
  if (elements > 0) std::memcpy(destination, source, static_cast<size_t>(elements) * sizeof(float));
}

void dequantize_f16(const std::byte* source, int64_t elements, float* destination) {
  for (int64_t i = 0; i < elements; ++i) destination[i] = half_to_float(load_block<uint16_t>(source, i));
}

void dequantize_bf16(const std::byte* source, int64_t elements, float* destination) {
  for (int64_t i = 0; i < elements; ++i) destination[i] = bfloat16_to_float(load_block<uint16_t>(source, i));
}

}  // namespace minfer::tensor
