// Writes tokens into KV pages and reads them back. See kv_append.hpp. A work item is one KV head with up to 16 tokens
// of the call, so that a prompt's tokens that share a group of 16 are transposed together.
#include "cpu/launch/kv_append.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "cpu/launch/kv_kernels.hpp"
#include "cpu/launch/rows_kernels.hpp"
#include "tensor/dtype.hpp"

namespace minfer::cpu {
namespace {

void append_head(const KvWriters& writers, const KvAppendArgs& args, int64_t kv_head, int64_t begin, int64_t end) {
  const KvLayerSpec& spec = args.spec;
  for (int64_t token = begin; token < end;) {
    const int64_t slot = args.slots[token];
    // As many tokens as follow each other within the page.
    const int64_t room = std::min(end - token, kKvPageTokens - slot % kKvPageTokens);
    int64_t run = 1;
    while (run < room && args.slots[token + run] == slot + run) ++run;
    const int64_t page = slot / kKvPageTokens;
    const int64_t index = slot % kKvPageTokens;
    const KvRows k = {args.k + token * args.k_stride + kv_head * spec.head_dim_k, args.k_stride, run, spec.head_dim_k};
    const KvRows v = {args.v + token * args.v_stride + kv_head * spec.head_dim_v, args.v_stride, run, spec.head_dim_v};
    writers.k(spec.k_format, k, kv_k_target(spec, args.k_base + page * args.k_page_stride, kv_head, index));
    writers.v(spec.v_format, v, kv_v_target(spec, args.v_base + page * args.v_page_stride, kv_head, index));
    token += run;
  }
}

}  // namespace

KvWriters kv_writers(Isa isa) {
#if defined(__x86_64__)
  if (is_avx2(isa)) return {&avx2::write_kv_k, &avx2::write_kv_v};
  if (is_avx512(isa)) return {&avx512::write_kv_k, &avx512::write_kv_v};
#else
  static_cast<void>(isa);
#endif
  return {&scalar::write_kv_k, &scalar::write_kv_v};
}

KvTarget kv_k_target(const KvLayerSpec& spec, std::byte* page, int64_t kv_head, int64_t token) {
  std::byte* scales = kv_has_scales(spec.k_format) ? page + kv_k_scale_offset(spec, kv_head, token, 0) : nullptr;
  return {page + kv_k_offset(spec, kv_head, token, 0), scales};
}

KvTarget kv_v_target(const KvLayerSpec& spec, std::byte* page, int64_t kv_head, int64_t token) {
  std::byte* scales = kv_has_scales(spec.v_format) ? page + kv_v_scale_offset(spec, kv_head, token, 0) : nullptr;
  return {page + kv_v_offset(spec, kv_head, token, 0), scales};
}

void launch_kv_append(Isa isa, Worker& worker, const KvAppendArgs& args) {
  const KvWriters writers = kv_writers(isa);
  const int64_t stretches = (args.tokens + kKvPageTokens - 1) / kKvPageTokens;
  worker.parallel_for(stretches * args.spec.kv_heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t first = item / args.spec.kv_heads * kKvPageTokens;
      append_head(writers, args, item % args.spec.kv_heads, first, std::min(first + kKvPageTokens, args.tokens));
    }
  });
}

void launch_rope_append(Isa isa, Worker& worker, const PrepareHeadsArgs& q, const PrepareHeadsArgs& k,
                        const KvAppendArgs& append) {
  const int64_t kv_heads = append.spec.kv_heads;
  check(k.heads == kv_heads && k.out == append.k && k.rows == append.tokens && q.rows == append.tokens,
        "rope_append: keys are prepared elsewhere than they are read");
  const KvWriters writers = kv_writers(isa);
  const RowKernels& kernels = row_kernels(isa);
  const int64_t kv_items = (append.tokens + kKvPageTokens - 1) / kKvPageTokens * kv_heads;
  const int64_t q_heads = q.rows * q.heads;
  const int64_t grain = prepare_heads_grain(q.head_dim);
  worker.parallel_for(kv_items + (q_heads + grain - 1) / grain, 1, [&](int64_t item, int64_t) {
    if (item >= kv_items) {
      const int64_t first = (item - kv_items) * grain;
      prepare_heads(kernels, q, first, std::min(first + grain, q_heads));
      return;
    }
    const int64_t first = item / kv_heads * kKvPageTokens;
    const int64_t last = std::min(first + kKvPageTokens, append.tokens);
    const int64_t head = item % kv_heads;
    for (int64_t token = first; token < last; ++token) {
      prepare_heads(kernels, k, token * kv_heads + head, token * kv_heads + head + 1);
    }
    append_head(writers, append, head, first, last);
  });
}

void read_kv_k(const KvLayerSpec& spec, const std::byte* page, int64_t kv_head, int64_t token, int64_t dims,
               float* out) {
  for (int64_t d = 0; d < dims; ++d) {
    const std::byte* at = page + kv_k_offset(spec, kv_head, token, d);
    const std::byte* scale = kv_has_scales(spec.k_format) ? page + kv_k_scale_offset(spec, kv_head, token, d) : nullptr;
    out[d] = scalar::kv_value(spec.k_format, at, scale);
  }
}

}  // namespace minfer::cpu
