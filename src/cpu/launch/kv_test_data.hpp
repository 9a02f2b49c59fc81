// What the tests of KV pages share: one layer's pages, tokens appended to them, and tokens read back as f32.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "base/thread_pool.hpp"
#include "cpu/launch/kv_append.hpp"
#include "cpu/launch/kv_kernels.hpp"
#include "graph/kv.hpp"

namespace minfer::cpu {

inline constexpr KvFormat kKvFormats[] = {KvFormat::f32, KvFormat::f16, KvFormat::bf16, KvFormat::q8_0};

inline std::string format_text(KvFormat format) {
  return std::string(graph::kv_format_name(format));
}

inline std::vector<float> normal_floats(int64_t size, unsigned seed, float deviation = 1.0F) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, deviation);
  std::vector<float> values(static_cast<size_t>(size));
  std::generate(values.begin(), values.end(), [&] { return normal(random); });
  return values;
}

inline std::vector<Isa> available_isas() {
  std::vector<Isa> isas;
  for (const Isa isa : kAllIsas) {
    if (isa_available(isa)) isas.push_back(isa);
  }
  return isas;
}

// Pages of one layer, filled with bytes that no token has written.
struct KvPages {
  KvPages(const KvLayerSpec& layer, int64_t count)
      : spec(layer),
        k(static_cast<size_t>(count * kv_k_page_bytes(layer)), std::byte{0xA5}),
        v(static_cast<size_t>(count * kv_v_page_bytes(layer)), std::byte{0xA5}) {}

  std::byte* k_page(int64_t page) { return k.data() + page * kv_k_page_bytes(spec); }
  std::byte* v_page(int64_t page) { return v.data() + page * kv_v_page_bytes(spec); }

  // keys, values: [slots][kv_heads * head_dim]
  KvAppendArgs append_args(const std::vector<int64_t>& slots, const std::vector<float>& keys,
                           const std::vector<float>& values) {
    KvAppendArgs args;
    args.spec = spec;
    args.tokens = static_cast<int64_t>(slots.size());
    args.slots = slots.data();
    args.k = keys.data();
    args.k_stride = static_cast<int64_t>(keys.size()) / args.tokens;
    args.v = values.data();
    args.v_stride = static_cast<int64_t>(values.size()) / args.tokens;
    args.k_base = k.data();
    args.v_base = v.data();
    args.k_page_stride = kv_k_page_bytes(spec);
    args.v_page_stride = kv_v_page_bytes(spec);
    return args;
  }

  void append(Isa isa, int threads, const std::vector<int64_t>& slots, const std::vector<float>& keys,
              const std::vector<float>& values) {
    const KvAppendArgs args = append_args(slots, keys, values);
    ThreadPool pool(threads);
    pool.run([&](Worker& worker) { launch_kv_append(isa, worker, args); });
  }

  // [kv_heads * head_dim] of a slot.
  std::vector<float> key(int64_t slot) {
    std::vector<float> row(static_cast<size_t>(spec.kv_heads * spec.head_dim_k));
    for (int64_t head = 0; head < spec.kv_heads; ++head) {
      read_kv_k(spec, k_page(slot / kKvPageTokens), head, slot % kKvPageTokens, spec.head_dim_k,
                row.data() + head * spec.head_dim_k);
    }
    return row;
  }
  std::vector<float> value(int64_t slot) {
    std::vector<float> row;
    const std::byte* page = v_page(slot / kKvPageTokens);
    for (int64_t head = 0; head < spec.kv_heads; ++head) {
      for (int64_t d = 0; d < spec.head_dim_v; ++d) {
        const std::byte* scale =
            kv_has_scales(spec.v_format) ? page + kv_v_scale_offset(spec, head, slot % kKvPageTokens, d) : nullptr;
        row.push_back(scalar::kv_value(spec.v_format, page + kv_v_offset(spec, head, slot % kKvPageTokens, d), scale));
      }
    }
    return row;
  }

  KvLayerSpec spec;
  std::vector<std::byte> k;
  std::vector<std::byte> v;
};

}  // namespace minfer::cpu
