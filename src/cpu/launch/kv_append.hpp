// Writes tokens into KV pages and reads them back. Layout: kv_layout.hpp. Writing is done by all threads of a section,
// reading back by the caller alone (session files, shifting, tests). Different (token, head) pairs never share an
// element, so no order of writing matters; two tokens of one call may not name the same slot.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/thread_pool.hpp"
#include "cpu/launch/kv_layout.hpp"
#include "cpu/runtime/isa.hpp"

namespace minfer::cpu {

struct KvAppendArgs {
  KvLayerSpec spec;
  int64_t tokens = 0;
  const int64_t* slots = nullptr;  // [tokens]: page id * 64 + index in the page
  const float* k = nullptr;        // [tokens][kv_heads * head_dim_k], after rope
  int64_t k_stride = 0;            // floats from a token to the next
  const float* v = nullptr;        // [tokens][kv_heads * head_dim_v]
  int64_t v_stride = 0;
  std::byte* k_base = nullptr;  // page 0 of this layer
  std::byte* v_base = nullptr;
  int64_t k_page_stride = 0;  // bytes from a page to the next
  int64_t v_page_stride = 0;
};

// Every thread of the section calls it with the same arguments; ends with a barrier.
void launch_kv_append(Isa isa, Worker& worker, const KvAppendArgs& args);

// One token's K or V as f32: `page` is the start of the layer's page, `token` its index in the page; writes
// kv_heads * head_dim floats.
void read_kv_k(const KvLayerSpec& spec, const std::byte* page, int64_t token, float* out);
void read_kv_v(const KvLayerSpec& spec, const std::byte* page, int64_t token, float* out);

}  // namespace minfer::cpu
