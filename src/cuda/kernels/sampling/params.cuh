// What the kernels of the sampler share: the pieces of a row, what is known of each, and keys that order logits.
//
// Pieces: a tile is 4096 consecutive logits of a row, a group 32. The first kernel (tiles.cu) reads every logit once
// and leaves a TileStats a tile and, for rows that are not greedy, each group's largest edited logit. The second
// (choose.cu), a block a row, needs little more: the k best logits are in the k groups of the largest maxima (ties by
// index). The third (top.cu) is launched only where the likeliest tokens are wanted, and reads the logits again.
#pragma once

#include <cstdint>

#include "cuda/launch/sampling.hpp"

namespace minfer::cuda::sampling {

inline constexpr int kTile = 4096;
inline constexpr int kGroup = 32;
inline constexpr int kMostCandidates = 256;  // of rows whose candidates are chosen without sorting all logits
inline constexpr int kSlots = 16;            // rows that may sort all their logits at a time

inline constexpr int32_t kNone = INT32_MAX;

struct TileStats {
  float largest;     // of the logits as they came
  float sum;         // of exp(x - largest)
  float edited;      // the largest after the edits
  float edited_sum;  // of exp((x - edited) / T) after the edits, with tail_temperature; else 0
  int32_t best;      // token of `edited`, the lowest
  int32_t culprit;   // first token whose logit is NaN or +infinity, or kNone
  int32_t differs;   // whether a logit differs from the row's first
  int32_t broken;    // whether an edit made a logit NaN or +infinity
};

// Of a row's logits as they came.
struct RowSoftmax {
  float largest;
  float sum;  // of exp(x - largest)
};

// Words that give slots to rows; the first kernel zeroes them.
struct SlotTickets {
  uint32_t taken;
  uint32_t served[kSlots];
};

struct SampleParams {
  const std::byte* logits;
  int64_t stride;
  int32_t vocabulary;
  int32_t tiles;   // of a row
  int32_t groups;  // of a row
  int32_t slots;
  const SamplingRow* rows;
  const LogitEdit* edits;
  const uint32_t* masks;
  Drawn* out;
  Drawn* const* mirror;
  TokenLogprob* const* top;
  RowSoftmax* softmax;  // [rows]
  TileStats* stats;     // [rows][tiles]
  float* maxima;        // [rows][groups]
  SlotTickets* tickets;
  uint64_t* slot_memory;  // [slots][2][vocabulary]
};

// sampling/tiles
void launch_tiles(const Queue& queue, const SampleParams& params, int64_t rows);
// sampling/top
void launch_top(const Queue& queue, const SampleParams& params, int64_t rows);

#ifdef __CUDACC__

inline constexpr float kInfinity = __builtin_huge_valf();

// 0: all.
__device__ __forceinline__ int32_t most_candidates(const SamplingRow& row) {
  return row.mirostat != 0 ? 0 : row.top_k;
}
// Whether all logits may be candidates, not just kMostCandidates.
__device__ __forceinline__ bool is_whole(const SamplingRow& row, int32_t vocabulary) {
  return vocabulary > kMostCandidates && (most_candidates(row) == 0 || most_candidates(row) > kMostCandidates);
}
// Such a row is first tried with kMostCandidates: what is beyond them is known by its sum. At which temperature the sum
// is needed: 1 for filters that may end within the candidates, the row's for a mere draw; 0: no trial.
__device__ __forceinline__ float tail_temperature(const SamplingRow& row, int32_t vocabulary) {
  if (row.temperature == 0.0F || !is_whole(row, vocabulary)) return 0.0F;
  if (row.mirostat != 0) return row.temperature;
  if (row.top_k != 0 || row.typical_p < 1.0F) return 0.0F;
  if (row.top_p < 1.0F || row.min_p > 0.0F) return 1.0F;
  return row.xtc_probability > 0.0F ? 0.0F : row.temperature;
}

__device__ __forceinline__ float edited_logit(float logit, const LogitEdit& edit, const SamplingRow& row) {
  logit = __fadd_rn(logit, edit.bias);
  if (edit.count > 0) {
    if (row.repeat != 1.0F) logit = logit > 0.0F ? __fdiv_rn(logit, row.repeat) : __fmul_rn(logit, row.repeat);
    const float count = static_cast<float>(edit.count);
    logit = __fsub_rn(logit, __fadd_rn(__fmul_rn(count, row.frequency), row.presence));
  }
  return __fsub_rn(logit, edit.dry);
}

__device__ __forceinline__ float logprob_of(float logit, const RowSoftmax& softmax) {
  const double below = static_cast<double>(logit) - static_cast<double>(softmax.largest);
  return static_cast<float>(below - log(static_cast<double>(softmax.sum)));
}

// The mask's bits of the 32 tokens from 32 * group on.
__device__ __forceinline__ uint32_t mask_word(const SampleParams& params, const SamplingRow& row, int32_t group) {
  if (row.mask < 0) return 0xFFFFFFFFU;
  return params.masks[static_cast<int64_t>(row.mask) * mask_words(params.vocabulary) + group];
}

// Larger for larger logits; equal for both zeros.
__device__ __forceinline__ uint32_t ordered(float logit) {
  const uint32_t bits = __float_as_uint(__fadd_rn(logit, 0.0F));
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}
// Ascending keys are candidates in their order: descending logits, ties by id.
__device__ __forceinline__ uint64_t rank_key(float logit, int32_t id) {
  return static_cast<uint64_t>(~ordered(logit)) << 32 | static_cast<uint32_t>(id);
}
__device__ __forceinline__ float key_logit(uint64_t key) {
  const uint32_t value = ~static_cast<uint32_t>(key >> 32);
  return __uint_as_float((value & 0x80000000U) != 0 ? value & 0x7FFFFFFFU : ~value);
}
__device__ __forceinline__ int32_t key_id(uint64_t key) {
  return static_cast<int32_t>(key & 0xFFFFFFFFU);
}

// Index of the first of a row's edits (ascending by token) with a token >= `token`. Called by whole warps.
__device__ __forceinline__ int32_t first_edit_from(const LogitEdit* edits, int32_t count, int32_t token) {
  const auto lane = static_cast<int32_t>(threadIdx.x % 32);
  int32_t low = 0;
  int32_t high = count;
  while (low < high) {
    const int32_t step = (high - low + 31) / 32;
    const int32_t at = low + lane * step;
    const bool less = at < high && edits[at].token < token;
    const int32_t passed = __popc(__ballot_sync(0xFFFFFFFFU, less));
    if (passed == 0) return low;
    high = min(high, low + passed * step);
    low += (passed - 1) * step + 1;
  }
  return low;
}

#endif

}  // namespace minfer::cuda::sampling
