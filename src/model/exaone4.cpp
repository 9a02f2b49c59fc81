// The architecture "exaone4". Norms stand behind attention and feed-forward only, every head of q and k is normed. The
// 32B has a sliding window in three of four layers, and no RoPE in the fourth; the 1.2B has neither. Source: arXiv
// 2507.11407.
#include "model/arch.hpp"
#include "model/decoder.hpp"
#include "model/metadata.hpp"

namespace minfer::model {
namespace {

constexpr int64_t kWindowPeriod = 4;

Config read_config(const gguf::File& file) {
  Config config = read_decoder_config(file, graph::RopeStyle::halves);
  read_window(file, kWindowPeriod, config);
  if (config.window > 0) config.no_rope_period = config.window_period;
  return config;
}

void add_layer(std::vector<WeightRow>& rows, const Config& config, int64_t layer) {
  add_attention_weights(rows, config, layer, false);
  add_vector(rows, layer, "attn_q_norm.weight", config.key_size);
  add_vector(rows, layer, "attn_k_norm.weight", config.key_size);
  add_ffn_weights(rows, config, layer);
  add_post_norms(rows, config, layer);
}

}  // namespace

const Architecture kExaone4{"exaone4", read_config,
                            [](const Config& config) { return decoder_weights(config, add_layer); }, build_standard};

}  // namespace minfer::model
