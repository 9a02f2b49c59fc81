// What a block does together: sums, scans, a stable radix sort. All orders are fixed by the number of
// elements, so that results are reproducible. Every function is called by the whole block and ends behind a barrier.
#pragma once

#include <cstdint>

namespace minfer::cuda::sampling {

inline constexpr int kThreads = 512;
inline constexpr int kWarps = kThreads / 32;
inline constexpr int kDigits = 256;
inline constexpr int kSortItems = 8;  // keys a thread moves at a time
inline constexpr uint32_t kAll = 0xFFFFFFFFU;

template <class T>
__device__ __forceinline__ T warp_sum(T value) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(kAll, value, step);
  return value;
}

// The sum of the lanes up to this one.
template <class T>
__device__ __forceinline__ T warp_scan(T value) {
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const T other = __shfl_up_sync(kAll, value, step);
    if (threadIdx.x % 32 >= static_cast<uint32_t>(step)) value += other;
  }
  return value;
}

// What the warp of this lane's number has left.
template <class T>
__device__ __forceinline__ T of_warps(const T* partial) {
  return threadIdx.x % 32 < static_cast<uint32_t>(kWarps) ? partial[threadIdx.x % 32] : T{0};
}

// The sum over the block, in every thread.
template <class T>
__device__ __forceinline__ T block_sum(T value, T* partial) {
  value = warp_sum(value);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  const T total = warp_sum(of_warps(partial));
  __syncthreads();
  return total;
}

// The sum of the threads up to this one, and of all.
template <class T>
__device__ __forceinline__ T block_scan(T value, T* partial, T& total) {
  value = warp_scan(value);
  if (threadIdx.x % 32 == 31) partial[threadIdx.x / 32] = value;
  __syncthreads();
  const T warps = warp_scan(of_warps(partial));
  total = __shfl_sync(kAll, warps, 31);
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const T before = __shfl_sync(kAll, warps, warp == 0 ? 0 : warp - 1);
  __syncthreads();
  return warp == 0 ? value : before + value;
}

inline constexpr int kPasses = 4;  // of the sort, over 32 bits
inline constexpr int kSortTile = kThreads * kSortItems;
static_assert(kThreads >= kDigits);

struct SortShared {
  uint64_t keys[kSortTile];          // of a tile, by digit: runs of a digit are written together
  uint32_t counts[kWarps][kDigits];  // of a tile; then where a warp's keys of a digit go within it
  uint32_t totals[kPasses][kDigits];
  uint32_t next[kDigits];   // where the next key of a digit goes
  uint32_t shift[kDigits];  // from a key's place in the tile to its place
  uint32_t partial[kWarps];
};

__device__ __forceinline__ uint32_t digit_of(uint64_t key, int pass) {
  return static_cast<uint32_t>(key >> (32 + 8 * pass)) & (kDigits - 1);
}

// How many keys each digit of each pass has.
__device__ inline void count_digits(const uint64_t* keys, int32_t count, SortShared& shared) {
  for (int i = static_cast<int>(threadIdx.x); i < kPasses * kDigits; i += kThreads) shared.totals[0][i] = 0;
  __syncthreads();
  for (int32_t base = static_cast<int32_t>(threadIdx.x); base < count; base += kSortTile) {
    uint64_t key[kSortItems];
#pragma unroll
    for (int i = 0; i < kSortItems; ++i) {
      if (base + i * kThreads < count) key[i] = keys[base + i * kThreads];
    }
#pragma unroll
    for (int i = 0; i < kSortItems; ++i) {
      if (base + i * kThreads >= count) break;
      for (int pass = 0; pass < kPasses; ++pass) atomicAdd(&shared.totals[pass][digit_of(key[i], pass)], 1U);
    }
  }
  __syncthreads();
}

// Turns the warps' counts of a tile into places. Some threads share a digit, each for a part of the warps.
__device__ __forceinline__ void place_digits(SortShared& shared) {
  constexpr int kSharers = kThreads / kDigits;
  constexpr int kPart = kWarps / kSharers;
  const uint32_t digit = threadIdx.x / kSharers;
  const uint32_t part = threadIdx.x % kSharers;
  uint32_t counts[kPart];
  uint32_t sum = 0;
#pragma unroll
  for (int i = 0; i < kPart; ++i) {
    counts[i] = shared.counts[part * kPart + i][digit];
    sum += counts[i];
  }
  // Threads are in order of digits, and a digit's in order of warps.
  uint32_t total = 0;
  uint32_t place = block_scan(sum, shared.partial, total) - sum;
  const uint32_t start = __shfl_sync(kAll, place, static_cast<int>(threadIdx.x % 32 - part));
  const uint32_t next = shared.next[digit];
  __syncwarp();
  if (part == 0) shared.shift[digit] = next - start;
#pragma unroll
  for (int i = 0; i < kPart; ++i) {
    shared.counts[part * kPart + i][digit] = place;
    place += counts[i];
  }
  if (part == kSharers - 1) shared.next[digit] = next + (place - start);
}

// Each of the warp's keys' place among those of its digit in the warp, which are counted.
__device__ __forceinline__ void rank_in_warp(const uint64_t (&key)[kSortItems], uint32_t (&rank)[kSortItems],
                                             int32_t begin, int32_t count, int pass, uint32_t* counts) {
  const uint32_t lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < kSortItems; ++i) {
    const bool valid = begin + i * 32 < count;
    const uint32_t digit = valid ? digit_of(key[i], pass) : kDigits;
    const uint32_t peers = __match_any_sync(kAll, digit);
    const uint32_t before = __popc(peers & ((1U << lane) - 1));
    const uint32_t counted = valid ? counts[digit] : 0;
    __syncwarp();
    if (valid && before == 0) counts[digit] = counted + __popc(peers);
    __syncwarp();
    rank[i] = counted + before;
  }
}

// One pass: keys to `out` in order of one digit, keeping the order of equal ones.
__device__ inline void sort_by_digit(const uint64_t* keys, uint64_t* out, int32_t count, int pass, SortShared& shared) {
  const uint32_t own = threadIdx.x < kDigits ? shared.totals[pass][threadIdx.x] : 0;
  uint32_t total = 0;
  const uint32_t through = block_scan(own, shared.partial, total);
  if (threadIdx.x < kDigits) shared.next[threadIdx.x] = through - own;
  const auto warp = static_cast<int32_t>(threadIdx.x / 32);
  const auto lane = static_cast<int32_t>(threadIdx.x % 32);
  uint32_t* counts = shared.counts[warp];
  for (int32_t tile = 0; tile < count; tile += kSortTile) {
    for (int i = lane; i < kDigits; i += 32) counts[i] = 0;
    __syncwarp();
    uint64_t key[kSortItems];
    uint32_t rank[kSortItems];
    const int32_t begin = tile + warp * 32 * kSortItems + lane;
#pragma unroll
    for (int i = 0; i < kSortItems; ++i) {
      if (begin + i * 32 < count) key[i] = keys[begin + i * 32];
    }
    rank_in_warp(key, rank, begin, count, pass, counts);
    __syncthreads();
    place_digits(shared);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kSortItems; ++i) {
      if (begin + i * 32 < count) shared.keys[counts[digit_of(key[i], pass)] + rank[i]] = key[i];
    }
    __syncthreads();
    const auto in_tile = static_cast<uint32_t>(min(kSortTile, count - tile));
    for (uint32_t at = threadIdx.x; at < in_tile; at += kThreads) {
      const uint64_t moved = shared.keys[at];
      out[shared.shift[digit_of(moved, pass)] + at] = moved;
    }
    __syncthreads();
  }
}

// Sorts by the upper 32 bits, keeping the order of equal ones. `other` is working space of the same size.
__device__ inline void sort_keys(uint64_t* keys, uint64_t* other, int32_t count, SortShared& shared) {
  count_digits(keys, count, shared);
  for (int pass = 0; pass < kPasses; pass += 2) {
    sort_by_digit(keys, other, count, pass, shared);
    sort_by_digit(other, keys, count, pass + 1, shared);
  }
}

}  // namespace minfer::cuda::sampling
