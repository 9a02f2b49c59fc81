// Which attention kernels a launch takes, and on what grid: a pure function of sizes and formats. A kernel's grid is
// fixed when a step is captured, so all here are capacities; the blocks read the step's own lengths.
//
//   split   sequences of few rows: the cache's length is spread over blocks (kernels/attention/split.cuh)
//   tiles   all other sequences: tiles of query rows (kernels/attention/tile.cuh)
//   simple  every row, where the two have no kernel for the sizes or formats, or the card has too little shared memory
//           for them (kernels/attention/simple.cu)
#pragma once

#include <cstdint>

#include "cuda/launch/kv_layout.hpp"
#include "cuda/runtime/capabilities.hpp"

namespace minfer::cuda {

struct AttentionShape {
  int64_t heads = 0;
  int64_t rows = 0;             // capacity
  int64_t sequences = 0;        // capacity
  int64_t sequence_tokens = 0;  // the most positions of a sequence
  int64_t window = 0;
  bool decode = false;
};

struct AttentionPlan {
  bool simple = false;
  bool split = false;
  bool tiles = false;
  int64_t split_rows = 0;     // sequences of at most so many rows are the split kernel's
  int64_t split_columns = 0;  // (row, query head) pairs of its blocks
  bool wide = false;          // its variant for more than 8 columns
  int64_t chunks = 0;         // of a KV head's columns, at most
  int64_t split_limit = 0;    // most splits of a sequence
  int64_t splits = 0;         // of the longest that can be
  int64_t tile_count = 0;     // tiles for each KV head
};
AttentionPlan plan_attention(const Capabilities& capabilities, const KvLayerView& kv, const AttentionShape& shape);

// Bytes of partial results in scratch, behind the counters.
int64_t attention_partial_bytes(const Capabilities& capabilities, const KvLayerView& kv, const AttentionShape& shape);

}  // namespace minfer::cuda
