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
// gate, up and down.
void add_ffn_weights(std::vector<WeightRow>& rows, const Config& config, int64_t layer);
// The router and the experts' gate, up and down; a shared expert's with its gate, where it has a width.
void add_expert_weights(std::vector<WeightRow>& rows, const Config& config, int64_t layer);
// `experts`: a vector of each, one behind the other.
void add_vector(std::vector<WeightRow>& rows, int64_t layer, std::string_view part, int64_t length,
                bool optional = false, int64_t experts = 1);

// RMS norm of the whole width with "blk.<layer>.<part>.weight".
graph::ValueId block_norm(graph::Builder& builder, const Config& config, int64_t layer, std::string_view part,
                          graph::ValueId x);
// Projections, optional per-head norms, RoPE, append, attention: [tokens][heads * value size].
graph::ValueId attention_heads(graph::Builder& builder, const Config& config, int64_t layer, graph::ValueId x,
                               graph::ValueId angles);
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
// down(activation(gate x) * up x).
graph::ValueId ffn_block(graph::Builder& builder, const Config& config, int64_t layer, graph::ValueId x);
// residual + the experts' weighted outputs for x, the shared one's included.
graph::ValueId add_experts(graph::Builder& builder, const Config& config, int64_t layer, graph::ValueId residual,
                           graph::ValueId x);
// Output norm and matrix of the outputs' rows: [outputs][vocabulary]. In a shape of hidden rows the norm alone:
// [outputs][width].
graph::ValueId output_head(graph::Builder& builder, const Config& config, graph::ValueId x);

// The pre-norm decoder that llama made standard: x += attention(norm x); x += ffn(norm x), or experts where the config
// has some.
std::vector<WeightRow> standard_weights(const Config& config, bool qkv_bias, bool head_norms);
graph::Graph build_standard(graph::Builder& builder, const Config& config);

}  // namespace minfer::model
