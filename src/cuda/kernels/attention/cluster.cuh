// Blocks of a cluster read one another's shared memory: barriers and loads. Cards before 9.0 have no clusters; there
// nothing here is reached.
#pragma once

#include <cstdint>

namespace minfer::cuda::attention {

// What the cluster's threads wrote before is seen by all of them behind it. Blocks that have ended don't count.
__device__ __forceinline__ void meet_cluster() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// The block `rank`'s counterpart of an address of one's own shared memory.
__device__ __forceinline__ uint32_t address_in_block(uint32_t own, int rank) {
  uint32_t remote = own;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(own), "r"(rank));
#endif
  return remote;
}

__device__ __forceinline__ float4 load_four(uint32_t remote) {
  float4 x = make_float4(0, 0, 0, 0);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
               : "r"(remote)
               : "memory");
#endif
  return x;
}
__device__ __forceinline__ float2 load_two(uint32_t remote) {
  float2 x = make_float2(0, 0);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];" : "=f"(x.x), "=f"(x.y) : "r"(remote) : "memory");
#endif
  return x;
}

}  // namespace minfer::cuda::attention
