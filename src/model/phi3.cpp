// The architecture "phi3": Phi 3, 3.5 and 4 of text. The standard decoder with q, k and v in one matrix and gate and up
// in another, RoPE of a part of the head in some, and RoPE factors of a short and a long context (longrope): a run
// takes those of its own context. Where the file has a sliding window, every layer has it. Source: arXiv 2404.14219.
#include "model/arch.hpp"
#include "model/decoder.hpp"
#include "model/metadata.hpp"

namespace minfer::model {
namespace {

Config read_config(const gguf::File& file) {
  Config config = read_decoder_config(file, graph::RopeStyle::halves);
  read_window(file, 0, config);
  return config;
}

void add_layer(std::vector<WeightRow>& rows, const Config& config, int64_t layer) {
  add_norm(rows, config, layer, "attn_norm");
  add_fused_attention_weights(rows, config, layer);
  add_norm(rows, config, layer, "ffn_norm");
  add_fused_ffn_weights(rows, config, layer);
}

}  // namespace

const Architecture kPhi3{"phi3", read_config, [](const Config& config) { return decoder_weights(config, add_layer); },
                         build_standard};

}  // namespace minfer::model
