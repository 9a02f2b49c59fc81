// Ops on rows: each output row depends on its input row alone. Shapes are those of Rows (activation.hpp); where an
// output may be bf16 or q8 the kernel rounds in its last step. Oracle: the CPU's scalar kernels.
#pragma once

#include <cstdint>

#include "cuda/launch/activation.hpp"
#include "cuda/launch/panel.hpp"
#include "cuda/runtime/launch.hpp"
#include "graph/enums.hpp"

namespace minfer::cuda {

// out[r] = scale * row ids[r] of the table. An id beyond the table gives zeros: rows that pad a step.
struct EmbedArgs {
  PanelMatrix table;
  const int32_t* ids = nullptr;  // [rows]; nullptr: row 0 for all
  float scale = 1.0F;
  Rows out;  // f32
};
void launch_embed(const Queue& queue, const EmbedArgs& args);

// out = x / sqrt(mean(x^2) + eps) * weight over each group of `group` elements; q8 and bf16 out: group = width.
struct RmsNormArgs {
  Rows x;                         // f32
  const float* weight = nullptr;  // [group]
  int64_t group = 0;
  float eps = 0;
  Rows out;  // any format; may be x where f32
};
void launch_rms_norm(const Queue& queue, const RmsNormArgs& args);

// out = (x - mean) / sqrt(variance + eps) * weight + bias over each group of `group` elements; q8 and bf16 out: group =
// width.
struct LayerNormArgs {
  Rows x;                         // f32
  const float* weight = nullptr;  // [group], or [width] where groups have their own
  const float* bias = nullptr;    // alike, or none
  int64_t group = 0;
  bool own_weights = false;
  float eps = 0;
  Rows out;  // any format; may be x where f32
};
void launch_layer_norm(const Queue& queue, const LayerNormArgs& args);

// f32 to q8 or bf16.
void launch_convert(const Queue& queue, const Rows& x, const Rows& out);

// out = activation(gate) * up.
struct GluArgs {
  Rows gate, up;  // f32
  graph::Activation activation = graph::Activation::silu;
  Rows out;  // any format
};
void launch_glu(const Queue& queue, const GluArgs& args);

// out = activation(x), f32 to any format.
void launch_activate(const Queue& queue, const Rows& x, graph::Activation activation, const Rows& out);

// out = factor * x, or cap * tanh(factor * x / cap) where the cap is not 0; f32, out may be x.
void launch_scale(const Queue& queue, const Rows& x, float factor, float cap, const Rows& out);

// out[r] = factor * scales[r's token] * x[r], f32; zeros where that factor is 0, whatever x is. out may be x.
struct AdapterScaleArgs {
  Rows x;
  const float* scales = nullptr;    // [tokens of the step], on the device
  const int32_t* tokens = nullptr;  // [x.rows] the token of each row; nullptr: row r is token r
  float factor = 1.0F;
  Rows out;
};
void launch_adapter_scale(const Queue& queue, const AdapterScaleArgs& args);

// out = a + b, f32; out may be either.
void launch_add(const Queue& queue, const Rows& a, const Rows& b, const Rows& out);

// For each head of out a slice of a's row and behind it one of b's: elements offset + head * stride on.
struct HeadSlice {
  int64_t offset = 0;
  int64_t stride = 0;
  int64_t size = 0;
};
struct JoinHeadsArgs {
  Rows a, b;  // f32
  HeadSlice first, second;
  Rows out;  // f32 [rows][heads * (first.size + second.size)]
};
void launch_join_heads(const Queue& queue, const JoinHeadsArgs& args);

// out[r] = x[rows[r]], f32; a row number beyond x gives zeros.
void launch_gather_rows(const Queue& queue, const Rows& x, const int32_t* rows, const Rows& out);

// out[r][i] = magnitude * (cos, sin)(positions[r] * inverse_frequencies[i]), in double precision before rounding.
// out: f32 [rows][2 * pairs].
struct RopeAnglesArgs {
  const int32_t* positions = nullptr;          // [rows]
  const float* inverse_frequencies = nullptr;  // [pairs], on the device
  float magnitude = 1.0F;
  Rows out;
  // The magnitude is multiplied by 1 + temperature * ln(1 + floor(position / temperature_length)); 0: is not.
  float temperature = 0.0F;
  int64_t temperature_length = 0;
};
void launch_rope_angles(const Queue& queue, const RopeAnglesArgs& args);

}  // namespace minfer::cuda
