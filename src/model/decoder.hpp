// The parts that decoder-only transformers are made of: tensor rows and graph pieces that the architectures' files
// compose. A piece looks optional weights up by their standard names ("blk.N.attn_q.bias"), so that an architecture
// which has them needs no flag. Values are [tokens][width] unless said, from the last layer's heads on
// [outputs][width].
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/builder.hpp"
#include "model/arch.hpp"
#include "model/config.hpp"

namespace minfer::model {

// "blk.<layer>.<part>"
std::string block_name(int64_t layer, std::string_view part);
// The layer in such a name; graph::kNoLayer for any other.
int32_t block_layer(std::string_view name);

// Embedding table, output norm, output matrix (optional: tied to the table).
std::vector<WeightRow> model_weights(const Config& config);
// The four matrices of attention; with biases of q, k and v where `qkv_bias`.
void add_attention_weights(std::vector<WeightRow>& rows, const Config& config, int64_t layer, bool qkv_bias);
// q, k and v in one matrix "attn_qkv".
void add_fused_attention_weights(std::vector<WeightRow>& rows, const Config& config, int64_t layer);
// gate, up and down; without gate where the config has none.
void add_ffn_weights(std::vector<WeightRow>& rows, const Config& config, int64_t layer);
// gate and up in one matrix "ffn_up", and down.
void add_fused_ffn_weights(std::vector<WeightRow>& rows, const Config& config, int64_t layer);
// The router and the experts' gate, up and down; a shared expert's with its gate, where it has a width.
void add_expert_weights(std::vector<WeightRow>& rows, const Config& config, int64_t layer);
// `experts`: a vector of each, one behind the other.
void add_vector(std::vector<WeightRow>& rows, int64_t layer, std::string_view part, int64_t length,
                bool optional = false, int64_t experts = 1);
// Norms of the whole width: "<part>.weight", and "<part>.bias" where `biased`.
void add_norm(std::vector<WeightRow>& rows, const Config& config, int64_t layer, std::string_view part,
              bool biased = false);
// Those behind attention and feed-forward.
void add_post_norms(std::vector<WeightRow>& rows, const Config& config, int64_t layer);

// The config's norm of the whole width with "blk.<layer>.<part>.weight" and optional bias; x itself where the model has
// no such norm.
graph::ValueId block_norm(graph::Builder& builder, const Config& config, int64_t layer, std::string_view part,
                          graph::ValueId x);
// The angles by which a layer turns q and k; kNoValue where it does not.
struct LayerAngles {
  LayerAngles(graph::ValueId both) : q(both), k(both) {}  // NOLINT(google-explicit-constructor)
  LayerAngles(graph::ValueId q_in, graph::ValueId k_in) : q(q_in), k(k_in) {}
  graph::ValueId q;
  graph::ValueId k;
};
// Of every layer; tables that are equal are one value.
std::vector<LayerAngles> layer_angles(graph::Builder& builder, const Config& config);
// Projections, optional norms of q and k, RoPE, append, attention: [tokens][heads * value size].
graph::ValueId attention_heads(graph::Builder& builder, const Config& config, int64_t layer, graph::ValueId x,
                               const LayerAngles& angles);
// The residual stream and the attention's heads of a layer, on which the rest of the layer works. Nothing reads a token
// of the last layer but its own logits: there both have the outputs' rows alone, in every other layer all.
struct LayerRows {
  graph::ValueId x;
  graph::ValueId heads;
};
LayerRows layer_rows(graph::Builder& builder, const Config& config, int64_t layer, graph::ValueId x,
                     graph::ValueId heads);
// The projection of the heads back to the width.
graph::ValueId attention_output(graph::Builder& builder, int64_t layer, graph::ValueId heads);
// down(activation(gate x) * up x), or down(activation(up x)).
graph::ValueId ffn_block(graph::Builder& builder, const Config& config, int64_t layer, graph::ValueId x);
// residual + the experts' weighted outputs for x, the shared one's included.
graph::ValueId add_experts(graph::Builder& builder, const Config& config, int64_t layer, graph::ValueId residual,
                           graph::ValueId x);
// Output norm and matrix of the outputs' rows, scaled and capped as the config says: [outputs][vocabulary]. In a shape
// of hidden rows the norm alone: [outputs][width].
graph::ValueId output_head(graph::Builder& builder, const Config& config, graph::ValueId x);

// The decoder: x += post(attention(pre x)); x += post(ffn(pre x)), or experts where the config has some. pre and post
// are the norms that the model has: llama's standard has the former alone. In a parallel one x += attention(y) + ffn(y)
// of y = pre x. model_weights, and what `add_layer` adds for each layer.
std::vector<WeightRow> decoder_weights(const Config& config, void (*add_layer)(std::vector<WeightRow>& rows,
                                                                               const Config& config, int64_t layer));
std::vector<WeightRow> standard_weights(const Config& config, bool qkv_bias, bool head_norms);
graph::Graph build_standard(graph::Builder& builder, const Config& config);

}  // namespace minfer::model
