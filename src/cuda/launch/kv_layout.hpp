// The KV cache on the device. A page holds 64 tokens of all layers of a group, K and V of each layer side by side:
//   f32 f16 bf16  [kv head][64 tokens][head size]
//   q8_0          [kv head][64 tokens][head size] int8, then [kv head][64 tokens][head size / 32] f16 scales
// so that a head's 64 tokens are one contiguous piece. Each of a layer's two parts starts at a multiple of 256 bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/enums.hpp"

namespace minfer::cuda {

inline constexpr int64_t kKvPageTokens = 64;
inline constexpr int64_t kKvAlignment = 256;

constexpr int64_t kv_head_bytes(graph::KvFormat format, int64_t head_size) {
  switch (format) {
    case graph::KvFormat::f32:
      return kKvPageTokens * head_size * 4;
    case graph::KvFormat::f16:
    case graph::KvFormat::bf16:
      return kKvPageTokens * head_size * 2;
    case graph::KvFormat::q8_0:
      return kKvPageTokens * head_size;
  }
  return 0;
}
// Where the scales of a q8_0 part begin; the end of the quants of all heads.
constexpr int64_t kv_scales_offset(int64_t kv_heads, int64_t head_size) {
  return kv_heads * kKvPageTokens * head_size;
}
// One layer's K, or V, in a page.
constexpr int64_t kv_part_bytes(graph::KvFormat format, int64_t kv_heads, int64_t head_size) {
  int64_t bytes = kv_heads * kv_head_bytes(format, head_size);
  if (format == graph::KvFormat::q8_0) bytes += kv_heads * kKvPageTokens * (head_size / 32) * 2;
  return (bytes + kKvAlignment - 1) / kKvAlignment * kKvAlignment;
}

// One layer's cache. Page p's K is at k + p * page_stride, its V at v + p * page_stride.
struct KvLayerView {
  std::byte* k = nullptr;
  std::byte* v = nullptr;
  int64_t page_stride = 0;
  graph::KvFormat key_format = graph::KvFormat::f16;
  graph::KvFormat value_format = graph::KvFormat::f16;
  int64_t kv_heads = 0;
  int64_t key_size = 0;
  int64_t value_size = 0;
};

}  // namespace minfer::cuda
