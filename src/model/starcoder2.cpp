// The architecture "starcoder2". Pre-norm with layer norms, biases everywhere, and feed-forward layers of two matrices
// with a tanh-GELU between. Source: arXiv 2402.19173.
#include "model/arch.hpp"
#include "model/decoder.hpp"
#include "model/metadata.hpp"

namespace minfer::model {
namespace {

Config read_config(const gguf::File& file) {
  Config config = read_decoder_config(file, graph::RopeStyle::halves, Norm::layer);
  config.activation = graph::Activation::gelu_tanh;
  config.is_gated = false;
  read_window(file, 0, config);
  return config;
}

void add_layer(std::vector<WeightRow>& rows, const Config& config, int64_t layer) {
  add_norm(rows, config, layer, "attn_norm", true);
  add_attention_weights(rows, config, layer, true);
  add_norm(rows, config, layer, "ffn_norm", true);
  add_ffn_weights(rows, config, layer);
}

std::vector<WeightRow> weights(const Config& config) {
  std::vector<WeightRow> rows = decoder_weights(config, add_layer);
  rows.push_back({"output_norm.bias", graph::WeightRole::vector, 1, config.width});
  return rows;
}

}  // namespace

const Architecture kStarCoder2{"starcoder2", read_config, weights, build_standard};

}  // namespace minfer::model
