// Writes tokens into KV pages and reads them back. See kv_append.hpp. A work item is one KV head with up to 16 tokens
// of the call, so that a prompt's tokens that share a group of 16 are transposed together.
#include "cpu/launch/kv_append.hpp"

#include <algorithm>

#include "cpu/launch/kv_kernels.hpp"
#include "tensor/dtype.hpp"

namespace minfer::cpu {
namespace {

using WriteFn = void (*)(KvFormat format, const KvRows& rows, std::byte* destination);

struct Writers {
  WriteFn k;
  WriteFn v;
};

Writers writers_of(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::avx2) return {&avx2::write_kv_k, &avx2::write_kv_v};
  if (isa == Isa::avx512) return {&avx512::write_kv_k, &avx512::write_kv_v};
#else
  static_cast<void>(isa);
#endif
  return {&scalar::write_kv_k, &scalar::write_kv_v};
}

void append_head(const Writers& writers, const KvAppendArgs& args, int64_t kv_head, int64_t begin, int64_t end) {
  const KvLayerSpec& spec = args.spec;
  for (int64_t token = begin; token < end;) {
    const int64_t slot = args.slots[token];
    // As many tokens as follow each other within the group of 16.
    const int64_t room = std::min(end - token, kKvGroupTokens - slot % kKvGroupTokens);
    int64_t run = 1;
    while (run < room && args.slots[token + run] == slot + run) ++run;
    const int64_t page = slot / kKvPageTokens;
    const int64_t index = slot % kKvPageTokens;
    const KvRows k = {args.k + token * args.k_stride + kv_head * spec.head_dim_k, args.k_stride, run, spec.head_dim_k};
    const KvRows v = {args.v + token * args.v_stride + kv_head * spec.head_dim_v, args.v_stride, run, spec.head_dim_v};
    writers.k(spec.k_format, k, args.k_base + page * args.k_page_stride + kv_k_offset(spec, kv_head, index, 0));
    writers.v(spec.v_format, v, args.v_base + page * args.v_page_stride + kv_v_offset(spec, kv_head, index, 0));
    token += run;
  }
}

float read_element(KvFormat format, const std::byte* at) {
  if (format == KvFormat::f32) return *reinterpret_cast<const float*>(at);
  return tensor::half_to_float(*reinterpret_cast<const uint16_t*>(at));
}

}  // namespace

void launch_kv_append(Isa isa, Worker& worker, const KvAppendArgs& args) {
  const Writers writers = writers_of(isa);
  const int64_t stretches = (args.tokens + kKvGroupTokens - 1) / kKvGroupTokens;
  worker.parallel_for(stretches * args.spec.kv_heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t first = item / args.spec.kv_heads * kKvGroupTokens;
      append_head(writers, args, item % args.spec.kv_heads, first, std::min(first + kKvGroupTokens, args.tokens));
    }
  });
}

void read_kv_k(const KvLayerSpec& spec, const std::byte* page, int64_t token, float* out) {
  for (int64_t head = 0; head < spec.kv_heads; ++head) {
    for (int64_t d = 0; d < spec.head_dim_k; ++d) {
      *out++ = read_element(spec.k_format, page + kv_k_offset(spec, head, token, d));
    }
  }
}

void read_kv_v(const KvLayerSpec& spec, const std::byte* page, int64_t token, float* out) {
  for (int64_t head = 0; head < spec.kv_heads; ++head) {
    for (int64_t d = 0; d < spec.head_dim_v; ++d) {
      *out++ = read_element(spec.v_format, page + kv_v_offset(spec, head, token, d));
    }
  }
}

}  // namespace minfer::cpu
