// The architecture "glm4": GLM 4 of 2025 (text, dense). The standard decoder with norms also behind attention and
// feed-forward, biases of q, k and v in some, gate and up in one matrix, and RoPE of neighbouring pairs in a part of
// the head.
#include "model/arch.hpp"
#include "model/decoder.hpp"
#include "model/metadata.hpp"

namespace minfer::model {
namespace {

void add_layer(std::vector<WeightRow>& rows, const Config& config, int64_t layer) {
  add_norm(rows, config, layer, "attn_norm");
  add_attention_weights(rows, config, layer, false);
  add_norm(rows, config, layer, "ffn_norm");
  add_fused_ffn_weights(rows, config, layer);
  add_post_norms(rows, config, layer);
}

}  // namespace

const Architecture kGlm4{"glm4",
                         [](const gguf::File& file) { return read_decoder_config(file, graph::RopeStyle::pairs); },
                         [](const Config& config) { return decoder_weights(config, add_layer); }, build_standard};

}  // namespace minfer::model
