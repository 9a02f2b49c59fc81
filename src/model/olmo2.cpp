// The architecture "olmo2": OLMo 2 and 3. Norms stand behind attention and feed-forward only, q and k are normed over
// their whole width. OLMo 3 has a sliding window in three of four layers, which rotate without the scaling of the
// others. Source: arXiv 2501.00656.
#include "model/arch.hpp"
#include "model/decoder.hpp"
#include "model/metadata.hpp"

namespace minfer::model {
namespace {

constexpr int64_t kWindowPeriod = 4;

Config read_config(const gguf::File& file) {
  Config config = read_decoder_config(file, graph::RopeStyle::halves);
  read_window(file, kWindowPeriod, config);
  config.window_rope = {};
  config.window_rope.style = config.rope.style;
  config.window_rope.dims = config.rope.dims;
  config.window_rope.base = config.rope.base;
  return config;
}

void add_layer(std::vector<WeightRow>& rows, const Config& config, int64_t layer) {
  add_attention_weights(rows, config, layer, false);
  add_vector(rows, layer, "attn_q_norm.weight", config.heads * config.key_size);
  add_vector(rows, layer, "attn_k_norm.weight", config.kv_heads * config.key_size);
  add_ffn_weights(rows, config, layer);
  add_post_norms(rows, config, layer);
}

}  // namespace

const Architecture kOlmo2{"olmo2", read_config, [](const Config& config) { return decoder_weights(config, add_layer); },
                          build_standard};

}  // namespace minfer::model
