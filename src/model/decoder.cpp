// Composable parts of decoder-only transformers. See decoder.hpp.
#include "model/decoder.hpp"

#include <fmt/format.h>

#include <charconv>

#include "model/rope.hpp"

namespace minfer::model {

using graph::Builder;
using graph::ValueId;
using graph::WeightRole;

std::string block_name(int64_t layer, std::string_view part) {
  return fmt::format("blk.{}.{}", layer, part);
}

int32_t block_layer(std::string_view name) {
  constexpr std::string_view kPrefix = "blk.";
  int32_t layer = graph::kNoLayer;
  if (name.starts_with(kPrefix)) std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), layer);
  return layer;
}

std::vector<WeightRow> model_weights(const Config& config) {
  return {{"token_embd.weight", WeightRole::embedding, config.vocabulary, config.width},
          {"output_norm.weight", WeightRole::vector, 1, config.width},
          {"output.weight", WeightRole::matrix, config.vocabulary, config.width, true}};
}

void add_attention_weights(std::vector<WeightRow>& rows, const Config& config, int64_t layer, bool qkv_bias) {
  const int64_t q = config.heads * config.key_size;
  const int64_t k = config.kv_heads * config.key_size;
  const int64_t v = config.kv_heads * config.value_size;
  rows.push_back({block_name(layer, "attn_q.weight"), WeightRole::matrix, q, config.width});
  rows.push_back({block_name(layer, "attn_k.weight"), WeightRole::matrix, k, config.width});
  rows.push_back({block_name(layer, "attn_v.weight"), WeightRole::matrix, v, config.width});
  rows.push_back(
      {block_name(layer, "attn_output.weight"), WeightRole::matrix, config.width, config.heads * config.value_size});
  add_vector(rows, layer, "attn_q.bias", q, !qkv_bias);
  add_vector(rows, layer, "attn_k.bias", k, !qkv_bias);
  add_vector(rows, layer, "attn_v.bias", v, !qkv_bias);
  add_vector(rows, layer, "attn_output.bias", config.width, true);
}

void add_fused_attention_weights(std::vector<WeightRow>& rows, const Config& config, int64_t layer) {
  const int64_t sizes[] = {config.heads * config.key_size, config.kv_heads * config.key_size,
                           config.kv_heads * config.value_size};
  const char* const parts[] = {"attn_q.weight", "attn_k.weight", "attn_v.weight"};
  const int64_t all = sizes[0] + sizes[1] + sizes[2];
  int64_t first = 0;
  for (size_t i = 0; i < std::size(sizes); ++i) {
    rows.push_back({block_name(layer, parts[i]),
                    WeightRole::matrix,
                    sizes[i],
                    config.width,
                    false,
                    1,
                    {block_name(layer, "attn_qkv.weight"), first, all}});
    first += sizes[i];
  }
  rows.push_back(
      {block_name(layer, "attn_output.weight"), WeightRole::matrix, config.width, config.heads * config.value_size});
}

void add_fused_ffn_weights(std::vector<WeightRow>& rows, const Config& config, int64_t layer) {
  const std::string fused = block_name(layer, "ffn_up.weight");
  const auto add = [&](std::string_view part, int64_t first) {
    rows.push_back({block_name(layer, part),
                    WeightRole::matrix,
                    config.ffn_width,
                    config.width,
                    false,
                    1,
                    {fused, first, 2 * config.ffn_width}});
  };
  add("ffn_gate.weight", 0);
  add("ffn_up.weight", config.ffn_width);
  rows.push_back({block_name(layer, "ffn_down.weight"), WeightRole::matrix, config.width, config.ffn_width});
}

void add_ffn_weights(std::vector<WeightRow>& rows, const Config& config, int64_t layer) {
  if (config.is_gated) {
    rows.push_back({block_name(layer, "ffn_gate.weight"), WeightRole::matrix, config.ffn_width, config.width});
    add_vector(rows, layer, "ffn_gate.bias", config.ffn_width, true);
  }
  rows.push_back({block_name(layer, "ffn_up.weight"), WeightRole::matrix, config.ffn_width, config.width});
  rows.push_back({block_name(layer, "ffn_down.weight"), WeightRole::matrix, config.width, config.ffn_width});
  add_vector(rows, layer, "ffn_up.bias", config.ffn_width, true);
  add_vector(rows, layer, "ffn_down.bias", config.width, true);
}

void add_expert_weights(std::vector<WeightRow>& rows, const Config& config, int64_t layer) {
  const auto add = [&](std::string_view part, int64_t outputs, int64_t inputs, int64_t experts) {
    rows.push_back({block_name(layer, part), WeightRole::matrix, outputs, inputs, false, experts});
  };
  add("ffn_gate_inp.weight", config.experts, config.width, 1);
  add("ffn_gate_exps.weight", config.expert_ffn_width, config.width, config.experts);
  add("ffn_up_exps.weight", config.expert_ffn_width, config.width, config.experts);
  add("ffn_down_exps.weight", config.width, config.expert_ffn_width, config.experts);
  if (config.shared_ffn_width == 0) return;
  if (config.shared_gate) add("ffn_gate_inp_shexp.weight", 1, config.width, 1);
  add("ffn_gate_shexp.weight", config.shared_ffn_width, config.width, 1);
  add("ffn_up_shexp.weight", config.shared_ffn_width, config.width, 1);
  add("ffn_down_shexp.weight", config.width, config.shared_ffn_width, 1);
}

void add_vector(std::vector<WeightRow>& rows, int64_t layer, std::string_view part, int64_t length, bool optional,
                int64_t experts) {
  rows.push_back({block_name(layer, part), WeightRole::vector, 1, length, optional, experts});
}

void add_norm(std::vector<WeightRow>& rows, const Config& config, int64_t layer, std::string_view part, bool biased) {
  add_vector(rows, layer, std::string(part) + ".weight", config.width);
  if (biased) add_vector(rows, layer, std::string(part) + ".bias", config.width);
}

void add_post_norms(std::vector<WeightRow>& rows, const Config& config, int64_t layer) {
  add_norm(rows, config, layer, "post_attention_norm");
  add_norm(rows, config, layer, "post_ffw_norm");
}

namespace {

// The config's norm "<name>.weight", "<name>.bias" over groups as long as the weight; x where the model has none.
ValueId norm(Builder& builder, const Config& config, const std::string& name, ValueId x) {
  const auto weight = builder.find_weight(name + ".weight");
  if (weight == graph::kNoWeight) return x;
  const int64_t group = builder.weight_shape(weight).cols;
  if (config.norm == Norm::rms) return builder.rms_norm(x, weight, config.norm_eps, group);
  return builder.layer_norm(x, weight, builder.find_weight(name + ".bias"), config.norm_eps, group);
}

}  // namespace

ValueId block_norm(Builder& builder, const Config& config, int64_t layer, std::string_view part, ValueId x) {
  return norm(builder, config, block_name(layer, part), x);
}

std::vector<LayerAngles> layer_angles(Builder& builder, const Config& config) {
  std::vector<std::pair<graph::RopeAnglesAttributes, ValueId>> tables;
  const auto table = [&](const graph::RopeAnglesAttributes& attributes) {
    for (const auto& [made, value] : tables) {
      if (made == attributes) return value;
    }
    tables.emplace_back(attributes, builder.rope_angles(builder.input(graph::Input::positions), attributes));
    return tables.back().second;
  };
  std::vector<LayerAngles> angles;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    if (!config.has_rope(layer)) {
      angles.emplace_back(graph::kNoValue);
      continue;
    }
    const Rope& rope = config.is_window_layer(layer) ? config.window_rope : config.rope;
    graph::RopeAnglesAttributes attributes = rope_frequencies(rope);
    const ValueId k = table(attributes);
    attributes.temperature = config.attention_temperature;
    if (attributes.temperature != 0) attributes.temperature_length = rope.original_context;
    angles.emplace_back(table(attributes), k);
  }
  return angles;
}

namespace {

// The projection "blk.<layer>.<part>" with its bias, where the model has one.
ValueId project(Builder& builder, int64_t layer, std::string_view part, ValueId x) {
  const std::string name = block_name(layer, part);
  return builder.linear(x, builder.weight(name + ".weight"), builder.find_weight(name + ".bias"));
}

// q or k: the projection, its norm where the model has one, RoPE.
ValueId rotated_heads(Builder& builder, const Config& config, int64_t layer, std::string_view part, int64_t heads,
                      ValueId x, ValueId angles) {
  const ValueId y = norm(builder, config, block_name(layer, part) + "_norm", project(builder, layer, part, x));
  return angles == graph::kNoValue ? y : builder.rope(y, angles, {heads, config.key_size, config.rope.style});
}

}  // namespace

ValueId attention_heads(Builder& builder, const Config& config, int64_t layer, ValueId x, const LayerAngles& angles) {
  const ValueId q = rotated_heads(builder, config, layer, "attn_q", config.heads, x, angles.q);
  const ValueId k = rotated_heads(builder, config, layer, "attn_k", config.kv_heads, x, angles.k);
  const ValueId v = project(builder, layer, "attn_v", x);
  const int32_t index = static_cast<int32_t>(layer);
  const ValueId appended = builder.kv_append(k, v, index);
  const int64_t window = config.is_window_layer(layer) ? config.window : 0;
  return builder.attention(q, appended,
                           {index, config.heads, config.kv_heads, config.key_size, config.value_size,
                            config.attention_scale, window, config.attention_softcap, !config.encoder},
                           builder.find_weight(block_name(layer, "attn_sinks.weight")));
}

namespace {

// The outputs' rows in the last layer, all before.
ValueId output_rows(Builder& builder, const Config& config, int64_t layer, ValueId x) {
  return layer + 1 < config.layers ? x : builder.gather_rows(x, builder.input(graph::Input::output_rows));
}

}  // namespace

LayerRows layer_rows(Builder& builder, const Config& config, int64_t layer, ValueId x, ValueId heads) {
  return {output_rows(builder, config, layer, x), output_rows(builder, config, layer, heads)};
}

ValueId attention_output(Builder& builder, int64_t layer, ValueId heads) {
  return project(builder, layer, "attn_output", heads);
}

namespace {

// down(activation(gate x) * up x) with the weights "ffn_gate<suffix>" and so on.
ValueId gated_block(Builder& builder, const Config& config, int64_t layer, const std::string& suffix, ValueId x) {
  const ValueId gate = project(builder, layer, "ffn_gate" + suffix, x);
  const ValueId up = project(builder, layer, "ffn_up" + suffix, x);
  return project(builder, layer, "ffn_down" + suffix, builder.glu(gate, up, config.activation));
}

}  // namespace

ValueId ffn_block(Builder& builder, const Config& config, int64_t layer, ValueId x) {
  if (!config.is_gated) {
    const ValueId up = project(builder, layer, "ffn_up", x);
    return project(builder, layer, "ffn_down", builder.activate(up, config.activation));
  }
  return gated_block(builder, config, layer, "", x);
}

ValueId add_experts(Builder& builder, const Config& config, int64_t layer, ValueId residual, ValueId x) {
  const auto routed = builder.route(project(builder, layer, "ffn_gate_inp", x),
                                    {config.experts_used, config.gating, config.normalised_routes, config.route_scale,
                                     config.expert_groups, config.expert_groups_used, config.group_score},
                                    builder.find_weight(block_name(layer, "exp_probs_b.bias")));
  const auto product = [&](std::string_view part, ValueId y) {
    const std::string name = block_name(layer, part);
    return builder.expert_linear(y, routed.routes, builder.weight(name + ".weight"),
                                 builder.find_weight(name + ".bias"));
  };
  const ValueId gate = product("ffn_gate_exps", x);
  const ValueId up = product("ffn_up_exps", x);
  const ValueId down = product("ffn_down_exps", builder.glu(gate, up, config.activation));
  const ValueId sum = builder.add(residual, builder.expert_sum(down, routed));
  if (config.shared_ffn_width == 0) return sum;
  if (!config.shared_gate) return builder.add(sum, gated_block(builder, config, layer, "_shexp", x));
  // A shared expert is a choice of one of one, weighed by the sigmoid of its logit.
  const auto shared =
      builder.route(project(builder, layer, "ffn_gate_inp_shexp", x), {1, graph::Gating::sigmoid, false, 1.0F});
  return builder.add(sum, builder.expert_sum(gated_block(builder, config, layer, "_shexp", x), shared));
}

ValueId output_head(Builder& builder, const Config& config, ValueId x) {
  const ValueId normed = norm(builder, config, "output_norm", x);
  if (builder.shape().kind == graph::StepKind::hidden) return normed;
  const auto output = builder.find_weight("output.weight");
  const ValueId logits =
      builder.linear(normed, output != graph::kNoWeight ? output : builder.weight("token_embd.weight"));
  if (config.logit_scale == 1.0F && config.logit_softcap == 0.0F) return logits;
  return builder.scale(logits, {config.logit_scale, config.logit_softcap});
}

std::vector<WeightRow> decoder_weights(const Config& config, void (*add_layer)(std::vector<WeightRow>& rows,
                                                                               const Config& config, int64_t layer)) {
  std::vector<WeightRow> rows = model_weights(config);
  for (int64_t layer = 0; layer < config.layers; ++layer) add_layer(rows, config, layer);
  return rows;
}

std::vector<WeightRow> standard_weights(const Config& config, bool qkv_bias, bool head_norms) {
  std::vector<WeightRow> rows = model_weights(config);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    add_norm(rows, config, layer, "attn_norm");
    add_attention_weights(rows, config, layer, qkv_bias);
    if (head_norms) {
      add_vector(rows, layer, "attn_q_norm.weight", config.key_size);
      add_vector(rows, layer, "attn_k_norm.weight", config.key_size);
    }
    add_norm(rows, config, layer, "ffn_norm");
    if (config.experts > 0) {
      add_expert_weights(rows, config, layer);
    } else {
      add_ffn_weights(rows, config, layer);
    }
  }
  return rows;
}

graph::Graph build_standard(Builder& builder, const Config& config) {
  ValueId x = builder.embed(builder.input(graph::Input::token_ids), builder.weight("token_embd.weight"),
                            config.embedding_scale);
  const std::vector<LayerAngles> angles = layer_angles(builder, config);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const ValueId normed = block_norm(builder, config, layer, "attn_norm", x);
    const ValueId heads = attention_heads(builder, config, layer, normed, angles[static_cast<size_t>(layer)]);
    const LayerRows rows = layer_rows(builder, config, layer, x, heads);
    const ValueId mixed =
        block_norm(builder, config, layer, "post_attention_norm", attention_output(builder, layer, rows.heads));
    x = builder.add(rows.x, mixed);
    if (config.is_parallel) {
      x = builder.add(x, ffn_block(builder, config, layer, output_rows(builder, config, layer, normed)));
      continue;
    }
    const ValueId y = block_norm(builder, config, layer, "ffn_norm", x);
    x = config.experts > 0
            ? add_experts(builder, config, layer, x, y)
            : builder.add(x, block_norm(builder, config, layer, "post_ffw_norm", ffn_block(builder, config, layer, y)));
  }
  return builder.finish(output_head(builder, config, x));
}

}  // namespace minfer::model
