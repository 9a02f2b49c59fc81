// Writing of KV pages in plain C++. Layout: launch/kv_layout.hpp; contract: launch/kv_kernels.hpp.
#include "cpu/launch/kv_kernels.hpp"
#include "tensor/dtype.hpp"

namespace minfer::cpu::scalar {
namespace {

void store(KvFormat format, float value, std::byte* base, int64_t index) {
  if (format == KvFormat::f32) {
    reinterpret_cast<float*>(base)[index] = value;
  } else {
    reinterpret_cast<uint16_t*>(base)[index] = tensor::float_to_half(value);
  }
}

}  // namespace

void write_kv_k(KvFormat format, const KvRows& rows, std::byte* destination) {
  for (int64_t r = 0; r < rows.rows; ++r) {
    const float* source = rows.source + r * rows.source_stride;
    for (int64_t d = 0; d < rows.dim; ++d) store(format, source[d], destination, d * kKvGroupTokens + r);
  }
}

void write_kv_v(KvFormat format, const KvRows& rows, std::byte* destination) {
  for (int64_t r = 0; r < rows.rows; ++r) {
    const float* source = rows.source + r * rows.source_stride;
    for (int64_t d = 0; d < rows.dim; ++d) store(format, source[d], destination, r * rows.dim + d);
  }
}

}  // namespace minfer::cpu::scalar
