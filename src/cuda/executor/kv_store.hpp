// KV pages of a card: one buffer, the pages of a group behind each other, each with all the group's layers side by side
// (launch/kv_layout.hpp). Engine's thread only.
#pragma once

#include <vector>

#include "cuda/launch/kv_layout.hpp"
#include "cuda/runtime/device.hpp"
#include "graph/backend.hpp"

namespace minfer::cuda {

int64_t kv_store_bytes(const graph::KvSpec& spec);
// The sizes and formats of a layer, without places.
KvLayerView kv_layer_view(const graph::KvSpec& spec, int32_t layer);

class CudaKvStore final : public graph::KvStore {
 public:
  CudaKvStore(Device& device, const graph::KvSpec& spec);
  int64_t bytes() const override { return bytes_; }
  std::string_view layout() const override { return "cuda-page64"; }
  int64_t page_bytes(int32_t group) const override { return groups_[static_cast<size_t>(group)].page_bytes; }
  void move(std::span<const graph::KvMove> moves) override;
  void read_page(int32_t group, int32_t page, int64_t tokens, std::span<std::byte> out) const override;
  void write_page(int32_t group, int32_t page, std::span<const std::byte> in) override;
  const graph::KvSpec& spec() const { return spec_; }
  const KvLayerView& layer(int32_t index) const { return layers_[static_cast<size_t>(index)]; }
  size_t group_of(int32_t layer) const { return layer_group_[static_cast<size_t>(layer)]; }

 private:
  struct Group {
    std::byte* base;
    int64_t page_bytes;
  };

  Device& device_;
  graph::KvSpec spec_;
  int64_t bytes_;
  DeviceBuffer buffer_;
  std::vector<Group> groups_;
  std::vector<KvLayerView> layers_;  // by layer; null for layers that no group names
  std::vector<size_t> layer_group_;
  DeviceBuffer frequencies_;                     // of all layers' rotations
  std::vector<const float*> layer_frequencies_;  // by layer; nullptr: keys don't rotate
};

}  // namespace minfer::cuda
