// Which units a block of the split kernel works on (split.cuh). The units of one KV head lie behind one another, by
// sequence, chunk of columns, split; they are cut into shares of equal pages, and a share begins with the first unit
// that starts in it. A block's first share is its own; where there are more shares than blocks, each takes the next
// when it is through, since multiprocessors are not equally near to memory. Who works on a unit changes nothing in its
// result.
//
// All here is done by the first warp, all lanes alike.
#pragma once

#include "cuda/kernels/attention/limits.hpp"
#include "cuda/kernels/attention/split_parts.cuh"

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
  // At the block's first share.
  __device__ __forceinline__ SplitCursor(const AttentionParams& p, int columns) : columns_(columns) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    if (p.sequence_count == 1) {
      total_ = step_pages(p, columns_, 0);
    } else {
      for (int base = 0; base < p.sequence_count; base += kWarp) {
        pages_ = step_pages(p, columns_, base + lane);
        total_ += __reduce_add_sync(kAllLanes, pages_);
      }
    }
    const int blocks = static_cast<int>(gridDim.y);
    first_pages_ = (total_ + blocks - 1) / blocks;
    if (first_pages_ > kStaticPages) {
      first_pages_ -= first_pages_ / 4;
      shares_ = blocks + (total_ - blocks * first_pages_ + kSharePages - 1) / kSharePages;
    } else {
      shares_ = blocks;
    }
    enter(p, static_cast<int>(blockIdx.y));
  }

  // Describes the unit here and steps on; none after the last.
  __device__ __forceinline__ void take(const AttentionParams& p, SplitUnit& u) {
    while (!settle(p)) {
      if (share_ >= shares_) {
        if (threadIdx.x == 0) u.exists = 0;
        return;
      }
      enter(p, shares_ > static_cast<int>(gridDim.y) ? __shfl_sync(kAllLanes, next_share_, 0) : shares_);
    }
    if (threadIdx.x == 0) describe(p, u);
    ++split_;
  }

  // The last block of the KV head to leave sets the counters back.
  __device__ __forceinline__ void leave(const AttentionParams& p) const {
    if (shares_ <= static_cast<int>(gridDim.y) || threadIdx.x != 0) return;
    unsigned* counters = p.share_counters + 2 * blockIdx.x;
    if (atomicAdd(counters + 1, 1U) == gridDim.y - 1) counters[0] = counters[1] = 0;
  }

 private:
  // To the share's first unit, if one starts in it.
  __device__ __forceinline__ void enter(const AttentionParams& p, int share) {
    share_ = share;
    base_ = limit_ = 0;
    if (share >= shares_) return;
    if (shares_ > static_cast<int>(gridDim.y) && threadIdx.x == 0) {
      // Known by the time that this share is done.
      next_share_ = static_cast<int>(gridDim.y + atomicAdd(p.share_counters + 2 * blockIdx.x, 1U));
    }
    const int blocks = static_cast<int>(gridDim.y);
    const bool own = share < blocks;
    const int first = own ? share * first_pages_ : blocks * first_pages_ + (share - blocks) * kSharePages;
    limit_ = min(first + (own ? first_pages_ : kSharePages), total_);
    if (first >= limit_) {
      limit_ = 0;
      return;
    }
    find(p, first);
    chunk_ = (first - base_) / sequence_.pages;
    const int offset = first - base_ - chunk_ * sequence_.pages;
    split_ = sequence_.each == 1 ? offset : (offset + sequence_.each - 1) / sequence_.each;
  }

  // The sequence that page `first` belongs to.
  __device__ __forceinline__ void find(const AttentionParams& p, int first) {
    if (p.sequence_count == 1) {
      index_ = 0;
      sequence_ = split_sequence(p, columns_, 0);
      return;
    }
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    for (int begin = 0; begin < p.sequence_count; begin += kWarp) {
      if (p.sequence_count > kWarp) pages_ = step_pages(p, columns_, begin + lane);
      int through = pages_;
#pragma unroll
      for (int step = 1; step < kWarp; step *= 2) {
        const int other = __shfl_up_sync(kAllLanes, through, step);
        if (lane >= step) through += other;
      }
      const unsigned beyond = __ballot_sync(kAllLanes, base_ + through > first);
      if (beyond == 0) {
        base_ += __shfl_sync(kAllLanes, through, kWarp - 1);
        continue;
      }
      const int owner = __ffs(static_cast<int>(beyond)) - 1;
      index_ = begin + owner;
      base_ += __shfl_sync(kAllLanes, through - pages_, owner);
      break;
    }
    sequence_ = split_sequence(p, columns_, index_);
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
    u.exists = 1;
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
  int pages_ = 0;        // of lane's sequence, where there are no more than lanes
  int total_ = 0;        // pages of all shares
  int first_pages_ = 0;  // of a block's own share
  int shares_ = 0;
  int share_ = 0, next_share_ = 0;  // next: the first lane's
  SplitSequence sequence_{};
  int index_ = 0;  // of the sequence
  int chunk_ = 0, split_ = 0;
  int base_ = 0;   // pages before this sequence
  int limit_ = 0;  // where the share ends
};

}  // namespace minfer::cuda::attention
