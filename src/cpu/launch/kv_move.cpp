// Moves of cached tokens. See kv_move.hpp. Everything here is rows of bytes: in K a row is one dimension (or the scales
// of one block of them) over the tokens of a page, in V one token (or its scales).
#include "cpu/launch/kv_move.hpp"

#include <cmath>
#include <cstring>

#include "base/error.hpp"
#include "cpu/launch/kv_append.hpp"

namespace minfer::cpu {
namespace {

size_t bytes_of(int64_t count) {
  return static_cast<size_t>(count);
}

// Dimensions of K that a turn rewrites: whole blocks in q8_0.
int64_t turned_dims(const KvLayerSpec& spec, const KvTurn* turn) {
  if (turn == nullptr) return 0;
  if (!kv_has_scales(spec.k_format)) return turn->dims();
  return (turn->dims() + kKvBlockElements - 1) / kKvBlockElements * kKvBlockElements;
}

// Copies dimensions [begin, head_dim_k).
void copy_keys(const KvMoveArgs& args, int64_t kv_head, int64_t begin) {
  const KvLayerSpec& spec = args.spec;
  const size_t row = bytes_of(args.tokens * kv_element_bytes(spec.k_format));
  for (int64_t d = begin; d < spec.head_dim_k; ++d) {
    std::memmove(args.to.k + kv_k_offset(spec, kv_head, args.to.token, d),
                 args.from.k + kv_k_offset(spec, kv_head, args.from.token, d), row);
  }
  if (!kv_has_scales(spec.k_format)) return;
  for (int64_t d = begin; d < spec.head_dim_k; d += kKvBlockElements) {
    std::memmove(args.to.k + kv_k_scale_offset(spec, kv_head, args.to.token, d),
                 args.from.k + kv_k_scale_offset(spec, kv_head, args.from.token, d),
                 bytes_of(args.tokens * kKvScaleBytes));
  }
}

// Rotates dimensions [0, dims), all tokens read before the first is written.
void turn_keys(const KvMoveArgs& args, int64_t kv_head, int64_t dims, std::vector<float>& scratch) {
  const KvLayerSpec& spec = args.spec;
  scratch.resize(static_cast<size_t>(args.tokens * dims));
  for (int64_t t = 0; t < args.tokens; ++t) {
    float* head = scratch.data() + t * dims;
    read_kv_k(spec, args.from.k, kv_head, args.from.token + t, dims, head);
    args.turn->apply(head);
  }
  scalar::write_kv_k(spec.k_format, {scratch.data(), dims, args.tokens, dims},
                     kv_k_target(spec, args.to.k, kv_head, args.to.token));
}

void copy_values(const KvMoveArgs& args, int64_t kv_head) {
  const KvLayerSpec& spec = args.spec;
  std::memmove(args.to.v + kv_v_offset(spec, kv_head, args.to.token, 0),
               args.from.v + kv_v_offset(spec, kv_head, args.from.token, 0),
               bytes_of(args.tokens * spec.head_dim_v * kv_element_bytes(spec.v_format)));
  if (!kv_has_scales(spec.v_format)) return;
  std::memmove(args.to.v + kv_v_scale_offset(spec, kv_head, args.to.token, 0),
               args.from.v + kv_v_scale_offset(spec, kv_head, args.from.token, 0),
               bytes_of(args.tokens * (spec.head_dim_v / kKvBlockElements) * kKvScaleBytes));
}

}  // namespace

KvTurn::KvTurn(std::span<const float> inverse_frequencies, graph::RopeStyle style, int64_t positions) : style_(style) {
  cosines_.reserve(inverse_frequencies.size());
  sines_.reserve(inverse_frequencies.size());
  for (const float frequency : inverse_frequencies) {
    const double angle = static_cast<double>(positions) * static_cast<double>(frequency);
    cosines_.push_back(static_cast<float>(std::cos(angle)));
    sines_.push_back(static_cast<float>(std::sin(angle)));
  }
}

void KvTurn::apply(float* head) const {
  const size_t pairs = cosines_.size();
  const bool halves = style_ == graph::RopeStyle::halves;
  for (size_t i = 0; i < pairs; ++i) {
    float& a = head[halves ? i : 2 * i];
    float& b = head[halves ? i + pairs : 2 * i + 1];
    const float x = a;
    const float y = b;
    a = x * cosines_[i] - y * sines_[i];
    b = x * sines_[i] + y * cosines_[i];
  }
}

void move_kv_head(const KvMoveArgs& args, int64_t kv_head, std::vector<float>& scratch) {
  check(args.turn == nullptr || args.turn->dims() <= args.spec.head_dim_k, "a KV move rotates more than a head");
  const int64_t turned = turned_dims(args.spec, args.turn);
  const bool in_place = args.from.token == args.to.token && args.from.k == args.to.k;
  if (turned > 0) turn_keys(args, kv_head, turned, scratch);
  if (in_place) return;
  copy_keys(args, kv_head, turned);
  copy_values(args, kv_head);
}

void clear_kv_tokens(const KvLayerSpec& spec, std::byte* k_page, std::byte* v_page, int64_t first_token) {
  const int64_t tokens = kKvPageTokens - first_token;
  if (tokens == 0) return;
  for (int64_t head = 0; head < spec.kv_heads; ++head) {
    for (int64_t d = 0; d < spec.head_dim_k; ++d) {
      std::memset(k_page + kv_k_offset(spec, head, first_token, d), 0,
                  bytes_of(tokens * kv_element_bytes(spec.k_format)));
      if (kv_has_scales(spec.k_format) && d % kKvBlockElements == 0) {
        std::memset(k_page + kv_k_scale_offset(spec, head, first_token, d), 0, bytes_of(tokens * kKvScaleBytes));
      }
    }
    std::memset(v_page + kv_v_offset(spec, head, first_token, 0), 0,
                bytes_of(tokens * spec.head_dim_v * kv_element_bytes(spec.v_format)));
    if (kv_has_scales(spec.v_format)) {
      std::memset(v_page + kv_v_scale_offset(spec, head, first_token, 0), 0,
                  bytes_of(tokens * (spec.head_dim_v / kKvBlockElements) * kKvScaleBytes));
    }
  }
}

}  // namespace minfer::cpu
