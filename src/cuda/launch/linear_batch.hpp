// The small-batch family of linear products, 2 rows to kSmallBatchRows: tensor cores on panels as they are. Internal to
// launch/linear. Up to 8 rows: 8-bit products of quants, as exact as decode's (x: q8). Beyond: weights become bf16 in
// registers, next to the tensor cores (x: bf16), as exact as prefill's; that needs compute capability 9.0 itself.
//
// A group is 64 rows of a matrix, 8 panels (of a glu: 4 panels of gate and 4 of up, alternating), a tile a group for
// each of a block's `warpgroups`, those of all segments behind one another. One more warpgroup streams the tile's
// weights, chunk by chunk (256 columns), and the tokens through two rings in shared memory. Where there are too few
// tiles for the card, the blocks of a cluster share a tile's chunks and add their sums in the order of the blocks. The
// cut depends on the weights and the card, never on the number of rows: a row's result depends on its weights and its
// token alone.
#pragma once

#include <cstdint>

#include "cuda/launch/linear.hpp"

namespace minfer::cuda {

inline constexpr int kBatchMaxWarpgroups = 3;
inline constexpr int kBatchMaxSplits = 8;  // a cluster's most blocks
inline constexpr int kBatchMaxStages = 8;
inline constexpr int kBatchMaxTokens = 128;    // a pass
inline constexpr int64_t kBatchFirstRows = 5;  // of Q4_K and Q6_K: from here on it is faster than decode

// What a plan is made for: one launch.
struct BatchShape {
  tensor::DType types[2] = {};  // of the panels; the same where there is one
  int segments = 0;
  int64_t panels[kMaxSegments] = {};  // of each segment; of a glu: of gate, one segment
  int64_t cols = 0;
  bool glu = false;
};

// How a launch is cut.
struct BatchCut {
  int warpgroups = 0;
  int splits = 0;
  int64_t tiles = 0;
};

struct BatchPlan {
  BatchCut cut;
  int blocks = 0;
  int stages = 0;    // of the ring of weights
  int x_stages = 0;  // of the ring of activations
  int slot_bytes = 0;
  int weights_at = 0, scales_at = 0;
  int staged_at = 0, staged_tokens = 0;
  int64_t shared_bytes = 0;
};

// Whether the family has kernels for products of this many rows with weights of these types in one launch.
bool batch_serves(const Capabilities& capabilities, tensor::DType a, tensor::DType b, int64_t rows);

// Whether such a product is faster here than in the decode or the prefill family. Measured with Qwen3-8B Q4_K_M on an
// H200: other types than its two are left to decode up to kDecodeRows, and taken here beyond.
bool prefers_batch(const Capabilities& capabilities, tensor::DType dtype, int64_t rows);

// The cut with the least estimated time. Pure.
BatchCut cut_batch(const Capabilities& capabilities, const BatchShape& shape);

// Tokens of the kernel that does `rows` rows, or the first of them.
int batch_tokens(int64_t rows);

// Pure.
BatchPlan plan_batch(const Capabilities& capabilities, const BatchShape& shape, int tokens);

void launch_linear_batch(const Queue& queue, const LinearArgs& args);
void launch_linear_glu_batch(const Queue& queue, const LinearGluArgs& args);

}  // namespace minfer::cuda
