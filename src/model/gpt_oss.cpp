// The architecture "gpt-oss": OpenAI's open models. A decoder of experts whose attention has biases, a learned sink a
// head (a score beside the tokens' that only takes weight away), and a window in every other layer, the first one
// included. Rows go to the experts of the largest logits, weighed by a softmax over the chosen; every matrix of experts
// has a bias, and their gate is clamped. YaRN's ramp is not cut at whole pairs. The norm before the experts is named
// "post_attention_norm". Source: the model card (arXiv 2508.10925) and its reference implementation.
#include "model/arch.hpp"
#include "model/decoder.hpp"
#include "model/metadata.hpp"
#include "model/rope.hpp"

namespace minfer::model {
namespace {

using graph::ValueId;

constexpr int64_t kWindowPeriod = 2;

Config read_config(const gguf::File& file) {
  const ArchMetadata meta(file);
  Config config = read_decoder_config(file, graph::RopeStyle::halves);
  read_experts(file, false, config);
  config.gating = graph::Gating::softmax_chosen;
  config.activation = graph::Activation::swiglu_oai;
  config.rope.yarn_truncated = false;
  config.window = meta.count("attention.sliding_window", kMaxContext);
  config.window_period = kWindowPeriod;
  config.window_rope = config.rope;
  return config;
}

std::vector<WeightRow> weights(const Config& config) {
  std::vector<WeightRow> rows = model_weights(config);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    add_vector(rows, layer, "attn_norm.weight", config.width);
    add_attention_weights(rows, config, layer, true);
    add_vector(rows, layer, "attn_sinks.weight", config.heads);
    add_vector(rows, layer, "post_attention_norm.weight", config.width);
    add_expert_weights(rows, config, layer);
    add_vector(rows, layer, "ffn_gate_inp.bias", config.experts);
    add_vector(rows, layer, "ffn_gate_exps.bias", config.expert_ffn_width, false, config.experts);
    add_vector(rows, layer, "ffn_up_exps.bias", config.expert_ffn_width, false, config.experts);
    add_vector(rows, layer, "ffn_down_exps.bias", config.width, false, config.experts);
  }
  return rows;
}

graph::Graph build(graph::Builder& builder, const Config& config) {
  ValueId x = builder.embed(builder.input(graph::Input::token_ids), builder.weight("token_embd.weight"),
                            config.embedding_scale);
  const ValueId angles = builder.rope_angles(builder.input(graph::Input::positions), rope_frequencies(config.rope));
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const ValueId normed = block_norm(builder, config, layer, "attn_norm", x);
    const ValueId heads = attention_heads(builder, config, layer, normed, angles);
    const LayerRows rows = layer_rows(builder, config, layer, x, heads);
    x = builder.add(rows.x, attention_output(builder, layer, rows.heads));
    const ValueId y = block_norm(builder, config, layer, "post_attention_norm", x);
    x = add_experts(builder, config, layer, x, y);
  }
  return builder.finish(output_head(builder, config, x));
}

}  // namespace

const Architecture kGptOss{"gpt-oss", read_config, weights, build};

}  // namespace minfer::model
