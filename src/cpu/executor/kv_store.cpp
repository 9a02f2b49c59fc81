// Placement of layers in the KV buffer. See kv_store.hpp. A page of tokens has all layers' K and V side by side, so
// that memory is touched only as the sequence grows: with layers apart, the first token would touch a huge page of
// each.
#include "cpu/executor/kv_store.hpp"

#include "base/error.hpp"

namespace minfer::cpu {

KvLayerSpec kv_layer_spec(const graph::KvSpec& spec, size_t layer) {
  const graph::KvLayer& sizes = spec.layers[layer];
  return {sizes.kv_heads, sizes.key_size, sizes.value_size, spec.key_format, spec.value_format};
}

namespace {

int64_t layer_page_bytes(const KvLayerSpec& layer) {
  return kv_k_page_bytes(layer) + kv_v_page_bytes(layer);
}

int64_t group_page_bytes(const graph::KvSpec& spec, const graph::KvGroup& group) {
  int64_t bytes = 0;
  for (const int32_t layer : group.layers) bytes += layer_page_bytes(kv_layer_spec(spec, static_cast<size_t>(layer)));
  return bytes;
}

}  // namespace

int64_t kv_store_bytes(const graph::KvSpec& spec) {
  int64_t bytes = 0;
  for (const graph::KvGroup& group : spec.groups) bytes += group.pages * group_page_bytes(spec, group);
  return bytes;
}

CpuKvStore::CpuKvStore(const graph::KvSpec& spec, ThreadPool& pool)
    : spec_(spec),
      pool_(pool),
      bytes_(kv_store_bytes(spec)),
      buffer_(static_cast<size_t>(bytes_), "KV pages"),
      layers_(spec.layers.size()) {
  std::byte* at = buffer_.data();
  for (size_t g = 0; g < spec.groups.size(); ++g) {
    const graph::KvGroup& group = spec.groups[g];
    const int64_t stride = group_page_bytes(spec, group);
    groups_.push_back({at, stride});
    std::byte* base = at;
    for (const int32_t index : group.layers) {
      const KvLayerSpec layer = kv_layer_spec(spec, static_cast<size_t>(index));
      layers_[static_cast<size_t>(index)] = {layer, base, base + kv_k_page_bytes(layer), stride, stride, g};
      base += layer_page_bytes(layer);
    }
    at += group.pages * stride;
  }
}

void CpuKvStore::move(std::span<const graph::KvMove>) {
  fail(ErrorCode::internal, "internal error: moves of KV pages");
}

void CpuKvStore::read_page(int32_t, int32_t, int64_t, std::span<std::byte>) const {
  fail(ErrorCode::internal, "internal error: reading of KV pages");
}

void CpuKvStore::write_page(int32_t, int32_t, std::span<const std::byte>) {
  fail(ErrorCode::internal, "internal error: writing of KV pages");
}

}  // namespace minfer::cpu
