// Pools and keys. See kv_cache.hpp.
#include "engine/kv/kv_cache.hpp"

#include <xxhash.h>

#include <algorithm>
#include <random>

#include "base/error.hpp"

namespace minfer::engine {

KvCache::KvCache(const graph::KvSpec& spec, graph::KvStore& store)
    : store_(store), sequence_tokens_(spec.sequence_tokens) {
  std::random_device random;
  seed_ = (uint64_t{random()} << 32) | random();
  check(spec.groups.size() <= graph::kMaxKvGroups, "more KV groups than kMaxKvGroups");
  for (const graph::KvGroup& group : spec.groups) {
    windows_.push_back(group.window);
    pools_.emplace_back(group.pages);
  }
}

PageKey KvCache::root_key(std::span<const float> adapter_scales) const {
  if (adapter_scales.empty()) return {};
  const XXH128_hash_t hash = XXH3_128bits_withSeed(adapter_scales.data(), adapter_scales.size_bytes(), seed_);
  return {hash.low64, hash.high64};
}

PageKey KvCache::key_after(const PageKey& parent, std::span<const int32_t> tokens) const {
  struct {
    PageKey parent;
    int32_t tokens[graph::kPageTokens];
  } block;
  block.parent = parent;
  std::copy_n(tokens.begin(), graph::kPageTokens, block.tokens);
  const XXH128_hash_t hash = XXH3_128bits_withSeed(&block, sizeof(block), seed_);
  return {hash.low64, hash.high64};
}

int64_t KvCache::first_visible_token(size_t group, int64_t position) const {
  return windows_[group] == 0 ? 0 : std::max<int64_t>(0, position - windows_[group] + 1);
}

int64_t KvCache::first_visible_page(size_t group, int64_t position) const {
  return first_visible_token(group, position) / graph::kPageTokens;
}

}  // namespace minfer::engine
