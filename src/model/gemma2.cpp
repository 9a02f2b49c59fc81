// The architecture "gemma2". gemma with norms also behind attention and feed-forward, a sliding window in every other
// layer, the first of them included, and soft caps of scores and logits. Source: the Gemma 2 report (arXiv 2408.00118).
#include "model/arch.hpp"
#include "model/decoder.hpp"
#include "model/gemma.hpp"
#include "model/metadata.hpp"

namespace minfer::model {
namespace {

constexpr int64_t kWindowPeriod = 2;
constexpr float kAttentionSoftcap = 50.0F;  // of files without the keys
constexpr float kLogitSoftcap = 30.0F;
constexpr int64_t kLayersOf27B = 46;

Config read_config(const gguf::File& file) {
  const ArchMetadata meta(file);
  Config config = read_gemma_config(file, kLayersOf27B);
  config.attention_softcap = meta.find_positive("attn_logit_softcapping").value_or(kAttentionSoftcap);
  config.logit_softcap = meta.find_positive("final_logit_softcapping").value_or(kLogitSoftcap);
  read_window(file, kWindowPeriod, config);
  return config;
}

void add_layer(std::vector<WeightRow>& rows, const Config& config, int64_t layer) {
  add_norm(rows, config, layer, "attn_norm");
  add_attention_weights(rows, config, layer, false);
  add_norm(rows, config, layer, "ffn_norm");
  add_ffn_weights(rows, config, layer);
  add_post_norms(rows, config, layer);
}

}  // namespace

const Architecture kGemma2{"gemma2", read_config,
                           [](const Config& config) { return decoder_weights(config, add_layer); }, build_standard};

}  // namespace minfer::model
