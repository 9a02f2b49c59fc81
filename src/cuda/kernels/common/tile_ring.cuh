// A ring of tiles in shared memory between one warp that fills it from global memory and the warps that use it.
// From 9.0 on a tile is one bulk copy, which one thread starts and the copy engine ends; before, the warp's 32 threads
// copy 16 bytes at a time. Tiles are multiples of 16 bytes at such addresses. The filling warp must not need the users'
// threads for anything but their releases: it runs ahead of them, beyond the wait for the kernel before (weights only).
#pragma once

#include <cstddef>
#include <cstdint>

namespace minfer::cuda {

inline constexpr int kMaxRingStages = 16;

struct RingBarriers {
  uint64_t full[kMaxRingStages];
  uint64_t empty[kMaxRingStages];
};

__device__ __forceinline__ uint32_t shared_address(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}

// The place in a ring, for either side.
struct RingPlace {
  int stage = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void advance(int stages) {
    if (++stage == stages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// By one thread, before a __syncthreads().
__device__ __forceinline__ void init_ring(RingBarriers& barriers, int stages, int users) {
#if __CUDA_ARCH__ >= 900
  constexpr int kFillers = 1;
#else
  constexpr int kFillers = 32;
#endif
  for (int s = 0; s < stages; ++s) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(&barriers.full[s])), "r"(kFillers));
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(&barriers.empty[s])), "r"(users));
  }
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

__device__ __forceinline__ void wait_barrier(uint64_t& barrier, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n.reg .pred done;\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra WAIT;\n}" ::"r"(
          shared_address(&barrier)),
      "r"(parity)
      : "memory");
#else
  asm volatile(
      "{\n.reg .pred done;\nWAIT:\nmbarrier.test_wait.parity.shared.b64 done, [%0], %1;\n@!done bra WAIT;\n}" ::"r"(
          shared_address(&barrier)),
      "r"(parity)
      : "memory");
#endif
}

// By one thread of each using warp, after __syncwarp().
__device__ __forceinline__ void release_tile(uint64_t& empty) {
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared.b64 state, [%0];\n}" ::"r"(shared_address(&empty))
               : "memory");
}

// Bytes that one thread copies in the background, 8 or 16; zeros where there is no source.
template <int kBytes>
__device__ __forceinline__ void copy_behind(std::byte* to, const std::byte* from, bool there) {
  const int bytes = there ? kBytes : 0;
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(to)), "l"(from), "n"(kBytes),
                 "r"(bytes)
                 : "memory");
  }
}

// By all threads of the filling warp.
__device__ __forceinline__ void fill_tile(std::byte* tile, const std::byte* source, int bytes, uint64_t& full) {
#if __CUDA_ARCH__ >= 900
  if (threadIdx.x % 32 == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&full)), "r"(bytes)
                 : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(tile)),
                 "l"(source), "r"(bytes), "r"(shared_address(&full))
                 : "memory");
  }
#else
  for (int at = static_cast<int>(threadIdx.x % 32) * 16; at < bytes; at += 32 * 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(tile + at)), "l"(source + at)
                 : "memory");
  }
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(&full)) : "memory");
#endif
}

}  // namespace minfer::cuda
