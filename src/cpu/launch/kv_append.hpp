// Writes tokens into KV pages and reads keys back. Layout: kv_layout.hpp. Writing is done by all threads of a section,
// reading back by the caller alone (for moves with a rotation). Different (token, head) pairs never share an
// element, so no order of writing matters; two tokens of one call may not name the same slot.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/thread_pool.hpp"
#include "cpu/launch/kv_kernels.hpp"
#include "cpu/launch/kv_layout.hpp"
#include "cpu/launch/rope.hpp"
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

// Queries and keys prepared (rope.hpp), then keys and values appended, in one parallel loop in place of three: a work
// item is a KV head with up to 64 tokens, its keys prepared just before they are written, or a chunk of query heads.
// `k` prepares kv_heads heads into what `append` reads. Equal, bit for bit, to the three launches. Every thread of the
// section calls it with the same arguments; ends with a barrier.
void launch_rope_append(Isa isa, Worker& worker, const PrepareHeadsArgs& q, const PrepareHeadsArgs& k,
                        const KvAppendArgs& append);

using KvWriteFn = void (*)(KvFormat format, const KvRows& rows, const KvTarget& target);

// An instruction set's writers.
struct KvWriters {
  KvWriteFn k;
  KvWriteFn v;
};
KvWriters kv_writers(Isa isa);

// Where one token of one head lies in a layer's page.
KvTarget kv_k_target(const KvLayerSpec& spec, std::byte* page, int64_t kv_head, int64_t token);
KvTarget kv_v_target(const KvLayerSpec& spec, std::byte* page, int64_t kv_head, int64_t token);

// The first `dims` dimensions of one token's K of one head as f32: `page` is the start of the layer's page, `token` its
// index in the page.
void read_kv_k(const KvLayerSpec& spec, const std::byte* page, int64_t kv_head, int64_t token, int64_t dims,
               float* out);

}  // namespace minfer::cpu
