// Placement of layers in the KV buffer. See kv_store.hpp. A page of tokens has all layers' K and V side by side, so
// that memory is touched only as the sequence grows: with layers apart, the first token would touch a huge page of
// each.
#include "cpu/executor/kv_store.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "cpu/launch/kv_move.hpp"

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

void CpuKvStore::move_head(std::span<const graph::KvMove> moves, int32_t layer_index, int64_t kv_head) {
  const Layer& layer = this->layer(layer_index);
  const graph::KvRotation& rotation = spec_.layers[static_cast<size_t>(layer_index)].rotation;
  const auto tokens_of = [&](int32_t page, int32_t token) {
    return KvTokens{layer.k_base + page * layer.k_page_stride, layer.v_base + page * layer.v_page_stride, token};
  };
  std::vector<float> scratch;
  std::optional<KvTurn> turn;
  int64_t turn_by = 0;  // moves mostly rotate by one distance
  for (const graph::KvMove& move : moves) {
    if (static_cast<size_t>(move.group) != layer.group) continue;
    const bool turns = move.rotate_by != 0 && !rotation.inverse_frequencies.empty();
    if (turns && turn_by != move.rotate_by) {
      turn.emplace(rotation.inverse_frequencies, rotation.style, move.rotate_by);
      turn_by = move.rotate_by;
    }
    const KvMoveArgs args = {layer.spec, tokens_of(move.from_page, move.from_token),
                             tokens_of(move.to_page, move.to_token), move.tokens, turns ? &*turn : nullptr};
    move_kv_head(args, kv_head, scratch);
  }
}

void CpuKvStore::move(std::span<const graph::KvMove> moves) {
  for (const graph::KvMove& move : moves) check_move(spec_, move);
  // Heads of layers share nothing, so each is one work item that takes the moves in order.
  std::vector<std::pair<int32_t, int64_t>> heads;
  for (size_t group = 0; group < groups_.size(); ++group) {
    const bool moved = std::any_of(moves.begin(), moves.end(),
                                   [&](const graph::KvMove& move) { return static_cast<size_t>(move.group) == group; });
    if (!moved) continue;
    for (const int32_t layer : spec_.groups[group].layers) {
      for (int64_t head = 0; head < this->layer(layer).spec.kv_heads; ++head) heads.emplace_back(layer, head);
    }
  }
  pool_.run([&](Worker& worker) {
    worker.parallel_for(static_cast<int64_t>(heads.size()), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        move_head(moves, heads[static_cast<size_t>(i)].first, heads[static_cast<size_t>(i)].second);
      }
    });
  });
}

void CpuKvStore::read_page(int32_t group, int32_t page, int64_t tokens, std::span<std::byte> out) const {
  check_page(spec_, group, page);
  const Group& place = groups_[static_cast<size_t>(group)];
  check(static_cast<int64_t>(out.size()) == place.page_bytes && tokens >= 0 && tokens <= kKvPageTokens,
        "reading of a KV page: sizes");
  std::memcpy(out.data(), place.base + page * place.page_bytes, out.size());
  for (const int32_t index : spec_.groups[static_cast<size_t>(group)].layers) {
    const Layer& layer = this->layer(index);
    clear_kv_tokens(layer.spec, out.data() + (layer.k_base - place.base), out.data() + (layer.v_base - place.base),
                    tokens);
  }
}

void CpuKvStore::write_page(int32_t group, int32_t page, std::span<const std::byte> in) {
  check_page(spec_, group, page);
  const Group& place = groups_[static_cast<size_t>(group)];
  check(static_cast<int64_t>(in.size()) == place.page_bytes, "writing of a KV page: sizes");
  std::memcpy(place.base + page * place.page_bytes, in.data(), in.size());
}

}  // namespace minfer::cpu
