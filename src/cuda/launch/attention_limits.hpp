// Limits of the attention kernels, shared by their predicates and their sources. Apart so that both the host's files
// and kernel sources can include them.
#pragma once

#include <cstdint>

namespace minfer::cuda::attention {

// Elements of a key or value head, for any kernel.
inline constexpr int64_t kMaxHeadSize = 512;
// Query heads of one KV head, for any kernel.
inline constexpr int64_t kMaxGroup = 64;
// Rows of all sequences that the split kernel is given scratch for; beside many sequences only single rows are split.
inline constexpr int64_t kSplitRows = 64;
// Columns (pairs of a row and a query head of one KV head) that a block of the split kernel takes, by variant.
inline constexpr int64_t kNarrowColumns = 8;
inline constexpr int64_t kWideColumns = 16;
// Larger heads leave fewer registers for rows.
inline constexpr int64_t kWideHeadSize = 128;
// Rows of queries in a block of the tile kernel; heads of a group are rows here.
inline constexpr int64_t kTileRows = 128;
inline constexpr int64_t kLargeHeadTileRows = 64;
// Splits of a sequence and KV head.
inline constexpr int64_t kMaxSplits = 64;
// Blocks that one long sequence is split into, over all KV heads: about one a multiprocessor of a large card. A
// constant, so that results are the same on all cards.
inline constexpr int64_t kSplitBlocks = 128;
// Steps of at most so many sequences take one block a multiprocessor, others as many as it holds.
inline constexpr int64_t kFewSequences = 16;
// Up to so many pages a sequence is not split, then by two, and beyond by four: smaller splits would cost more to merge
// than they gain.
inline constexpr int kWholePages = 4;
inline constexpr int kDoublePages = 32;

// Pages of one split of a sequence that sees `pages` pages, in at most `limit` splits.
constexpr int split_pages(int pages, int limit) {
  if (pages <= kWholePages) return pages;
  const int least = pages > kDoublePages ? 4 : 2;
  return pages <= least * limit ? least : (pages + limit - 1) / limit;
}
// The most splits that a sequence of up to `pages` pages has: shorter ones can have more than the longest.
constexpr int most_splits(int pages, int limit) {
  if (pages <= kWholePages) return 1;
  const int doubles = ((pages < kDoublePages ? pages : kDoublePages) + 1) / 2;
  const int most = (pages + 3) / 4;
  const int splits = most > doubles ? most : doubles;
  return splits < limit ? splits : limit;
}

// A split's partial result in scratch: [columns][head size], then {maximum, sum}[columns]; 16-byte aligned.
constexpr int partial_floats(int columns, int head_size) {
  return (columns * (head_size + 2) + 3) / 4 * 4;
}

// Counters of finished splits at the start of attention's scratch: one a sequence, KV head and chunk of columns.
inline constexpr int64_t kSplitCounters = 65536;
// Sequences of a step, for the tile kernel's search.
inline constexpr int64_t kMaxSequences = 4096;

}  // namespace minfer::cuda::attention
