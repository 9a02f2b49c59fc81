// Rotary positions, and the preparation of queries and keys that ends in them. Angles are computed once a step into a
// table [rows][pairs][2] of cosine and sine that every layer reads. Called by every thread of a section with equal
// arguments; ends with a barrier; results do not depend on the number of threads nor on the other rows, bit for bit.
// Strides are in floats. Source: RoFormer (Su et al. 2021); partial rotation as in GPT-NeoX.
#pragma once

#include <cstdint>

#include "base/thread_pool.hpp"
#include "cpu/launch/rows_kernels.hpp"
#include "cpu/runtime/isa.hpp"
#include "graph/enums.hpp"

namespace minfer::cpu {

// Which elements of a head turn together: i and i + rotated / 2 (GPT-NeoX, transformers), or 2i and 2i + 1 (the "norm"
// order of GGUF files).
using graph::RopeStyle;

// angles[row][pair] = magnitude * (cos, sin)(positions[row] * inverse_frequencies[pair]). Product and functions in
// double precision: exact to float rounding up to 1e6 radians and beyond.
struct RopeAnglesArgs {
  const int32_t* positions;  // [rows]
  int64_t rows;
  const float* inverse_frequencies;  // [pairs], radians a position
  int64_t pairs;
  float magnitude;
  float* angles;  // [rows][pairs][2]
  // The magnitude is multiplied by 1 + temperature * ln(1 + floor(position / temperature_length)); 0: is not.
  float temperature = 0.0f;
  int64_t temperature_length = 0;
};
void launch_rope_angles(Worker& worker, const RopeAnglesArgs& args);

// For each head of each row: RMS norm over the head if `weight` is given, then rotation of its first `rotated` elements
// if `angles` are given (rotated even, at most head_dim; the rest is copied). Equal, bit for bit, to the two steps
// apart.
struct PrepareHeadsArgs {
  const float* x;  // [rows][heads][head_dim]
  int64_t x_stride;
  int64_t rows;
  int64_t heads;
  int64_t head_dim;
  const float* weight = nullptr;  // [head_dim] or null
  float eps = 0.0f;
  const float* angles = nullptr;  // [rows][rotated / 2][2] or null
  int64_t rotated = 0;
  RopeStyle style = RopeStyle::halves;
  float* out;  // [rows][heads][head_dim]; may be x at the same stride
  int64_t out_stride;
};
void launch_prepare_heads(Isa isa, Worker& worker, const PrepareHeadsArgs& args);

// The work of one thread in it: heads [begin, end) of all rows' heads, row by row.
void prepare_heads(const RowKernels& kernels, const PrepareHeadsArgs& args, int64_t begin, int64_t end);
// How many heads make a chunk of it.
int64_t prepare_heads_grain(int64_t head_dim);

}  // namespace minfer::cpu
