// What a node of a graph says beside its inputs and weights: one struct an op that needs any. The shapes that go with
// them are checked by the ops' contracts (ops.hpp). Plain data.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "graph/enums.hpp"
#include "graph/routing.hpp"

namespace minfer::graph {

struct EmbedAttributes {
  float scale;             // multiplies every element of the gathered row
  bool first_row = false;  // the table's first row for every token, whatever its id
};
struct RmsNormAttributes {
  float eps;
  int64_t group;  // elements normalised together: the width, or the head size for per-head norms
};
struct LayerNormAttributes {
  float eps;
  int64_t group;     // elements normalised together: the width, or the head size
  bool own_weights;  // each group of a row has weights of its own
};
struct GluAttributes {
  Activation activation;
};
struct ActivateAttributes {
  Activation activation;
};
struct ScaleAttributes {
  float factor;
  float cap;  // the scaled x becomes cap * tanh(x / cap); 0: stays
};
// A linear, or a linear_glu, of an input that is normalised first, over its whole width.
struct NormLinearAttributes {
  float eps;
};
struct NormLinearGluAttributes {
  float eps;
  Activation activation;
};
struct RopeAnglesAttributes {
  std::vector<float> inverse_frequencies;  // one a rotated pair
  float magnitude;                         // multiplies cos and sin (yarn's attention factor)
  // Multiplies them further by 1 + temperature * ln(1 + floor(position / temperature_length)); 0: does not.
  float temperature = 0.0F;
  int64_t temperature_length = 0;
  bool operator==(const RopeAnglesAttributes&) const = default;
};
struct RopeAttributes {
  int64_t heads;
  int64_t head_size;
  RopeStyle style;
};
// For each head a slice of the first input's row and behind it one of the second's (a row has none where size is 0):
// elements offset + head * stride on, of which heads may share (stride 0).
struct JoinHeadsAttributes {
  struct Slice {
    int64_t offset = 0;
    int64_t stride = 0;
    int64_t size = 0;
  };
  int64_t heads;
  Slice first;
  Slice second;
};
struct KvAppendAttributes {
  int32_t layer;
};
// Rotates q and k (after an optional per-head norm) and appends k and v: the fused form of what precedes attention. k
// is overwritten: it has no other reader.
struct RopeAppendAttributes {
  int32_t layer;
  int64_t heads;
  int64_t kv_heads;
  int64_t head_size;
  RopeStyle style;
  float norm_eps;  // of both norms, where they are
};
struct AttentionAttributes {
  int32_t layer;
  int64_t heads;
  int64_t kv_heads;
  int64_t head_size;   // of q and k
  int64_t value_size;  // of v
  float scale;         // multiplies q.k
  int64_t window;      // positions seen, itself included; 0: all
  float softcap;       // cap * tanh(score / cap); 0: none
  bool causal = true;  // false: a token sees its whole sequence, which one step has; without a window
};

// A rope_append and the attention that alone reads what it makes. q and k may be overwritten.
struct RopeAttentionAttributes {
  RopeStyle style;
  float norm_eps;
  AttentionAttributes attention;
};

// How much of an adapter each row gets: its sequence's own scale (SequenceStep::adapter_scales) times `factor`.
struct AdapterScaleAttributes {
  int32_t adapter;
  float factor;  // of this pair of matrices: alpha / rank
};

using Attributes =
    std::variant<std::monostate, EmbedAttributes, RmsNormAttributes, LayerNormAttributes, GluAttributes,
                 ActivateAttributes, ScaleAttributes, NormLinearAttributes, NormLinearGluAttributes,
                 RopeAnglesAttributes, RopeAttributes, JoinHeadsAttributes, KvAppendAttributes, RopeAppendAttributes,
                 AttentionAttributes, RopeAttentionAttributes, RouteAttributes, AdapterScaleAttributes>;

}  // namespace minfer::graph
