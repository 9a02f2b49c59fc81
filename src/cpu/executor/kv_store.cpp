// Placement of layers in the KV buffer. See kv_store.hpp. A page of tokens has all layers' K and V side by side, so
// that memory is touched only as the sequence grows: with layers apart, the first token would touch a huge page of
// each.
#include "cpu/executor/kv_store.hpp"

namespace minfer::cpu {

KvLayerSpec kv_layer_spec(const graph::KvSpec& spec, size_t layer) {
  const graph::KvLayer& sizes = spec.layers[layer];
  return {sizes.kv_heads, sizes.key_size, sizes.value_size, spec.key_format, spec.value_format};
}

int64_t kv_store_bytes(const graph::KvSpec& spec) {
  int64_t bytes = 0;
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const KvLayerSpec layer = kv_layer_spec(spec, i);
    bytes += spec.pages * (kv_k_page_bytes(layer) + kv_v_page_bytes(layer));
  }
  return bytes;
}

CpuKvStore::CpuKvStore(const graph::KvSpec& spec)
    : spec_(spec), bytes_(kv_store_bytes(spec)), buffer_(static_cast<size_t>(bytes_), "KV pages") {
  std::byte* at = buffer_.data();
  const int64_t page_stride = spec.pages == 0 ? 0 : bytes_ / spec.pages;
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const KvLayerSpec layer = kv_layer_spec(spec, i);
    const int64_t k_bytes = kv_k_page_bytes(layer);
    layers_.push_back({layer, at, at + k_bytes, page_stride, page_stride});
    at += k_bytes + kv_v_page_bytes(layer);
  }
}

}  // namespace minfer::cpu
