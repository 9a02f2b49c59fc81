// Moves of cached tokens between pages and down within one, one layer and KV head at a time. Values are copied bit for
// bit. Keys too, unless they are turned: rotated further by a number of positions, so that a key appended at position p
// and turned by -n is the key of position p - n up to the rounding of its format. Dimensions that do not rotate are
// copied in any case (q8_0: those of blocks that no rotation touches). Numbers do not depend on the instruction set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cpu/launch/kv_layout.hpp"
#include "graph/enums.hpp"

namespace minfer::cpu {

// The rotation of a head by a number of positions: pair i (elements 2i and 2i + 1, or i and i + pairs) by
// positions * inverse_frequencies[i] radians. Product and functions in double precision, stored as f32.
class KvTurn {
 public:
  KvTurn(std::span<const float> inverse_frequencies, graph::RopeStyle style, int64_t positions);
  // Rotates the first dims() elements of a head.
  void apply(float* head) const;
  int64_t dims() const { return 2 * static_cast<int64_t>(cosines_.size()); }

 private:
  graph::RopeStyle style_;
  std::vector<float> cosines_;
  std::vector<float> sines_;
};

// `from` and `to` are pages of one layer, K and V.
struct KvTokens {
  std::byte* k;
  std::byte* v;
  int64_t token;  // the first, its index in the page
};
struct KvMoveArgs {
  KvLayerSpec spec;
  KvTokens from;
  KvTokens to;                   // where it is the page of `from`, no later than there
  int64_t tokens = 0;            // within both pages
  const KvTurn* turn = nullptr;  // nullptr: keys are copied
};
// Moves the tokens of one KV head. `scratch` keeps its memory between calls.
void move_kv_head(const KvMoveArgs& args, int64_t kv_head, std::vector<float>& scratch);

// Zeroes the tokens from `first_token` on of a layer's page.
void clear_kv_tokens(const KvLayerSpec& spec, std::byte* k_page, std::byte* v_page, int64_t first_token);

}  // namespace minfer::cpu
