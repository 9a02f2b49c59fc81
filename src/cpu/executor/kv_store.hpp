// KV pages of the CPU, in one huge-page buffer that the system fills as pages are first written. The pages of a group
// follow each other; a page has all the group's layers' K and V (launch/kv_layout.hpp) side by side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/thread_pool.hpp"
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
    size_t group;
  };

  // The threads of `pool` do the moves.
  CpuKvStore(const graph::KvSpec& spec, ThreadPool& pool);
  int64_t bytes() const override { return bytes_; }
  std::string_view layout() const override { return "cpu-page64"; }
  int64_t page_bytes(int32_t group) const override { return groups_[static_cast<size_t>(group)].page_bytes; }
  void move(std::span<const graph::KvMove> moves) override;
  void read_page(int32_t group, int32_t page, int64_t tokens, std::span<std::byte> out) const override;
  void write_page(int32_t group, int32_t page, std::span<const std::byte> in) override;
  const graph::KvSpec& spec() const { return spec_; }
  const Layer& layer(int32_t index) const { return layers_[static_cast<size_t>(index)]; }

 private:
  struct Group {
    std::byte* base;
    int64_t page_bytes;
  };

  void move_head(std::span<const graph::KvMove> moves, int32_t layer_index, int64_t kv_head);

  graph::KvSpec spec_;
  ThreadPool& pool_;
  int64_t bytes_;
  HugeBuffer buffer_;
  std::vector<Group> groups_;
  std::vector<Layer> layers_;  // by layer; null bases for layers that no group names
};

}  // namespace minfer::cpu
