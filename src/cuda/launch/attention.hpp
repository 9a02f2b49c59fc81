// Attention over the paged cache, and what precedes it. Steps are described by arrays on the device that the executor
// fills before each step; a captured launch has the shape's capacities, and rows and sequences beyond the step's own do
// nothing (a slot of -1, zero rows).
//
// Sequences of few rows (decode, speculation, short prompts) are split over the cache's length, all query heads of a KV
// head packed together; others take tiles of rows; what these have no kernels for, a simple kernel
// (attention_plan.hpp). All positions from the start of the first visible page on must have been written. Oracle: the
// CPU's scalar attention.
#pragma once

#include <cstdint>

#include "cuda/launch/activation.hpp"
#include "cuda/launch/kv_layout.hpp"
#include "cuda/runtime/launch.hpp"
#include "graph/enums.hpp"

namespace minfer::cuda {

// One sequence of a step. Row r of it (0 .. rows - 1) is at position first_position + r.
struct SequenceInfo {
  int32_t first_row;
  int32_t rows;  // 0: none
  int32_t first_position;
  int32_t first_page;  // of its page table, in `pages`
};

// The step of one KV group.
struct StepView {
  const SequenceInfo* sequences = nullptr;  // [sequence_capacity]
  const int32_t* pages = nullptr;           // page ids, all tables behind one another
  const int32_t* slots = nullptr;           // [row_capacity]: page * 64 + token of each row's K and V; -1: none
  const int32_t* row_sequence = nullptr;    // [row_capacity]; -1: none
  const int32_t* row_position = nullptr;    // [row_capacity]
  int64_t sequence_capacity = 0;
  int64_t row_capacity = 0;
  bool decode = false;          // every sequence has one row: row i is sequence i
  int64_t sequence_tokens = 0;  // the most positions of a sequence
};

// q and k: optional RMS norm over each head, then rotation of its first `rotated` elements; k and v appended to the
// cache at the rows' slots. q is written in place; k is not kept.
struct RopeAppendArgs {
  Rows q;                         // f32 [rows][heads * key_size]
  Rows k;                         // f32 [rows][kv_heads * key_size]
  Rows v;                         // f32 [rows][kv_heads * value_size]
  Rows angles;                    // f32 [rows][rotated]: cos, sin of each pair, interleaved
  const float* q_norm = nullptr;  // [key_size]
  const float* k_norm = nullptr;
  float eps = 0;
  int64_t heads = 0;
  graph::RopeStyle style = graph::RopeStyle::halves;
  KvLayerView kv;
  StepView step;
  Rows q_out;  // may be q
};
void launch_rope_append(const Queue& queue, const RopeAppendArgs& args);

// Its parts, for graphs that are not fused. Rope: x [rows][heads * head_size] rotated to out.
struct RopeArgs {
  Rows x;
  Rows angles;
  int64_t heads = 0;
  int64_t head_size = 0;
  graph::RopeStyle style = graph::RopeStyle::halves;
  Rows out;
};
void launch_rope(const Queue& queue, const RopeArgs& args);
void launch_kv_append(const Queue& queue, const Rows& k, const Rows& v, const KvLayerView& kv, const StepView& step);

struct AttentionArgs {
  Rows q;    // f32 [rows][heads * key_size], rotated
  Rows out;  // [rows][heads * value_size]: any format; q8: value_size is a multiple of 32
  int64_t heads = 0;
  float scale = 0;
  int64_t window = 0;            // positions seen, itself included; 0: all
  float softcap = 0;             // cap * tanh(score / cap); 0: none
  const float* sinks = nullptr;  // [heads]: a score beside the tokens', with no value; nullptr: none
  // False: a row sees its whole sequence, all of which is in this step; without a window. Always the simple kernel.
  bool causal = true;
  KvLayerView kv;
  StepView step;
  // attention_scratch_bytes, 16-byte aligned. Its first attention_counter_bytes are zero before the first launch, and
  // nothing else may write them after that: each launch leaves them zero. Launches of one stream can share it.
  std::byte* scratch = nullptr;
};
// nullptr where there is a kernel for these sizes and formats, else the reason (a literal). Pure.
const char* attention_unsupported(const KvLayerView& kv, int64_t heads);
// Counters, and partial results of the splits. Pure.
int64_t attention_counter_bytes();
int64_t attention_scratch_bytes(const Capabilities& capabilities, const KvLayerView& kv, int64_t heads, int64_t rows,
                                int64_t sequences, int64_t sequence_tokens, bool decode);
void launch_attention(const Queue& queue, const AttentionArgs& args);
// launch_rope_append and launch_attention of its q_out: one kernel in a decoding step where there is one for the sizes
// and formats, else both. q_out may be written or not; the rest of `rope` and of `attention` must agree.
void launch_rope_attention(const Queue& queue, const RopeAppendArgs& rope, const AttentionArgs& attention);

// Tokens copied into another page or moved down in one, in one layer; keys turned by rotate_by positions
// (graph::KvMove).
struct KvMoveArgs {
  KvLayerView kv;
  int32_t from_page, from_token, to_page, to_token, tokens;
  const float* inverse_frequencies = nullptr;  // [pairs] on the device, nullptr: keys don't rotate
  int64_t pairs = 0;
  int64_t rotate_by = 0;
  graph::RopeStyle style = graph::RopeStyle::halves;
};
void launch_kv_move(const Queue& queue, const KvMoveArgs& args);

}  // namespace minfer::cuda
