// Mixtures of experts on the card. A row of the step goes to `used` experts; these (row, expert) pairs are its entries.
// Which they are is found and used on the card alone, so that a step can be recorded. Two families of products:
//   entries  each entry on its own, by the decode family's device code: every type; any number of rows, made for few
//   tiles    entries of an expert together on tensor cores (8-bit products): common quantized types, many rows
// Up to kEntryRows rows the entries lie as the rows do; beyond, those of an expert lie together, in slices of tile
// tokens. x is q8 for quantized types, else f32, for any number of rows. A result depends on the entry's row, its
// expert's weights, and the family, which the row count and the type choose.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/launch/activation.hpp"
#include "cuda/launch/panel.hpp"
#include "graph/enums.hpp"
#include "graph/routing.hpp"

namespace minfer::cuda {

inline constexpr int64_t kEntryRows = 8;

// What a product of experts reads.
ActivationFormat expert_format(tensor::DType dtype);

// Tokens of a tile: by the mean of an expert's entries. Pure.
int expert_tile_tokens(int64_t rows, int64_t experts, int64_t used);

// Entries of one expert, beside one another.
struct ExpertSlice {
  int32_t expert;
  int32_t first;  // entry
  int32_t count;
};

// The routes of a step's rows, in memory of routes_bytes. Plain pointers: kernels take it by value.
struct Routes {
  int64_t rows = 0;
  int64_t experts = 0;
  int64_t used = 0;
  int32_t* expert = nullptr;  // [entries]
  int32_t* source = nullptr;  // [entries]: the row
  int32_t* place = nullptr;   // [rows][used]: the entry of a row's i-th expert, the best first
  // Of grouped entries:
  int32_t* slices = nullptr;  // how many
  ExpertSlice* slice = nullptr;

  int64_t entries() const { return rows * used; }
  bool grouped() const { return rows > kEntryRows && experts > 1; }
  // No more slices than this.
  int64_t slice_capacity() const;
};
int64_t routes_bytes(int64_t rows, int64_t experts, int64_t used);
Routes routes_at(std::byte* memory, int64_t rows, int64_t experts, int64_t used);

// The choice and the weights of graph::RouteAttributes; a NaN is below all. Up to 1024 experts.
struct RouteArgs {
  Rows logits;                    // f32 [rows][experts]
  const float* biases = nullptr;  // [experts] or null
  graph::RouteAttributes choice;
  Routes routes;  // out; choice.used of each row
  Rows weights;   // out, f32 [rows][used]
};
void launch_route(const Queue& queue, const RouteArgs& args);

// All experts' matrices, expert_stride bytes apart.
struct ExpertMatrix {
  PanelMatrix first;
  const float* bias = nullptr;  // [experts][first.rows] or null
};
int64_t expert_stride(tensor::DType dtype, int64_t rows, int64_t cols);

// out[entry] = x W^T + bias of the entry's expert.
struct ExpertLinearArgs {
  Routes routes;
  Rows x;  // [rows], or [entries] where by_entry; format: expert_format
  bool by_entry = false;
  ExpertMatrix matrix;
  Rows out;  // f32 [entries]
};
void launch_expert_linear(const Queue& queue, const ExpertLinearArgs& args);

// out[entry] = activation(gate) * up of the entry's expert, in any format.
struct ExpertGluArgs {
  Routes routes;
  Rows x;
  bool by_entry = false;
  ExpertMatrix gate, up;
  graph::Activation activation = graph::Activation::silu;
  Rows out;
};
void launch_expert_glu(const Queue& queue, const ExpertGluArgs& args);

// out[row] = sum of weights[row][i] * y[entry of the row's i-th expert], in the order of i, + residual.
struct ExpertSumArgs {
  Routes routes;
  Rows y;  // f32 [entries], or [rows] where by_row (used is 1 then)
  bool by_row = false;
  Rows weights;                     // f32 [rows][used]
  const float* residual = nullptr;  // [rows] at out's stride, or null; may be out
  Rows out;                         // f32 [rows]
};
void launch_expert_sum(const Queue& queue, const ExpertSumArgs& args);

}  // namespace minfer::cuda
