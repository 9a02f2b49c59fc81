// How keys and values lie in memory on the CPU. A page holds 64 consecutive tokens of one layer; K and V have pages of
// their own, in formats chosen apart. Page p of a layer starts at base + p * stride, 64-byte aligned.
//   K page: [kv_heads][head_dim_k][64 tokens]   V page: [kv_heads][64 tokens][head_dim_v]
// K is transposed: for each dimension a register holds consecutive tokens, so scores are plain multiply-adds without a
// horizontal sum, in decode and prefill alike, and a head's K of a page is read front to back. V stays in rows: the
// weighted sum of rows needs no horizontal sum either. In q8_0 (ggml's blocks, taken apart) the elements are int8 in
// the same order, and each head's part ends with the f16 scales of its blocks of 32 dimensions, head sizes being
// multiples of 32:
//   K: [head_dim_k / 32][64 tokens]             V: [64 tokens][head_dim_v / 32]
// An element's value is quant * scale. A slot is a token's place in a pool of pages: page id * 64 + index in the page.
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

// Elements of a head that share a scale in q8_0.
inline constexpr int64_t kKvBlockElements = 32;
inline constexpr int64_t kKvScaleBytes = 2;

constexpr bool kv_has_scales(KvFormat format) {
  return format == KvFormat::q8_0;
}

// Whether heads of a size can be kept in a format.
constexpr bool kv_format_fits(KvFormat format, int64_t head_dim) {
  return !kv_has_scales(format) || head_dim % kKvBlockElements == 0;
}

// Bytes of one element, its share of a scale left out.
constexpr int64_t kv_element_bytes(KvFormat format) {
  if (format == KvFormat::f32) return 4;
  return format == KvFormat::q8_0 ? 1 : 2;
}

// Bytes of one head's elements of a page: where its scales begin.
constexpr int64_t kv_elements_bytes(KvFormat format, int64_t head_dim) {
  return kKvPageTokens * head_dim * kv_element_bytes(format);
}
// Bytes of one head's part of a page, K or V: its elements and its scales.
constexpr int64_t kv_head_bytes(KvFormat format, int64_t head_dim) {
  const int64_t scales = kv_has_scales(format) ? kKvPageTokens * (head_dim / kKvBlockElements) : 0;
  return kv_elements_bytes(format, head_dim) + scales * kKvScaleBytes;
}

// Bytes of one layer's page, a multiple of 64: the least page stride.
constexpr int64_t kv_k_page_bytes(const KvLayerSpec& spec) {
  return spec.kv_heads * kv_head_bytes(spec.k_format, spec.head_dim_k);
}
constexpr int64_t kv_v_page_bytes(const KvLayerSpec& spec) {
  return spec.kv_heads * kv_head_bytes(spec.v_format, spec.head_dim_v);
}

// Byte offset in a page of one element: `token` in [0, 64) is its index in the page.
constexpr int64_t kv_k_offset(const KvLayerSpec& spec, int64_t kv_head, int64_t token, int64_t dim) {
  return kv_head * kv_head_bytes(spec.k_format, spec.head_dim_k) +
         (dim * kKvPageTokens + token) * kv_element_bytes(spec.k_format);
}
constexpr int64_t kv_v_offset(const KvLayerSpec& spec, int64_t kv_head, int64_t token, int64_t dim) {
  return kv_head * kv_head_bytes(spec.v_format, spec.head_dim_v) +
         (token * spec.head_dim_v + dim) * kv_element_bytes(spec.v_format);
}

// Byte offset in a page of the scale of that element; only of formats with scales.
constexpr int64_t kv_k_scale_offset(const KvLayerSpec& spec, int64_t kv_head, int64_t token, int64_t dim) {
  return kv_head * kv_head_bytes(spec.k_format, spec.head_dim_k) + kv_elements_bytes(spec.k_format, spec.head_dim_k) +
         (dim / kKvBlockElements * kKvPageTokens + token) * kKvScaleBytes;
}
constexpr int64_t kv_v_scale_offset(const KvLayerSpec& spec, int64_t kv_head, int64_t token, int64_t dim) {
  return kv_head * kv_head_bytes(spec.v_format, spec.head_dim_v) + kv_elements_bytes(spec.v_format, spec.head_dim_v) +
         (token * (spec.head_dim_v / kKvBlockElements) + dim / kKvBlockElements) * kKvScaleBytes;
}

}  // namespace minfer::cpu
