// Which units a block of the split kernel works on (split.cuh). The units of one KV head lie behind one another, by
// sequence, chunk of columns, split; they are cut into shares of equal pages, one a block, and a share begins with the
// first unit that starts in it. Who works on a unit changes nothing in its result.
//
// All here is done by the first warp, all lanes alike.
#pragma once

#include "cuda/kernels/attention/split_parts.cuh"
#include "cuda/launch/attention_limits.hpp"

namespace minfer::cuda::attention {

// A sequence as it is split.
struct SplitSequence {
  int pages, each, splits;  // visible pages, of a split (the last may have fewer); 0: not this kernel's
  int chunks;               // of the columns of a KV head
  int first_page;           // visible, in the sequence's table
  int begin;
  SequenceInfo info;
};

__device__ __forceinline__ SplitSequence split_sequence(const AttentionParams& p, int columns, int sequence) {
  constexpr int kPage = static_cast<int>(kKvPageTokens);
  SplitSequence s{};
  s.info = p.sequences[sequence];
  if (s.info.rows == 0 || s.info.rows > p.split_rows) return s;
  const int rows_heads = s.info.rows * p.group;
  s.chunks = rows_heads <= columns ? 1 : (rows_heads + columns - 1) / columns;
  s.begin = p.window > 0 ? max(0, s.info.first_position + 1 - p.window) : 0;
  s.first_page = s.begin / kPage;
  s.pages = (s.info.first_position + s.info.rows + kPage - 1) / kPage - s.first_page;
  s.each = split_pages(s.pages, p.split_limit);
  s.splits = s.each <= 2 ? (s.pages + s.each - 1) >> (s.each - 1) : (s.pages + s.each - 1) / s.each;
  return s;
}

// A sequence's pages for one KV head, again for each chunk.
__device__ __forceinline__ int step_pages(const AttentionParams& p, int columns, int sequence) {
  if (sequence >= p.sequence_count) return 0;
  const SplitSequence s = split_sequence(p, columns, sequence);
  return s.chunks * s.pages;
}

class SplitCursor {
 public:
  // At the start of the block's share.
  __device__ __forceinline__ SplitCursor(const AttentionParams& p, int columns) : columns_(columns) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const unsigned heads = static_cast<unsigned>(p.kv.kv_heads);
    const int blocks = static_cast<int>(gridDim.x / heads);
    int total = 0;
    int pages = 0;  // of the lane's sequence
    if (p.sequence_count == 1) {
      total = step_pages(p, columns_, 0);
    } else {
      for (int base = 0; base < p.sequence_count; base += kWarp) {
        pages = step_pages(p, columns_, base + lane);
        total += __reduce_add_sync(kAllLanes, pages);
      }
    }
    const int share = (total + blocks - 1) / blocks;
    const int first = static_cast<int>(blockIdx.x / heads) * share;
    limit_ = min(first + share, total);
    if (first >= limit_) {
      limit_ = 0;
      return;
    }
    if (p.sequence_count > 1) find(p, first, pages);
    sequence_ = split_sequence(p, columns_, index_);
    chunk_ = (first - base_) / sequence_.pages;
    const int offset = first - base_ - chunk_ * sequence_.pages;
    split_ = sequence_.each == 1 ? offset : (offset + sequence_.each - 1) / sequence_.each;
  }

  // Describes the unit here and steps on; none after the last.
  __device__ __forceinline__ void take(const AttentionParams& p, SplitUnit& u) {
    const bool exists = settle(p);
    if (threadIdx.x == 0) {
      u.exists = exists ? 1 : 0;
      if (exists) describe(p, u);
    }
    if (exists) ++split_;
  }

 private:
  // The sequence that page `first` belongs to. `pages`: of the lane's sequence, where there are no more than lanes.
  __device__ __forceinline__ void find(const AttentionParams& p, int first, int pages) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    for (int begin = 0; begin < p.sequence_count; begin += kWarp) {
      if (p.sequence_count > kWarp) pages = step_pages(p, columns_, begin + lane);
      int through = pages;
#pragma unroll
      for (int step = 1; step < kWarp; step *= 2) {
        const int other = __shfl_up_sync(kAllLanes, through, step);
        if (lane >= step) through += other;
      }
      const unsigned beyond = __ballot_sync(kAllLanes, base_ + through > first);
      if (beyond != 0) {
        const int owner = __ffs(static_cast<int>(beyond)) - 1;
        index_ = begin + owner;
        base_ += __shfl_sync(kAllLanes, through - pages, owner);
        return;
      }
      base_ += __shfl_sync(kAllLanes, through, kWarp - 1);
    }
  }

  // To the next sequence that is split, if past the last unit of this one; false: the share is done.
  __device__ __forceinline__ bool settle(const AttentionParams& p) {
    if (base_ >= limit_) return false;
    if (split_ == sequence_.splits) {
      split_ = 0;
      ++chunk_;
    }
    if (chunk_ == sequence_.chunks) {
      chunk_ = 0;
      base_ += sequence_.chunks * sequence_.pages;
      do {
        ++index_;
        if (index_ >= p.sequence_count) {
          limit_ = base_;
          return false;
        }
        sequence_ = split_sequence(p, columns_, index_);
      } while (sequence_.pages == 0);
    }
    if (base_ + chunk_ * sequence_.pages + split_ * sequence_.each < limit_) return true;
    limit_ = base_;
    return false;
  }

  __device__ __forceinline__ void describe(const AttentionParams& p, SplitUnit& u) const {
    const int first = split_ * sequence_.each;
    u.sequence = index_;
    u.chunk = chunk_;
    u.first_column = chunk_ * columns_;
    u.columns = min(columns_, sequence_.info.rows * p.group - u.first_column);
    u.split = split_;
    u.splits = sequence_.splits;
    u.table = sequence_.info.first_page + sequence_.first_page + first;
    u.pages = min(sequence_.each, sequence_.pages - first);
    u.position = (sequence_.first_page + first) * static_cast<int>(kKvPageTokens);
    u.first_row = sequence_.info.first_row;
    u.first_position = sequence_.info.first_position;
    u.begin = sequence_.begin;
    u.end = sequence_.info.first_position + sequence_.info.rows;
  }

  int columns_;
  SplitSequence sequence_{};
  int index_ = 0;  // of the sequence
  int chunk_ = 0, split_ = 0;
  int base_ = 0;   // pages before this sequence
  int limit_ = 0;  // where the share ends
};

}  // namespace minfer::cuda::attention
