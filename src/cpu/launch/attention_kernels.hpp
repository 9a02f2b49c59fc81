// What each instruction set provides for attention.cpp. A job is one tile of query rows with one KV head: its
// rows * group "vectors" (vector i is query row i / group, head i % group of the group). Plain pointers and integers
// only: kernel sources are compiled for their instruction set and share no inline code with the rest.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/launch/kv_layout.hpp"

namespace minfer::cpu {

inline constexpr int64_t kAttentionChunkTokens = 256;
inline constexpr int64_t kAttentionChunkPages = kAttentionChunkTokens / kKvPageTokens;

struct AttentionJob {
  const float* q;            // the tile's first row, first head of the group
  int64_t q_stride;          // floats from a row to the next; heads are head_dim_k apart
  const int32_t* positions;  // [rows]
  int64_t rows;
  int64_t group;
  int64_t head_dim_k;
  int64_t head_dim_v;
  int64_t value_stride;  // floats from a vector's accumulated values to the next: head_dim_v rounded up to 16
  float scale;
  float softcap;   // 0: none
  int64_t window;  // 0: none
  KvFormat k_format;
  KvFormat v_format;
  const std::byte* k;  // this KV head's part of page 0
  const std::byte* v;
  int64_t k_scales;  // q8_0: bytes from there to the head's scales; else 0
  int64_t v_scales;
  int64_t k_page_stride;  // bytes
  int64_t v_page_stride;
  const int32_t* pages;  // the sequence's
};

// The reduction of some positions for the vectors of a job; a vector that saw none has sum 0.
struct AttentionPartial {
  float* maximum;  // [vectors]
  float* sum;      // [vectors]
  float* values;   // [vectors][value_stride]
};

// A thread's own memory while it works on a job.
struct AttentionWork {
  float* query;   // [vectors * head_dim_k]: scaled and packed
  float* scores;  // [vectors][256]
  float* scales;  // [64][head_dim_v / 32]: q8_0 values of one page
};

// Where the finished values of one vector go.
struct AttentionTarget {
  float* f32;         // [head_dim_v], or nullptr for q8:
  int8_t* quants;     // [head_dim_v]
  float* scales;      // [head_dim_v / 32]
  float* sums;        // [head_dim_v / 32]
  const float* sink;  // nullptr: none
};

struct AttentionKernels {
  // Fills work.query. Once a job.
  void (*pack)(const AttentionJob& job, const AttentionWork& work);
  // Reduces the visible positions of chunk [256 chunk, 256 chunk + 256), of which some vector sees some. `after`: keys
  // that the thread will read next, to be prefetched; nullptr if unknown.
  void (*chunk)(const AttentionJob& job, const AttentionWork& work, int64_t chunk, const std::byte* after,
                const AttentionPartial& out);
  // total <- total and the next chunk's partial. `total` begins with sum 0, values 0.
  void (*merge)(const AttentionJob& job, const AttentionPartial& total, const AttentionPartial& next);
  // Writes values / sum of one vector; head_dim_v values, which it may overwrite.
  void (*finish)(int64_t head_dim_v, float maximum, float sum, float* values, const AttentionTarget& target);
};

namespace avx2 {
extern const AttentionKernels kAttentionKernels;
}
namespace avx512 {
extern const AttentionKernels kAttentionKernels;
}

namespace scalar {
// One vector of a job (rows = group = 1), whole: two passes in double. `scores` holds position + 1 doubles; `sink` as
// in AttentionTarget.
void attend(const AttentionJob& job, const float* sink, double* scores, float* out);
}  // namespace scalar

}  // namespace minfer::cpu
