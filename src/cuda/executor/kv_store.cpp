// Placement of layers in the KV buffer, moves, and pages for session files. See kv_store.hpp.
#include "cuda/executor/kv_store.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "cuda/launch/attention.hpp"

namespace minfer::cuda {
namespace {

static_assert(graph::kPageTokens == kKvPageTokens, "slots are made of the engine's pages");

int64_t key_bytes(const graph::KvSpec& spec, int32_t layer) {
  const graph::KvLayer& sizes = spec.layers[static_cast<size_t>(layer)];
  return kv_part_bytes(spec.key_format, sizes.kv_heads, sizes.key_size);
}

int64_t layer_bytes(const graph::KvSpec& spec, int32_t layer) {
  const graph::KvLayer& sizes = spec.layers[static_cast<size_t>(layer)];
  return key_bytes(spec, layer) + kv_part_bytes(spec.value_format, sizes.kv_heads, sizes.value_size);
}

int64_t group_page_bytes(const graph::KvSpec& spec, const graph::KvGroup& group) {
  int64_t bytes = 0;
  for (const int32_t layer : group.layers) bytes += layer_bytes(spec, layer);
  return bytes;
}

// Zeroes the tokens from `first` on of one layer's K or V in a page on the host.
void clear_tokens(std::byte* part, graph::KvFormat format, int64_t kv_heads, int64_t size, int64_t first) {
  const auto clear_rows = [&](std::byte* rows, int64_t row_bytes) {
    for (int64_t head = 0; head < kv_heads; ++head) {
      std::byte* base = rows + (head * kKvPageTokens + first) * row_bytes;
      std::memset(base, 0, static_cast<size_t>((kKvPageTokens - first) * row_bytes));
    }
  };
  clear_rows(part, kv_head_bytes(format, size) / kKvPageTokens);
  if (format == graph::KvFormat::q8_0) clear_rows(part + kv_scales_offset(kv_heads, size), size / 32 * 2);
}

}  // namespace

KvLayerView kv_layer_view(const graph::KvSpec& spec, int32_t layer) {
  const graph::KvLayer& sizes = spec.layers[static_cast<size_t>(layer)];
  KvLayerView view;
  view.key_format = spec.key_format;
  view.value_format = spec.value_format;
  view.kv_heads = sizes.kv_heads;
  view.key_size = sizes.key_size;
  view.value_size = sizes.value_size;
  return view;
}

int64_t kv_store_bytes(const graph::KvSpec& spec) {
  int64_t bytes = 0;
  for (const graph::KvGroup& group : spec.groups) bytes += group.pages * group_page_bytes(spec, group);
  return bytes;
}

CudaKvStore::CudaKvStore(Device& device, const graph::KvSpec& spec)
    : device_(device),
      spec_(spec),
      bytes_(kv_store_bytes(spec)),
      buffer_(bytes_, "the KV cache"),
      layers_(spec.layers.size()),
      layer_group_(spec.layers.size(), 0),
      layer_frequencies_(spec.layers.size(), nullptr) {
  std::byte* at = buffer_.data();
  for (size_t g = 0; g < spec.groups.size(); ++g) {
    const graph::KvGroup& group = spec.groups[g];
    const int64_t stride = group_page_bytes(spec, group);
    groups_.push_back({at, stride});
    std::byte* base = at;
    for (const int32_t index : group.layers) {
      KvLayerView view = kv_layer_view(spec, index);
      view.k = base;
      view.v = base + key_bytes(spec, index);
      view.page_stride = stride;
      layers_[static_cast<size_t>(index)] = view;
      layer_group_[static_cast<size_t>(index)] = g;
      base += layer_bytes(spec, index);
    }
    at += group.pages * stride;
  }
  std::vector<float> frequencies;
  for (const graph::KvLayer& layer : spec.layers) {
    frequencies.insert(frequencies.end(), layer.rotation.inverse_frequencies.begin(),
                       layer.rotation.inverse_frequencies.end());
  }
  frequencies_ = DeviceBuffer(static_cast<int64_t>(frequencies.size() * sizeof(float)), "rotation frequencies");
  const float* next = reinterpret_cast<const float*>(frequencies_.data());
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const size_t pairs = spec.layers[i].rotation.inverse_frequencies.size();
    layer_frequencies_[i] = pairs == 0 ? nullptr : next;
    next += pairs;
  }
  device_.run([&] {
    clear(device_.queue(), "kv/clear", buffer_.data(), buffer_.bytes());
    if (!frequencies.empty()) {
      copy_to_device(device_.queue(), "kv/frequencies", frequencies_.data(), frequencies.data(),
                     static_cast<int64_t>(frequencies.size() * sizeof(float)));
    }
    device_.wait("kv/clear");
  });
}

void CudaKvStore::move(std::span<const graph::KvMove> moves) {
  for (const graph::KvMove& move : moves) check_move(spec_, move);
  device_.run([&] {
    for (const graph::KvMove& move : moves) {
      for (const int32_t index : spec_.groups[static_cast<size_t>(move.group)].layers) {
        const graph::KvRotation& rotation = spec_.layers[static_cast<size_t>(index)].rotation;
        launch_kv_move(device_.queue(),
                       {layer(index), move.from_page, move.from_token, move.to_page, move.to_token, move.tokens,
                        layer_frequencies_[static_cast<size_t>(index)],
                        static_cast<int64_t>(rotation.inverse_frequencies.size()), move.rotate_by, rotation.style});
      }
    }
    device_.wait("kv/move");
  });
}

void CudaKvStore::read_page(int32_t group, int32_t page, int64_t tokens, std::span<std::byte> out) const {
  check_page(spec_, group, page);
  const Group& place = groups_[static_cast<size_t>(group)];
  check(static_cast<int64_t>(out.size()) == place.page_bytes && tokens >= 0 && tokens <= kKvPageTokens,
        "reading of a KV page: sizes");
  device_.run([&] {
    copy_to_host(device_.queue(), "kv/read", out.data(), place.base + page * place.page_bytes, place.page_bytes);
    device_.wait("kv/read");
  });
  for (const int32_t index : spec_.groups[static_cast<size_t>(group)].layers) {
    const KvLayerView& view = layer(index);
    clear_tokens(out.data() + (view.k - place.base), view.key_format, view.kv_heads, view.key_size, tokens);
    clear_tokens(out.data() + (view.v - place.base), view.value_format, view.kv_heads, view.value_size, tokens);
  }
}

void CudaKvStore::write_page(int32_t group, int32_t page, std::span<const std::byte> in) {
  check_page(spec_, group, page);
  const Group& place = groups_[static_cast<size_t>(group)];
  check(static_cast<int64_t>(in.size()) == place.page_bytes, "writing of a KV page: sizes");
  device_.run([&] {
    copy_to_device(device_.queue(), "kv/write", place.base + page * place.page_bytes, in.data(), place.page_bytes);
    device_.wait("kv/write");
  });
}

}  // namespace minfer::cuda
