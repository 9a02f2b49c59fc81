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

  enum class Scaling { none, linear, yarn } scaling = Scaling::none;
  float factor = 1.0F;           // positions are divided by it (linear), or stretched by parts (yarn)
  int64_t original_context = 0;  // yarn: tokens that the model was first trained for
  float yarn_beta_fast = 32.0F;
  float yarn_beta_slow = 1.0F;
  bool yarn_truncated = true;             // the ramp begins and ends at whole pairs
  float yarn_attention_factor = 1.0F;     // multiplies yarn's own 1 + 0.1 ln(factor)
  std::vector<float> frequency_divisors;  // llama3 scaling: one a rotated pair, from rope_freqs.weight; empty: none
};

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
  float norm_eps = 0;
  float embedding_scale = 1.0F;
  float attention_scale = 0;
  Pooling pooling = Pooling::none;
  graph::Activation activation = graph::Activation::silu;

  // A mixture of experts in place of each layer's feed-forward; none where experts is 0.
  int64_t experts = 0;
  int64_t experts_used = 0;      // of each token
  int64_t expert_ffn_width = 0;  // of each expert
  int64_t shared_ffn_width = 0;  // of the expert that every token goes to, weighed by a gate; 0: none
  bool normalised_routes = false;
  graph::Gating gating = graph::Gating::softmax;

  Rope rope;
  // Layers with a sliding window: every layer but each `window_period`th; none where window is 0.
  int64_t window = 0;
  int64_t window_period = 0;
  Rope window_rope;

  bool is_window_layer(int64_t layer) const { return window > 0 && (layer + 1) % window_period != 0; }
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
