// The architecture "gemma3" (text, dense). Differs from the standard decoder: the embedding is scaled by sqrt(width),
// norms stand before and after attention and feed-forward, every head of q and k is normed, the activation is
// tanh-GELU, and five of six layers attend to a sliding window with a RoPE of their own base, without the scaling of
// the others. The conversion stores norm weights with their +1 included. Source: the Gemma 3 report (arXiv 2503.19786).
#include "model/arch.hpp"
#include "model/decoder.hpp"
#include "model/gemma.hpp"
#include "model/metadata.hpp"

namespace minfer::model {
namespace {

constexpr int64_t kWindowPeriod = 6;
constexpr float kWindowRopeBase = 10000.0F;
constexpr int64_t kLayersOf27B = 62;

Config read_config(const gguf::File& file) {
  const ArchMetadata meta(file);
  Config config = read_gemma_config(file, kLayersOf27B);
  meta.count("attention.sliding_window", kMaxContext);  // no model lacks it
  read_window(file, kWindowPeriod, config);
  config.window_rope = {};
  config.window_rope.style = config.rope.style;
  config.window_rope.dims = config.rope.dims;
  config.window_rope.base = meta.find_rope_base("rope.freq_base_swa").value_or(kWindowRopeBase);
  return config;
}

std::vector<WeightRow> weights(const Config& config) {
  std::vector<WeightRow> rows = standard_weights(config, false, true);
  for (int64_t layer = 0; layer < config.layers; ++layer) add_post_norms(rows, config, layer);
  return rows;
}

}  // namespace

const Architecture kGemma3{"gemma3", read_config, weights, build_standard};

}  // namespace minfer::model
