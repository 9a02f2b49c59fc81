// What a model's metadata says, checked and in minfer's terms: the one input, with a StepShape, of its graph function.
// Plain data. An architecture's read_config fills it from a GGUF file (arch.hpp); nothing above model/ reads metadata.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/ir.hpp"

namespace minfer::model {

// Rotary position embedding of one kind of layer.
struct Rope {
  graph::RopeStyle style = graph::RopeStyle::halves;
  int64_t dims = 0;  // rotated elements of a head, even
  float base = 10000.0F;

  enum class Scaling { none, linear, yarn, longrope } scaling = Scaling::none;
  float factor = 1.0F;           // positions are divided by it (linear), or stretched by parts (yarn)
  int64_t original_context = 0;  // yarn, longrope: tokens that the model was first trained for
  float yarn_beta_fast = 32.0F;
  float yarn_beta_slow = 1.0F;
  bool yarn_truncated = true;             // the ramp begins and ends at whole pairs
  float yarn_log_multiplier = 0.0F;       // m: yarn's own magnitude is divided by 1 + 0.1 m ln(factor)
  float yarn_attention_factor = 1.0F;     // multiplies yarn's own magnitude; longrope's
  std::vector<float> frequency_divisors;  // llama3 scaling: one a rotated pair, from rope_freqs.weight; empty: none
  std::vector<float> long_divisors;       // longrope: those of a context beyond the original one

  // Of a run whose sequences have up to `context` tokens.
  bool is_long(int64_t context) const { return scaling == Scaling::longrope && context > original_context; }
  Rope for_context(int64_t context) const {
    Rope rope = *this;
    if (is_long(context)) rope.frequency_divisors = long_divisors;
    return rope;
  }
};

// What brings a hidden state to one size: its root mean square, or its deviation from its mean.
enum class Norm : uint8_t { rms, layer };

// How the hidden states of a text's tokens become its embedding, as the file says (<architecture>.pooling_type).
enum class Pooling : uint8_t { none, mean, first, last, rank };

struct Config {
  std::string architecture;
  std::string name;
  int64_t layers = 0;
  int64_t width = 0;  // elements of a token's hidden state
  int64_t ffn_width = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t key_size = 0;
  int64_t value_size = 0;
  int64_t vocabulary = 0;
  int64_t context_length = 0;  // tokens that the model was trained for
  Norm norm = Norm::rms;
  float norm_eps = 0;
  float embedding_scale = 1.0F;
  float attention_scale = 0;
  float attention_softcap = 0;  // scores become cap * tanh(score / cap); 0: stay
  float logit_scale = 1.0F;
  float logit_softcap = 0;  // of the scaled logits, alike
  // Attention and feed-forward read one norm of the hidden state, and both are added to it.
  bool is_parallel = false;
  bool is_gated = true;  // feed-forward layers of gate, up and down; else of up and down
  Pooling pooling = Pooling::none;
  // Every token sees all others, so that a text runs in one step, and gives hidden states, but no logits.
  bool encoder = false;
  bool learned_positions = false;  // of a table of context_length rows
  int64_t token_types = 0;         // rows of the table of these, of which the first is added to every token; 0: none
  graph::Activation activation = graph::Activation::silu;

  // A mixture of experts in place of each layer's feed-forward; none where experts is 0.
  int64_t experts = 0;
  int64_t experts_used = 0;      // of each token
  int64_t expert_ffn_width = 0;  // of each expert
  int64_t shared_ffn_width = 0;  // of the expert that every token goes to, weighed by a gate; 0: none
  bool normalised_routes = false;
  graph::Gating gating = graph::Gating::softmax;
  bool shared_gate = true;   // the shared expert has one
  float route_scale = 1.0F;  // of the weights of the chosen ones
  int64_t expert_groups = 1;
  int64_t expert_groups_used = 1;  // of each token
  graph::GroupScore group_score = graph::GroupScore::largest;
  int64_t dense_layers = 0;  // the first ones, without experts

  // Of attention whose keys and values come of one short vector a token (MLA); 0: each has its own matrix.
  int64_t kv_lora = 0;       // elements of that vector
  int64_t q_lora = 0;        // of such a vector of queries; 0: none
  bool splits_kv_b = false;  // the file has what makes keys of it apart from what makes values

  Rope rope;
  // q is multiplied by 1 + temperature * ln(1 + floor(position / the rope's original context)); 0: is not.
  float attention_temperature = 0;
  int64_t no_rope_period = 0;  // each so manieth layer has no RoPE; 0: all have it
  // Layers with a sliding window: every layer but each `window_period`th (0: every one); none where window is 0.
  int64_t window = 0;
  int64_t window_period = 0;
  Rope window_rope;

  bool is_window_layer(int64_t layer) const {
    return window > 0 && (window_period == 0 || (layer + 1) % window_period != 0);
  }
  bool has_rope(int64_t layer) const { return no_rope_period == 0 || (layer + 1) % no_rope_period != 0; }
};

// The largest sizes that a file may ask for: far above any published model. Their products can exceed 64 bits: what is
// planned from them is computed with base/checked.hpp.
inline constexpr int64_t kMaxLayers = 1024;
inline constexpr int64_t kMaxWidth = 1 << 20;
inline constexpr int64_t kMaxHeads = 4096;
inline constexpr int64_t kMaxHeadSize = 4096;
inline constexpr int64_t kMaxVocabulary = 1 << 24;
inline constexpr int64_t kMaxContext = int64_t{1} << 30;

}  // namespace minfer::model
