// How keys and values lie in memory on the CPU. A page holds 64 consecutive tokens of one layer; K and V have pages of
// their own, in formats chosen apart. Page p of a layer starts at base + p * stride, 64-byte aligned.
//   K page: [kv_heads][head_dim_k][64 tokens]   V page: [kv_heads][64 tokens][head_dim_v]
// K is transposed: for each dimension a register holds consecutive tokens, so scores are plain multiply-adds without a
// horizontal sum, in decode and prefill alike, and a head's K of a page is read front to back. V stays in rows: the
// weighted sum of rows needs no horizontal sum either. A slot is a token's place in a pool of pages: page id * 64 +
// index in the page.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/enums.hpp"

namespace minfer::cpu {

inline constexpr int64_t kKvPageTokens = 64;

using graph::KvFormat;

// The cache of one layer.
struct KvLayerSpec {
  int64_t kv_heads = 0;
  int64_t head_dim_k = 0;
  int64_t head_dim_v = 0;
  KvFormat k_format = KvFormat::f16;
  KvFormat v_format = KvFormat::f16;
};

constexpr int64_t kv_element_bytes(KvFormat format) {
  return format == KvFormat::f32 ? 4 : 2;
}

// Bytes of one head's part of a page.
constexpr int64_t kv_k_head_bytes(const KvLayerSpec& spec) {
  return kKvPageTokens * spec.head_dim_k * kv_element_bytes(spec.k_format);
}
constexpr int64_t kv_v_head_bytes(const KvLayerSpec& spec) {
  return kKvPageTokens * spec.head_dim_v * kv_element_bytes(spec.v_format);
}

// Bytes of one layer's page, a multiple of 64: the least page stride.
constexpr int64_t kv_k_page_bytes(const KvLayerSpec& spec) {
  return spec.kv_heads * kv_k_head_bytes(spec);
}
constexpr int64_t kv_v_page_bytes(const KvLayerSpec& spec) {
  return spec.kv_heads * kv_v_head_bytes(spec);
}

// Byte offset in a page of one element: `token` in [0, 64) is its index in the page.
constexpr int64_t kv_k_offset(const KvLayerSpec& spec, int64_t kv_head, int64_t token, int64_t dim) {
  const int64_t element = dim * kKvPageTokens + token;
  return kv_head * kv_k_head_bytes(spec) + element * kv_element_bytes(spec.k_format);
}
constexpr int64_t kv_v_offset(const KvLayerSpec& spec, int64_t kv_head, int64_t token, int64_t dim) {
  return kv_head * kv_v_head_bytes(spec) + (token * spec.head_dim_v + dim) * kv_element_bytes(spec.v_format);
}

}  // namespace minfer::cpu
