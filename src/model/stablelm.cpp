// The architecture "stablelm": StableLM 3B, StableLM 2 and StableCode. Pre-norm with layer norms, RoPE of a part of the
// head. StableLM 2 12B runs attention and feed-forward in parallel, of one norm, and norms every head of q and k with
// weights of its own.
#include "base/error.hpp"
#include "model/arch.hpp"
#include "model/decoder.hpp"
#include "model/metadata.hpp"

namespace minfer::model {
namespace {

Config read_config(const gguf::File& file) {
  const ArchMetadata meta(file);
  Config config = read_decoder_config(file, graph::RopeStyle::halves, Norm::layer);
  config.is_parallel = file.find_tensor(block_name(0, "ffn_norm.weight")) == nullptr;
  // The key and the tensors of the first layer say the same thing.
  const bool said = meta.metadata().find_bool(meta.key("use_parallel_residual")).value_or(config.is_parallel);
  if (said != config.is_parallel) {
    fail(ErrorCode::unsupported, "{}: {} is {}, but the file has {} ffn_norm tensors", file.metadata().source(),
         meta.key("use_parallel_residual"), said, config.is_parallel ? "no" : "its");
  }
  return config;
}

void add_layer(std::vector<WeightRow>& rows, const Config& config, int64_t layer) {
  add_norm(rows, config, layer, "attn_norm", true);
  add_attention_weights(rows, config, layer, false);
  add_vector(rows, layer, "attn_q_norm.weight", config.key_size, true, config.heads);
  add_vector(rows, layer, "attn_k_norm.weight", config.key_size, true, config.kv_heads);
  if (!config.is_parallel) add_norm(rows, config, layer, "ffn_norm", true);
  add_ffn_weights(rows, config, layer);
}

std::vector<WeightRow> weights(const Config& config) {
  std::vector<WeightRow> rows = decoder_weights(config, add_layer);
  rows.push_back({"output_norm.bias", graph::WeightRole::vector, 1, config.width});
  return rows;
}

}  // namespace

const Architecture kStableLm{"stablelm", read_config, weights, build_standard};

}  // namespace minfer::model
