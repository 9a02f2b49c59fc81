// The encoders "bert" and "nomic-bert", for embeddings. Every token sees all others. Norms are layer norms and stand
// behind attention and feed-forward, whose input is added first. bert: biases everywhere, positions by a learned table,
// feed-forward layers of two matrices with the exact GELU between. nomic-bert: no biases but of norms, q, k and v in
// one matrix, RoPE, gated feed-forward layers with SiLU. All tokens are of the first of the token types, whose vector
// is added to each: texts come alone, not in pairs. Source: arXiv 1810.04805, 2402.01613.
#include "base/error.hpp"
#include "model/arch.hpp"
#include "model/decoder.hpp"
#include "model/metadata.hpp"

namespace minfer::model {
namespace {

using graph::ValueId;
using graph::WeightRole;

constexpr int64_t kMaxTokenTypes = 1 << 16;

Config read_encoder(const gguf::File& file) {
  const ArchMetadata meta(file);
  const gguf::Metadata& metadata = file.metadata();
  Config config = read_decoder_config(file, graph::RopeStyle::halves, Norm::layer);
  config.encoder = true;
  const std::string causal = meta.key("attention.causal");
  if (metadata.find_bool(causal).value_or(false)) {
    fail(ErrorCode::unsupported, "{}: {} is true; minfer runs {} as an encoder, whose tokens see all others",
         metadata.source(), causal, config.architecture);
  }
  constexpr std::string_view kTypes = "tokenizer.ggml.token_type_count";
  config.token_types = metadata.find_i64(kTypes).value_or(0);
  if (config.token_types < 0 || config.token_types > kMaxTokenTypes) {
    fail(ErrorCode::invalid_input, "{}: {} is {}, expected 0 to {}", metadata.source(), kTypes, config.token_types,
         kMaxTokenTypes);
  }
  return config;
}

Config read_bert(const gguf::File& file) {
  Config config = read_encoder(file);
  config.learned_positions = true;
  config.no_rope_period = 1;
  config.is_gated = false;
  config.activation = graph::Activation::gelu_erf;
  return config;
}

void add_matrices(std::vector<WeightRow>& rows, const Config& config, int64_t layer) {
  if (config.learned_positions) {
    add_attention_weights(rows, config, layer, true);
  } else {
    add_fused_attention_weights(rows, config, layer);
  }
  add_ffn_weights(rows, config, layer);
}

std::vector<WeightRow> weights(const Config& config) {
  std::vector<WeightRow> rows = {{"token_embd.weight", WeightRole::embedding, config.vocabulary, config.width},
                                 {"token_embd_norm.weight", WeightRole::vector, 1, config.width},
                                 {"token_embd_norm.bias", WeightRole::vector, 1, config.width}};
  if (config.token_types > 0) {
    rows.push_back({"token_types.weight", WeightRole::embedding, config.token_types, config.width});
  }
  if (config.learned_positions) {
    rows.push_back({"position_embd.weight", WeightRole::embedding, config.context_length, config.width});
  }
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    add_matrices(rows, config, layer);
    add_norm(rows, config, layer, "attn_output_norm", true);
    add_norm(rows, config, layer, "layer_output_norm", true);
  }
  return rows;
}

ValueId embedding(graph::Builder& builder, const Config& config) {
  const ValueId ids = builder.input(graph::Input::token_ids), positions = builder.input(graph::Input::positions);
  ValueId x = builder.embed(ids, builder.weight("token_embd.weight"), config.embedding_scale);
  if (config.token_types > 0) x = builder.add(x, builder.embed(ids, builder.weight("token_types.weight"), 1.0F, true));
  if (config.learned_positions) {
    x = builder.add(x, builder.embed(positions, builder.weight("position_embd.weight"), 1.0F));
  }
  return builder.layer_norm(x, builder.weight("token_embd_norm.weight"), builder.weight("token_embd_norm.bias"),
                            config.norm_eps, config.width);
}

// Ends with the hidden state of the outputs, whatever the shape's kind: there are no logits.
graph::Graph build(graph::Builder& builder, const Config& config) {
  ValueId x = embedding(builder, config);
  const std::vector<LayerAngles> angles = layer_angles(builder, config);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const ValueId heads = attention_heads(builder, config, layer, x, angles[static_cast<size_t>(layer)]);
    const LayerRows rows = layer_rows(builder, config, layer, x, heads);
    x = builder.add(rows.x, attention_output(builder, layer, rows.heads));
    x = block_norm(builder, config, layer, "attn_output_norm", x);
    x = builder.add(x, ffn_block(builder, config, layer, x));
    x = block_norm(builder, config, layer, "layer_output_norm", x);
  }
  return builder.finish(x);
}

}  // namespace

const Architecture kBert{"bert", read_bert, weights, build};
const Architecture kNomicBert{"nomic-bert", read_encoder, weights, build};

}  // namespace minfer::model
