// Writing of KV pages in plain C++, and reading of single elements. Layout: launch/kv_layout.hpp; contract:
// launch/kv_kernels.hpp. The numbers of other instruction sets equal these bit for bit but for the quants of blocks
// that are not finite.
#include <algorithm>
#include <bit>
#include <cmath>

#include "cpu/launch/kv_kernels.hpp"
#include "tensor/dtype.hpp"

namespace minfer::cpu::scalar {
namespace {

void store(KvFormat format, float value, std::byte* base, int64_t index) {
  if (format == KvFormat::f32) {
    reinterpret_cast<float*>(base)[index] = value;
  } else if (format == KvFormat::bf16) {
    reinterpret_cast<uint16_t*>(base)[index] = tensor::float_to_bfloat16(value);
  } else {
    reinterpret_cast<uint16_t*>(base)[index] = tensor::float_to_half(value);
  }
}

// 32 floats to quants `stride` apart and a scale.
void store_block(const float* x, int8_t* quants, int64_t stride, uint16_t* scale) {
  uint32_t top = 0;  // as integers NaN > inf > finite
  for (int64_t i = 0; i < kKvBlockElements; ++i) top = std::max(top, std::bit_cast<uint32_t>(std::abs(x[i])));
  const float d = std::bit_cast<float>(top) / 127.0F;
  *scale = tensor::float_to_half(d);
  const bool none = tensor::half_to_float(*scale) == 0.0F || !std::isfinite(d);
  for (int64_t i = 0; i < kKvBlockElements; ++i) {
    quants[i * stride] = none ? int8_t{0} : static_cast<int8_t>(std::nearbyint(x[i] / d));
  }
}

}  // namespace

void write_kv_k(KvFormat format, const KvRows& rows, const KvTarget& target) {
  for (int64_t r = 0; r < rows.rows; ++r) {
    const float* source = rows.source + r * rows.source_stride;
    if (format == KvFormat::q8_0) {
      auto* quants = reinterpret_cast<int8_t*>(target.elements) + r;
      auto* scales = reinterpret_cast<uint16_t*>(target.scales) + r;
      for (int64_t d = 0; d < rows.dim; d += kKvBlockElements) {
        store_block(source + d, quants + d * kKvPageTokens, kKvPageTokens,
                    scales + d / kKvBlockElements * kKvPageTokens);
      }
    } else {
      for (int64_t d = 0; d < rows.dim; ++d) store(format, source[d], target.elements, d * kKvPageTokens + r);
    }
  }
}

void write_kv_v(KvFormat format, const KvRows& rows, const KvTarget& target) {
  for (int64_t r = 0; r < rows.rows; ++r) {
    const float* source = rows.source + r * rows.source_stride;
    if (format == KvFormat::q8_0) {
      auto* quants = reinterpret_cast<int8_t*>(target.elements) + r * rows.dim;
      auto* scales = reinterpret_cast<uint16_t*>(target.scales) + r * (rows.dim / kKvBlockElements);
      for (int64_t d = 0; d < rows.dim; d += kKvBlockElements) {
        store_block(source + d, quants + d, 1, scales + d / kKvBlockElements);
      }
    } else {
      for (int64_t d = 0; d < rows.dim; ++d) store(format, source[d], target.elements, r * rows.dim + d);
    }
  }
}

float kv_value(KvFormat format, const std::byte* element, const std::byte* scale) {
  switch (format) {
    case KvFormat::f32:
      return *reinterpret_cast<const float*>(element);
    case KvFormat::f16:
      return tensor::half_to_float(*reinterpret_cast<const uint16_t*>(element));
    case KvFormat::bf16:
      return tensor::bfloat16_to_float(*reinterpret_cast<const uint16_t*>(element));
    case KvFormat::q8_0:
      return static_cast<float>(*reinterpret_cast<const int8_t*>(element)) *
             tensor::half_to_float(*reinterpret_cast<const uint16_t*>(scale));
  }
  return 0.0F;
}

}  // namespace minfer::cpu::scalar
