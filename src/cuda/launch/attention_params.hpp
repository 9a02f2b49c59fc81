// What attention kernels are given, made once by launch_attention and passed by value. Scores are kept in powers of
// two: exp(x) = 2^(x log2 e), the factor folded into the query or the cap.
#pragma once

#include <cstdint>

#include "cuda/launch/attention.hpp"

namespace minfer::cuda::attention {

// A decoding step's rows before norm, rotation and append, for the split kernel that does these itself.
struct FreshRows {
  const float* k = nullptr;
  const float* v = nullptr;
  const float* angles = nullptr;
  const float* q_norm = nullptr;  // nullptr: none
  const float* k_norm = nullptr;
  int64_t k_stride = 0, v_stride = 0, angles_stride = 0;  // floats
  float eps = 0;
  int rotated = 0;
  bool halves = false;
};

struct AttentionParams {
  const float* q = nullptr;
  int64_t q_stride = 0;  // floats
  std::byte* out = nullptr;
  int64_t out_stride = 0;  // bytes
  ActivationFormat out_format = ActivationFormat::f32;
  int out_width = 0;
  int heads = 0;
  int group = 0;  // query heads of a KV head
  int key_size = 0, value_size = 0;
  int window = 0;
  bool causal = true;
  float query_factor = 0;  // multiplies q: scale * log2 e, or scale / cap
  float cap_factor = 0;    // cap * log2 e; 0: no cap
  KvLayerView kv;
  const SequenceInfo* sequences = nullptr;
  const int32_t* pages = nullptr;
  const int32_t* row_sequence = nullptr;
  int sequence_count = 0;  // capacity
  // Sequences with at most this many rows belong to the split kernel, the others to the tile kernel.
  int split_rows = 0;
  int split_limit = 0;           // most splits of a sequence
  int split_columns = 0;         // columns of a partial result
  int split_stride = 0;          // partial results of a sequence and head
  int chunks = 0;                // pieces of a KV head's columns, at most
  unsigned* counters = nullptr;  // of finished splits
  float* partials = nullptr;     // [sequence][KV head][chunk][split], see partial_floats
  const float* sinks = nullptr;  // [heads]; nullptr: none
  FreshRows fresh;               // where SplitGrid::rotates
};

struct SplitGrid {
  int64_t kv_heads = 0;
  bool wide = false;
  bool rotates = false;  // q, k and v are FreshRows'
  bool few = false;      // sequences: one block a multiprocessor
  bool chained = false;
};
struct TileGrid {
  unsigned kv_heads = 0;
  unsigned tiles = 0;
};

// The kernels on tensor cores for one format of keys and values: a unit each. Shared memory is what a block of the
// larger needs on a card of that compute capability; 0: there are no kernels for the head size.
struct FastKernels {
  graph::KvFormat format;
  int64_t (*split_shared_bytes)(int64_t head_size);
  int64_t (*tile_shared_bytes)(int64_t head_size, int major);
  void (*launch_split)(const Queue& queue, const AttentionParams& params, const SplitGrid& grid);
  void (*launch_tiles)(const Queue& queue, const AttentionParams& params, const TileGrid& grid);
};
// nullptr: none for the format.
const FastKernels* find_fast_kernels(graph::KvFormat format);

int64_t split_shared_bytes_f16(int64_t head_size);
int64_t split_shared_bytes_bf16(int64_t head_size);
int64_t split_shared_bytes_q8(int64_t head_size);
int64_t tile_shared_bytes_f16(int64_t head_size, int major);
int64_t tile_shared_bytes_bf16(int64_t head_size, int major);
int64_t tile_shared_bytes_q8(int64_t head_size, int major);
void launch_split_f16(const Queue& queue, const AttentionParams& params, const SplitGrid& grid);
void launch_split_bf16(const Queue& queue, const AttentionParams& params, const SplitGrid& grid);
void launch_split_q8(const Queue& queue, const AttentionParams& params, const SplitGrid& grid);
void launch_tile_f16(const Queue& queue, const AttentionParams& params, const TileGrid& grid);
void launch_tile_bf16(const Queue& queue, const AttentionParams& params, const TileGrid& grid);
void launch_tile_q8(const Queue& queue, const AttentionParams& params, const TileGrid& grid);
// Any sizes and formats; `rows` query rows.
void launch_simple(const Queue& queue, const AttentionParams& params, int64_t rows);

}  // namespace minfer::cuda::attention
