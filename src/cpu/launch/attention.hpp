// Attention over a paged KV cache. Rows are query tokens of any number of sequences; row r sees the tokens at positions
// [max(0, p - window + 1), p] of its sequence, p its own position; a token's index in the sequence's pages is its
// position. A row's result depends on nothing else in the batch nor on the thread count, bit for bit: it is reduced
// over fixed chunks of 256 positions (per chunk the maximum score m, l = sum exp(s - m), o = sum exp(s - m) v, tokens
// in order), and the chunks are merged in ascending order by one formula, whether one thread walks them (many rows:
// prefill) or many threads take one each (few rows: decode). Tokens that a row does not see are never read for it. Tile
// and split policies are pure predicates below. Oracle: the scalar kernels, an exact softmax in double.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/thread_pool.hpp"
#include "cpu/launch/kv_layout.hpp"
#include "cpu/runtime/isa.hpp"

namespace minfer::cpu {

enum class AttentionOutput : uint8_t {
  f32,
  q8,  // activation.hpp; vector instruction sets only, head_dim_v a multiple of 32
};

// What a layer's attention computes.
struct AttentionSpec {
  KvLayerSpec kv;
  int64_t heads = 0;  // query heads, a multiple of kv.kv_heads; heads h of group h / (heads / kv_heads) share a KV head
  AttentionOutput output = AttentionOutput::f32;
  float scale = 1.0F;
  int64_t window = 0;            // positions that a row sees, itself included; 0: all
  float softcap = 0.0F;          // scores become softcap * tanh(score / softcap); 0: none
  const float* sinks = nullptr;  // [heads]: a score beside the tokens', with no value; nullptr: none
};

struct AttentionSequence {
  const int32_t* pages = nullptr;  // page id of positions [64 i, 64 i + 64); pages that no row sees may be anything
  int64_t tokens = 0;              // in the cache, those of this step included
};

struct AttentionArgs {
  AttentionSpec spec;
  int64_t rows = 0;
  const int32_t* row_sequence = nullptr;  // [rows]: index into sequences; rows of one sequence best lie together
  // [rows]: below the sequence's tokens; best ascending, or all the same, within a sequence. Of attention that is not
  // causal the sequence's last position.
  const int32_t* row_position = nullptr;
  const AttentionSequence* sequences = nullptr;
  const float* q = nullptr;           // [rows][heads * head_dim_k], after rope
  int64_t q_stride = 0;               // floats from a row to the next
  const std::byte* k_base = nullptr;  // page 0 of this layer
  const std::byte* v_base = nullptr;
  int64_t k_page_stride = 0;  // bytes from a page to the next, a multiple of 64
  int64_t v_page_stride = 0;
  std::byte* out = nullptr;  // [rows][heads * head_dim_v]
  int64_t out_stride = 0;    // bytes from a row to the next; q8: q8_row_bytes(heads * head_dim_v)
};

// The largest step that a scratch buffer must serve.
struct AttentionCapacity {
  int64_t rows = 0;             // query rows a step
  int64_t sequence_tokens = 0;  // tokens a sequence
  int threads = 1;
};

// Whether `isa` computes it: scalar takes any head sizes and f32 output, the vector kernels head_dim_v a multiple of 8
// (q8 output: 32).
bool supports_attention(Isa isa, const AttentionSpec& spec);

// Query rows that one tile holds for a group of `group` query heads.
int64_t attention_tile_rows(int64_t group);
// Whether the chunks of a tile are spread over the threads rather than walked by one.
bool prefers_split_attention(int64_t tile_vectors, int64_t chunks);

// Bytes of scratch for any step within `capacity`, on any instruction set.
int64_t attention_scratch_bytes(const AttentionSpec& spec, const AttentionCapacity& capacity);

// Every thread of the section calls it with the same arguments; ends with a barrier. `scratch` is shared by the
// threads, 64-byte aligned, of attention_scratch_bytes(spec, capacity) for a capacity that covers this step.
void launch_attention(Isa isa, Worker& worker, const AttentionArgs& args, const AttentionCapacity& capacity,
                      std::span<std::byte> scratch);

}  // namespace minfer::cpu
