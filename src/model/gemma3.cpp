// The architecture "gemma3" (text, dense). Differs from the standard decoder: the embedding is scaled by sqrt(width),
// norms stand before and after attention and feed-forward, every head of q and k is normed, the activation is
// tanh-GELU, and five of six layers attend to a sliding window with a RoPE of their own base, without the scaling of
// the others. The conversion stores norm weights with their +1 included. Source: the Gemma 3 report (arXiv 2503.19786).
#include <cmath>

#include "model/arch.hpp"
#include "model/decoder.hpp"
#include "model/metadata.hpp"
#include "model/rope.hpp"

namespace minfer::model {
namespace {

using graph::ValueId;

constexpr int64_t kWindowPeriod = 6;
constexpr float kWindowRopeBase = 10000.0F;
// The 27B model, known by its depth, scales scores by the width a head instead of the head size.
constexpr int64_t kLayersOf27B = 62;

Config read_config(const gguf::File& file) {
  const ArchMetadata meta(file);
  Config config = read_decoder_config(file, graph::RopeStyle::halves);
  config.activation = graph::Activation::gelu_tanh;
  config.embedding_scale = std::sqrt(static_cast<float>(config.width));
  if (config.layers == kLayersOf27B) {
    config.attention_scale = 1.0F / std::sqrt(static_cast<float>(config.width) / static_cast<float>(config.heads));
  }
  config.window = meta.count("attention.sliding_window", kMaxContext);
  config.window_period = meta.find_count("attention.sliding_window_pattern", kMaxLayers).value_or(kWindowPeriod);
  config.window_rope.style = config.rope.style;
  config.window_rope.dims = config.rope.dims;
  config.window_rope.base = meta.find_rope_base("rope.freq_base_swa").value_or(kWindowRopeBase);
  return config;
}

std::vector<WeightRow> weights(const Config& config) {
  std::vector<WeightRow> rows = standard_weights(config, false, true);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    add_vector(rows, layer, "post_attention_norm.weight", config.width);
    add_vector(rows, layer, "post_ffw_norm.weight", config.width);
  }
  return rows;
}

graph::Graph build(graph::Builder& builder, const Config& config) {
  const ValueId positions = builder.input(graph::Input::positions);
  ValueId x = builder.embed(builder.input(graph::Input::token_ids), builder.weight("token_embd.weight"),
                            config.embedding_scale);
  const ValueId global_angles = builder.rope_angles(positions, rope_frequencies(config.rope));
  const ValueId window_angles = builder.rope_angles(positions, rope_frequencies(config.window_rope));
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const ValueId angles = config.is_window_layer(layer) ? window_angles : global_angles;
    const ValueId normed = block_norm(builder, config, layer, "attn_norm", x);
    const ValueId heads = attention_heads(builder, config, layer, normed, angles);
    const LayerRows rows = layer_rows(builder, config, layer, x, heads);
    ValueId y = attention_output(builder, layer, rows.heads);
    x = builder.add(rows.x, block_norm(builder, config, layer, "post_attention_norm", y));
    y = ffn_block(builder, config, layer, block_norm(builder, config, layer, "ffn_norm", x));
    x = builder.add(x, block_norm(builder, config, layer, "post_ffw_norm", y));
  }
  return builder.finish(output_head(builder, config, x));
}

}  // namespace

const Architecture kGemma3{"gemma3", read_config, weights, build};

}  // namespace minfer::model
