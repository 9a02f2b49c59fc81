// KV pages of the CPU: for each layer the K pages and the V pages (launch/kv_layout.hpp), all in one huge-page buffer
// that the system fills as pages are first written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu/launch/kv_layout.hpp"
#include "cpu/runtime/memory.hpp"
#include "graph/backend.hpp"

namespace minfer::cpu {

// The cache of a layer in the terms of the kernels.
KvLayerSpec kv_layer_spec(const graph::KvSpec& spec, size_t layer);
int64_t kv_store_bytes(const graph::KvSpec& spec);

class CpuKvStore final : public graph::KvStore {
 public:
  struct Layer {
    KvLayerSpec spec;
    std::byte* k_base;
    std::byte* v_base;
    int64_t k_page_stride;
    int64_t v_page_stride;
  };

  explicit CpuKvStore(const graph::KvSpec& spec);
  int64_t bytes() const override { return bytes_; }
  const graph::KvSpec& spec() const { return spec_; }
  const Layer& layer(int32_t index) const { return layers_[static_cast<size_t>(index)]; }

 private:
  graph::KvSpec spec_;
  int64_t bytes_;
  HugeBuffer buffer_;
  std::vector<Layer> layers_;
};

}  // namespace minfer::cpu
