// What a block does together: sums, scans, a stable radix sort. All orders are fixed by the number of
// elements, so that results are reproducible. Every function is called by the whole block and ends behind a barrier.
#pragma once

#include <cstdint>

namespace minfer::cuda::sampling {

inline constexpr int kThreads = 1024;
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

struct SortShared {
  uint32_t counts[kWarps][kDigits];
  uint32_t next[kDigits];  // where the next key of a digit goes
  uint32_t partial[kWarps];
};

// Where the keys of each digit begin.
__device__ inline void count_digits(const uint64_t* keys, int32_t count, int shift, SortShared& shared) {
  if (threadIdx.x < kDigits) shared.next[threadIdx.x] = 0;
  __syncthreads();
  for (int32_t at = static_cast<int32_t>(threadIdx.x); at < count; at += kThreads) {
    atomicAdd(&shared.next[keys[at] >> shift & (kDigits - 1)], 1U);
  }
  __syncthreads();
  const uint32_t own = threadIdx.x < kDigits ? shared.next[threadIdx.x] : 0;
  uint32_t total = 0;
  const uint32_t through = block_scan(own, shared.partial, total);
  if (threadIdx.x < kDigits) shared.next[threadIdx.x] = through - own;
  __syncthreads();
}

// Turns the warps' counts of a tile into where their keys go. Some threads share a digit, each for a part of the warps.
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
  uint32_t through = sum;
#pragma unroll
  for (int step = 1; step < kSharers; step *= 2) {
    const uint32_t other = __shfl_up_sync(kAll, through, step, kSharers);
    if (part >= static_cast<uint32_t>(step)) through += other;
  }
  const uint32_t begin = shared.next[digit];
  __syncwarp();
  if (part == kSharers - 1) shared.next[digit] = begin + through;
  uint32_t place = begin + through - sum;
#pragma unroll
  for (int i = 0; i < kPart; ++i) {
    shared.counts[part * kPart + i][digit] = place;
    place += counts[i];
  }
}

// One pass: keys to `out` in order of one digit, keeping the order of equal ones.
__device__ inline void sort_by_digit(const uint64_t* keys, uint64_t* out, int32_t count, int shift,
                                     SortShared& shared) {
  count_digits(keys, count, shift, shared);
  const auto warp = static_cast<int32_t>(threadIdx.x / 32);
  const auto lane = static_cast<int32_t>(threadIdx.x % 32);
  uint32_t* counts = shared.counts[warp];
  for (int32_t tile = 0; tile < count; tile += kThreads * kSortItems) {
    for (int i = lane; i < kDigits; i += 32) counts[i] = 0;
    __syncwarp();
    uint64_t key[kSortItems];
    uint32_t rank[kSortItems];
    const int32_t begin = tile + warp * 32 * kSortItems + lane;
#pragma unroll
    for (int i = 0; i < kSortItems; ++i) {
      if (begin + i * 32 < count) key[i] = keys[begin + i * 32];
    }
#pragma unroll
    for (int i = 0; i < kSortItems; ++i) {
      const bool valid = begin + i * 32 < count;
      const uint32_t digit = valid ? static_cast<uint32_t>(key[i] >> shift) & (kDigits - 1) : kDigits;
      const uint32_t peers = __match_any_sync(kAll, digit);
      const uint32_t before = __popc(peers & ((1U << lane) - 1));
      const uint32_t counted = valid ? counts[digit] : 0;
      __syncwarp();
      if (valid && before == 0) counts[digit] = counted + __popc(peers);
      __syncwarp();
      rank[i] = counted + before;
    }
    __syncthreads();
    place_digits(shared);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kSortItems; ++i) {
      if (begin + i * 32 < count) {
        out[counts[static_cast<uint32_t>(key[i] >> shift) & (kDigits - 1)] + rank[i]] = key[i];
      }
    }
    __syncwarp();
  }
  __syncthreads();
}

// Sorts by the upper 32 bits, keeping the order of equal ones. `other` is working space of the same size.
__device__ inline void sort_keys(uint64_t* keys, uint64_t* other, int32_t count, SortShared& shared) {
  for (int shift = 32; shift < 64; shift += 16) {
    sort_by_digit(keys, other, count, shift, shared);
    sort_by_digit(other, keys, count, shift + 8, shared);
  }
}

}  // namespace minfer::cuda::sampling
