// The architecture "deepseek2": DeepSeek V2, V2.5, V3, R1 and their kin. Attention is of many heads whose keys and
// values come of one short vector a token (MLA); RoPE turns a part of the key that all heads share, and a part of each
// head's query, neighbouring pairs. Here the cache holds the heads' whole keys and values: heads * (key size + value
// size) elements a token and layer, where the short vector and the shared part would be enough. A head is [rotated |
// rest], other than in the file. The first layers are dense, the others have experts, of which some all tokens go to;
// of the rest they go to those with the largest scores among the best groups. YaRN's temperature is in the scale of
// scores. Source: arXiv 2405.04434, 2412.19437.
#include <cmath>

#include "base/error.hpp"
#include "model/arch.hpp"
#include "model/decoder.hpp"
#include "model/metadata.hpp"

namespace minfer::model {
namespace {

using graph::ValueId;
using graph::WeightRole;

// expert_gating_func in files.
constexpr int64_t kSoftmax = 1, kSigmoid = 2;

void read_attention(const gguf::File& file, const ArchMetadata& meta, Config& config) {
  // Newer files have the sizes of a head under names of their own, and those of the short vector under the usual ones.
  config.key_size = meta.find_count("attention.key_length_mla", kMaxHeadSize).value_or(config.key_size);
  config.value_size = meta.find_count("attention.value_length_mla", kMaxHeadSize).value_or(config.value_size);
  config.kv_heads = config.heads;
  config.q_lora = meta.find_count("attention.q_lora_rank", kMaxWidth).value_or(0);
  config.kv_lora = meta.count("attention.kv_lora_rank", kMaxWidth);
  config.splits_kv_b = file.find_tensor("blk.0.attn_k_b.weight") != nullptr;
  if (config.rope.dims >= config.key_size) {
    fail(ErrorCode::invalid_input, "{}: {} is {}, expected less than the head size {}", file.metadata().source(),
         meta.key("rope.dimension_count"), config.rope.dims, config.key_size);
  }
  config.attention_scale = 1.0F / std::sqrt(static_cast<float>(config.key_size));
  if (config.rope.scaling != Rope::Scaling::yarn) return;
  // The file's multiplier has the 0.1 in it; YaRN's own magnitude, of q and k, is not used.
  const float stretch = 1.0F + config.rope.yarn_log_multiplier * std::log(config.rope.factor);
  config.attention_scale *= stretch * stretch;
  if (!std::isfinite(config.attention_scale)) {
    fail(ErrorCode::invalid_input, "{}: {} is {} and {} is {}: scores are scaled by {}, expected a finite number",
         file.metadata().source(), meta.key("rope.scaling.yarn_log_multiplier"), config.rope.yarn_log_multiplier,
         meta.key("rope.scaling.factor"), config.rope.factor, config.attention_scale);
  }
  config.rope.yarn_log_multiplier = 1.0F;
}

void read_routes(const gguf::File& file, const ArchMetadata& meta, Config& config) {
  const gguf::Metadata& metadata = file.metadata();
  read_experts(file, false, config);
  config.shared_gate = false;
  const int64_t shared = meta.find_count("expert_shared_count", graph::kMaxExperts).value_or(0);
  config.shared_ffn_width = shared * config.expert_ffn_width;
  config.dense_layers = metadata.find_i64(meta.key("leading_dense_block_count")).value_or(0);
  if (config.dense_layers < 0 || config.dense_layers > config.layers) {
    fail(ErrorCode::invalid_input, "{}: {} is {}, expected 0 to the model's {} layers", metadata.source(),
         meta.key("leading_dense_block_count"), config.dense_layers, config.layers);
  }
  const int64_t gating = meta.find_count("expert_gating_func", 255).value_or(kSoftmax);
  if (gating != kSoftmax && gating != kSigmoid) {
    fail(ErrorCode::unsupported, "{}: {} is {}; supported are 1 (softmax) and 2 (sigmoid)", metadata.source(),
         meta.key("expert_gating_func"), gating);
  }
  config.gating = gating == kSigmoid ? graph::Gating::sigmoid : graph::Gating::softmax;
  config.group_score = gating == kSigmoid ? graph::GroupScore::two_largest : graph::GroupScore::largest;
  config.normalised_routes = metadata.find_bool(meta.key("expert_weights_norm")).value_or(false);
  config.route_scale = meta.find_positive("expert_weights_scale").value_or(1.0F);
  config.expert_groups = meta.find_count("expert_group_count", graph::kMaxExpertGroups).value_or(1);
  config.expert_groups_used = meta.find_count("expert_group_used_count", config.expert_groups).value_or(1);
  if (config.expert_groups == 1) return;
  if (config.experts % config.expert_groups != 0 ||
      config.experts_used > config.expert_groups_used * (config.experts / config.expert_groups)) {
    fail(ErrorCode::invalid_input,
         "{}: {} experts in {} groups, of which {} are used, don't give the {} experts of a token", metadata.source(),
         config.experts, config.expert_groups, config.expert_groups_used, config.experts_used);
  }
}

Config read_config(const gguf::File& file) {
  const ArchMetadata meta(file);
  Config config = read_decoder_config(file, graph::RopeStyle::pairs);
  read_attention(file, meta, config);
  read_routes(file, meta, config);
  return config;
}

void add_matrix(std::vector<WeightRow>& rows, int64_t layer, std::string_view part, int64_t outputs, int64_t inputs) {
  rows.push_back({block_name(layer, part) + ".weight", WeightRole::matrix, outputs, inputs});
}

void add_attention(std::vector<WeightRow>& rows, const Config& config, int64_t layer) {
  const int64_t q = config.heads * config.key_size, rest = config.key_size - config.rope.dims;
  if (config.q_lora > 0) {
    add_matrix(rows, layer, "attn_q_a", config.q_lora, config.width);
    add_vector(rows, layer, "attn_q_a_norm.weight", config.q_lora);
    add_matrix(rows, layer, "attn_q_b", q, config.q_lora);
  } else {
    add_matrix(rows, layer, "attn_q", q, config.width);
  }
  add_matrix(rows, layer, "attn_kv_a_mqa", config.kv_lora + config.rope.dims, config.width);
  add_vector(rows, layer, "attn_kv_a_norm.weight", config.kv_lora);
  if (config.splits_kv_b) {
    // One matrix a head in the file, that of the keys the other way round.
    add_matrix(rows, layer, "attn_k_b", config.heads * rest, config.kv_lora);
    rows.back().stacked = config.heads;
    rows.back().transposed = true;
    add_matrix(rows, layer, "attn_v_b", config.heads * config.value_size, config.kv_lora);
    rows.back().stacked = config.heads;
  } else {
    add_matrix(rows, layer, "attn_kv_b", config.heads * (rest + config.value_size), config.kv_lora);
  }
  add_matrix(rows, layer, "attn_output", config.width, config.heads * config.value_size);
}

void add_layer(std::vector<WeightRow>& rows, const Config& config, int64_t layer) {
  add_norm(rows, config, layer, "attn_norm");
  add_attention(rows, config, layer);
  add_norm(rows, config, layer, "ffn_norm");
  if (layer < config.dense_layers) return add_ffn_weights(rows, config, layer);
  add_expert_weights(rows, config, layer);
  add_vector(rows, layer, "exp_probs_b.bias", config.experts, true);
}

class Layer {
 public:
  Layer(graph::Builder& builder, const Config& config, int64_t layer)
      : builder_(builder), config_(config), layer_(layer), rest_(config.key_size - config.rope.dims) {}

  ValueId heads(ValueId x, ValueId angles) {
    const graph::RopeAttributes rope{config_.heads, config_.key_size, config_.rope.style};
    const ValueId q = builder_.rope(queries(x), angles, rope);
    const ValueId shared = product("attn_kv_a_mqa", x);
    const ValueId vector =
        norm("attn_kv_a_norm", builder_.join_heads(shared, shared, {1, {0, 0, config_.kv_lora}, {}}));
    const auto [k, v] = keys_and_values(vector, shared);
    const ValueId appended = builder_.kv_append(builder_.rope(k, angles, rope), v, static_cast<int32_t>(layer_));
    return builder_.attention(q, appended,
                              {static_cast<int32_t>(layer_), config_.heads, config_.heads, config_.key_size,
                               config_.value_size, config_.attention_scale, 0, 0.0F});
  }

 private:
  ValueId product(std::string_view part, ValueId x) {
    return builder_.linear(x, builder_.weight(block_name(layer_, part) + ".weight"));
  }
  ValueId norm(std::string_view part, ValueId x) { return block_norm(builder_, config_, layer_, part, x); }

  // [rest | rotated] of each head to [rotated | rest].
  ValueId queries(ValueId x) {
    const ValueId q =
        config_.q_lora == 0 ? product("attn_q", x) : product("attn_q_b", norm("attn_q_a_norm", product("attn_q_a", x)));
    const int64_t size = config_.key_size;
    return builder_.join_heads(q, q, {config_.heads, {rest_, size, config_.rope.dims}, {0, size, rest_}});
  }

  // Of the normed short vector, and of the key's shared part behind it.
  std::pair<ValueId, ValueId> keys_and_values(ValueId vector, ValueId shared) {
    const graph::JoinHeadsAttributes::Slice rotated{config_.kv_lora, 0, config_.rope.dims};
    if (config_.splits_kv_b) {
      const ValueId k =
          builder_.join_heads(shared, product("attn_k_b", vector), {config_.heads, rotated, {0, rest_, rest_}});
      return {k, product("attn_v_b", vector)};
    }
    const ValueId both = product("attn_kv_b", vector);
    const int64_t size = rest_ + config_.value_size;
    const ValueId k = builder_.join_heads(shared, both, {config_.heads, rotated, {0, size, rest_}});
    const ValueId v = builder_.join_heads(both, both, {config_.heads, {rest_, size, config_.value_size}, {}});
    return {k, v};
  }

  graph::Builder& builder_;
  const Config& config_;
  int64_t layer_;
  int64_t rest_;  // of a head's key, behind what RoPE turns
};

graph::Graph build(graph::Builder& builder, const Config& config) {
  ValueId x = builder.embed(builder.input(graph::Input::token_ids), builder.weight("token_embd.weight"),
                            config.embedding_scale);
  const std::vector<LayerAngles> angles = layer_angles(builder, config);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const ValueId normed = block_norm(builder, config, layer, "attn_norm", x);
    const ValueId heads = Layer(builder, config, layer).heads(normed, angles[static_cast<size_t>(layer)].q);
    const LayerRows rows = layer_rows(builder, config, layer, x, heads);
    x = builder.add(rows.x, attention_output(builder, layer, rows.heads));
    const ValueId y = block_norm(builder, config, layer, "ffn_norm", x);
    x = layer < config.dense_layers ? builder.add(x, ffn_block(builder, config, layer, y))
                                    : add_experts(builder, config, layer, x, y);
  }
  return builder.finish(output_head(builder, config, x));
}

}  // namespace

const Architecture kDeepSeek2{"deepseek2", read_config,
                              [](const Config& config) { return decoder_weights(config, add_layer); }, build};

}  // namespace minfer::model
