// Decoders of the unquantized float types F32, F16 and BF16: "blocks" of one element.
// F32 is copied; F16 and BF16 are widened exactly (every half and bfloat16 value is a float).
// The source may have any alignment. See dtype.hpp for the scalar conversions.
// Any thread; source and destination must not overlap.
// Oracle: numpy's float16 and a shift by 16 bits (tests/golden/codecs).
#pragma once

#include <cstddef>
#include <cstdint>

namespace minfer::tensor {

void dequantize_f32(const std::byte* source, int64_t elements, float* destination);
void dequantize_f16(const std::byte* source, int64_t elements, float* destination);
void dequantize_bf16(const std::byte* source, int64_t elements, float* destination);

}  // namespace minfer::tensor
