// The KV cache of a runner: for each group of layers a pool of pages, over the device's storage. Sequences
// (sequence.hpp) take pages from it and share them. Prefixes are found by key: a full page's key is a hash of its 64
// tokens and of its parent's key, so that an equal key means equal tokens from the start on. Keys are 128 bits, seeded
// anew in each process: nobody can prepare texts that collide. The engine's thread makes all calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "engine/kv/page_pool.hpp"
#include "graph/backend.hpp"

namespace minfer::engine {

constexpr int64_t page_count(int64_t tokens) {
  return (tokens + graph::kPageTokens - 1) / graph::kPageTokens;
}

class KvCache {
 public:
  // The store has the spec's pages and outlives the cache.
  KvCache(const graph::KvSpec& spec, graph::KvStore& store);

  size_t groups() const { return pools_.size(); }
  int64_t window(size_t group) const { return windows_[group]; }
  PagePool& pool(size_t group) { return pools_[group]; }
  const PagePool& pool(size_t group) const { return pools_[group]; }
  graph::KvStore& store() { return store_; }
  int64_t sequence_tokens() const { return sequence_tokens_; }

  // How much of the model's adapters a sequence gets that does not say otherwise. Before there are sequences.
  void set_adapter_scales(std::vector<float> scales) { adapter_scales_ = std::move(scales); }
  std::span<const float> adapter_scales() const { return adapter_scales_; }

  // What the key of a first page is chained to: sequences that get other adapters share no page.
  PageKey root_key(std::span<const float> adapter_scales) const;
  // The key of a full page: `tokens` are its kPageTokens.
  PageKey key_after(const PageKey& parent, std::span<const int32_t> tokens) const;

  // The first position that a token at `position` of a group can see, and its page.
  int64_t first_visible_token(size_t group, int64_t position) const;
  int64_t first_visible_page(size_t group, int64_t position) const;

 private:
  graph::KvStore& store_;
  int64_t sequence_tokens_;
  uint64_t seed_;
  std::vector<int64_t> windows_;
  std::vector<PagePool> pools_;
  std::vector<float> adapter_scales_;
};

}  // namespace minfer::engine
