// The architecture "cohere2": Command R7B and Command A. Attention and feed-forward run in parallel, of one layer norm
// without bias; three of four layers have a sliding window and RoPE of neighbouring pairs, the fourth neither; the
// logits are scaled.
#include "model/arch.hpp"
#include "model/decoder.hpp"
#include "model/metadata.hpp"

namespace minfer::model {
namespace {

constexpr int64_t kWindowPeriod = 4;

Config read_config(const gguf::File& file) {
  const ArchMetadata meta(file);
  Config config = read_decoder_config(file, graph::RopeStyle::pairs, Norm::layer);
  config.is_parallel = true;
  config.logit_scale = meta.positive("logit_scale");
  meta.count("attention.sliding_window", kMaxContext);  // no model lacks it
  read_window(file, kWindowPeriod, config);
  config.no_rope_period = config.window_period;
  return config;
}

void add_layer(std::vector<WeightRow>& rows, const Config& config, int64_t layer) {
  add_norm(rows, config, layer, "attn_norm");
  add_attention_weights(rows, config, layer, false);
  add_ffn_weights(rows, config, layer);
}

}  // namespace

const Architecture kCohere2{"cohere2", read_config,
                            [](const Config& config) { return decoder_weights(config, add_layer); }, build_standard};

}  // namespace minfer::model
