// The KV cache as a device sees it: pages of 64 tokens, in groups of layers that keep the same positions. Part of the
// device seam (backend.hpp), apart because the engine's bookkeeping needs nothing else of it. The engine decides which
// page holds what; a store keeps bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "graph/enums.hpp"

namespace minfer::graph {

inline constexpr int64_t kPageTokens = 64;

// By KvFormat.
inline constexpr std::array<std::string_view, 4> kKvFormatNames = {"f32", "f16", "bf16", "q8_0"};
constexpr std::string_view kv_format_name(KvFormat format) {
  return kKvFormatNames[static_cast<size_t>(format)];
}

// How the keys of a layer were rotated before they were stored, so that a shift can rotate them further: by
// positions * inverse_frequencies[i] for pair i. Empty where keys carry no position.
struct KvRotation {
  std::vector<float> inverse_frequencies;
  RopeStyle style = RopeStyle::halves;
};

struct KvLayer {
  int64_t kv_heads;
  int64_t key_size;
  int64_t value_size;
  int64_t window = 0;  // positions that its attention sees, its own included; 0: all
  KvRotation rotation;
};

// Layers that keep the same positions: their pages are taken and given back together, under ids of the group's own.
struct KvGroup {
  int64_t window = 0;           // of its layers
  std::vector<int32_t> layers;  // ascending indices into KvSpec::layers
  int64_t pages = 0;
};

inline constexpr size_t kMaxKvGroups = 4;

struct KvSpec {
  std::vector<KvLayer> layers;  // of the whole model; a device stores those that its groups name
  std::vector<KvGroup> groups;  // at most kMaxKvGroups
  KvFormat key_format = KvFormat::f16;
  KvFormat value_format = KvFormat::f16;
  int64_t sequence_tokens = 0;  // the most positions of one sequence
  int64_t step_sequences = 64;  // the most sequences of one step
};

// Tokens of one page of a group, to be copied into another page or moved down in the same one, in every layer of the
// group. Where `rotate_by` is not 0, keys are rotated by that many positions on the way.
struct KvMove {
  int32_t group;
  int32_t from_page;
  int32_t from_token;  // index in the page
  int32_t to_page;
  int32_t to_token;
  int32_t tokens;  // at least 1; within both pages
  int64_t rotate_by;
};

// Storage of the groups' pages. Which page holds which tokens is the engine's business.
class KvStore {
 public:
  virtual ~KvStore() = default;
  virtual int64_t bytes() const = 0;
  // What the bytes of a page mean, in one word: pages may be written only to a store of equal layout and spec.
  virtual std::string_view layout() const = 0;
  // Bytes of one page of a group, all its layers.
  virtual int64_t page_bytes(int32_t group) const = 0;
  // In the order given; where both are one page, to_token <= from_token.
  virtual void move(std::span<const KvMove> moves) = 0;
  // The first `tokens` of a page, the rest zeroed; `out` is of page_bytes(group).
  virtual void read_page(int32_t group, int32_t page, int64_t tokens, std::span<std::byte> out) const = 0;
  virtual void write_page(int32_t group, int32_t page, std::span<const std::byte> in) = 0;
};

// What the engine asks of a store, held against its spec: kernels index memory by these numbers, so a wrong one ends
// here, with Error{internal}. A page of a group; a move within and between pages; the pages of the `rows` positions
// that a sequence adds at `first_position` and of those before it that the group's window shows.
void check_page(const KvSpec& spec, int32_t group, int32_t page);
void check_move(const KvSpec& spec, const KvMove& move);
void check_pages(const KvSpec& spec, size_t group, int64_t first_position, int64_t rows,
                 std::span<const int32_t> pages);

}  // namespace minfer::graph
