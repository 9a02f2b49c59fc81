// The matrix products of a Hopper warpgroup (4 warps, 128 threads): 64x16 by 16x64 elements in 16 bits, read from
// shared memory by the tensor cores themselves (the left operand also from registers), accumulated in floats. They run
// beside the threads: begin, multiply, end; between begin and end nobody touches the accumulators.
//
// A warp has 16 of the 64 rows, and its accumulators and left operands lie in registers as those of mma.cuh do, 8
// columns a fragment. In shared memory a matrix lies in panels of 64 elements (128 bytes) by its rows, 1024-byte
// aligned, the 16-byte pieces of a row permuted by its number: piece ^ (row % 8). See the PTX manual, "Asynchronous
// warpgroup level matrix instructions". Only compute capability 9.0 (sm_90a) has them.
#pragma once

#include <cstdint>

#include "cuda/kernels/attention/mma.cuh"

namespace minfer::cuda::attention {

inline constexpr int kPanelBytes = 128;  // a row of a panel

// Where a row's 16-byte piece is in a matrix of `rows` rows.
__device__ __forceinline__ int panel_place(int rows, int row, int piece) {
  return (piece >> 3) * rows * kPanelBytes + row * kPanelBytes + ((piece ^ row) & 7) * 16;
}

// Names a matrix in shared memory: 8 rows are 1024 bytes, the permutation is that of 128 bytes.
__device__ __forceinline__ uint64_t panel_descriptor(uint32_t address) {
  constexpr uint64_t kEightRows = 1024 / 16;
  constexpr uint64_t kPermuted = uint64_t{1} << 62;
  return static_cast<uint64_t>((address & 0x3ffffU) >> 4) | uint64_t{1} << 16 | kEightRows << 32 | kPermuted;
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// Writes to shared memory by this thread become visible to the tensor cores (before the barrier that follows).
__device__ __forceinline__ void publish_to_tensor_cores() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Until at most kPending committed groups are under way.
template <int kPending>
__device__ __forceinline__ void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// The registers of this warpgroup's threads: fewer, or more once others have given theirs up.
template <int kRegisters>
__device__ __forceinline__ void lower_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void raise_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// Barriers in shared memory that threads arrive at and others wait for, phase by phase.
__device__ __forceinline__ void init_barrier(uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void arrive_barrier(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
// Until the phase of this parity is over.
__device__ __forceinline__ void wait_barrier(uint64_t* barrier, int parity) {
  uint32_t over = 0;
  while (over == 0) {
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.b32 %0, 1, 0, p;\n}"
                 : "=r"(over)
                 : "r"(shared_address(barrier)), "r"(parity)
                 : "memory");
  }
}

// Keeps the compiler from moving a use of the accumulator across begin or wait.
__device__ __forceinline__ void pin(float& x) {
  asm volatile("" : "+f"(x)::"memory");
}

// c (+)= A B: A's rows and B's columns are rows in shared memory. `add` 0: c is overwritten.
template <class Math>
__device__ __forceinline__ void multiply_shared(float (*c)[4], uint64_t a, uint64_t b, int add) {
  if constexpr (std::is_same_v<Math, Half>) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, p, 1, 1, 0, 0;\n}"
        : "+f"(c[0][0]), "+f"(c[0][1]), "+f"(c[0][2]), "+f"(c[0][3]), "+f"(c[1][0]), "+f"(c[1][1]), "+f"(c[1][2]),
          "+f"(c[1][3]), "+f"(c[2][0]), "+f"(c[2][1]), "+f"(c[2][2]), "+f"(c[2][3]), "+f"(c[3][0]), "+f"(c[3][1]),
          "+f"(c[3][2]), "+f"(c[3][3]), "+f"(c[4][0]), "+f"(c[4][1]), "+f"(c[4][2]), "+f"(c[4][3]), "+f"(c[5][0]),
          "+f"(c[5][1]), "+f"(c[5][2]), "+f"(c[5][3]), "+f"(c[6][0]), "+f"(c[6][1]), "+f"(c[6][2]), "+f"(c[6][3]),
          "+f"(c[7][0]), "+f"(c[7][1]), "+f"(c[7][2]), "+f"(c[7][3])
        : "l"(a), "l"(b), "r"(add));
  } else {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, p, 1, 1, 0, 0;\n}"
        : "+f"(c[0][0]), "+f"(c[0][1]), "+f"(c[0][2]), "+f"(c[0][3]), "+f"(c[1][0]), "+f"(c[1][1]), "+f"(c[1][2]),
          "+f"(c[1][3]), "+f"(c[2][0]), "+f"(c[2][1]), "+f"(c[2][2]), "+f"(c[2][3]), "+f"(c[3][0]), "+f"(c[3][1]),
          "+f"(c[3][2]), "+f"(c[3][3]), "+f"(c[4][0]), "+f"(c[4][1]), "+f"(c[4][2]), "+f"(c[4][3]), "+f"(c[5][0]),
          "+f"(c[5][1]), "+f"(c[5][2]), "+f"(c[5][3]), "+f"(c[6][0]), "+f"(c[6][1]), "+f"(c[6][2]), "+f"(c[6][3]),
          "+f"(c[7][0]), "+f"(c[7][1]), "+f"(c[7][2]), "+f"(c[7][3])
        : "l"(a), "l"(b), "r"(add));
  }
}

// c += A B: A in registers; B's rows are rows in shared memory.
template <class Math>
__device__ __forceinline__ void multiply_registers(float (*c)[4], const uint32_t (&a)[4], uint64_t b) {
  if constexpr (std::is_same_v<Math, Half>) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, p, 1, 1, 1;\n}"
        : "+f"(c[0][0]), "+f"(c[0][1]), "+f"(c[0][2]), "+f"(c[0][3]), "+f"(c[1][0]), "+f"(c[1][1]), "+f"(c[1][2]),
          "+f"(c[1][3]), "+f"(c[2][0]), "+f"(c[2][1]), "+f"(c[2][2]), "+f"(c[2][3]), "+f"(c[3][0]), "+f"(c[3][1]),
          "+f"(c[3][2]), "+f"(c[3][3]), "+f"(c[4][0]), "+f"(c[4][1]), "+f"(c[4][2]), "+f"(c[4][3]), "+f"(c[5][0]),
          "+f"(c[5][1]), "+f"(c[5][2]), "+f"(c[5][3]), "+f"(c[6][0]), "+f"(c[6][1]), "+f"(c[6][2]), "+f"(c[6][3]),
          "+f"(c[7][0]), "+f"(c[7][1]), "+f"(c[7][2]), "+f"(c[7][3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1));
  } else {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, p, 1, 1, 1;\n}"
        : "+f"(c[0][0]), "+f"(c[0][1]), "+f"(c[0][2]), "+f"(c[0][3]), "+f"(c[1][0]), "+f"(c[1][1]), "+f"(c[1][2]),
          "+f"(c[1][3]), "+f"(c[2][0]), "+f"(c[2][1]), "+f"(c[2][2]), "+f"(c[2][3]), "+f"(c[3][0]), "+f"(c[3][1]),
          "+f"(c[3][2]), "+f"(c[3][3]), "+f"(c[4][0]), "+f"(c[4][1]), "+f"(c[4][2]), "+f"(c[4][3]), "+f"(c[5][0]),
          "+f"(c[5][1]), "+f"(c[5][2]), "+f"(c[5][3]), "+f"(c[6][0]), "+f"(c[6][1]), "+f"(c[6][2]), "+f"(c[6][3]),
          "+f"(c[7][0]), "+f"(c[7][1]), "+f"(c[7][2]), "+f"(c[7][3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(1));
  }
}

#else

// Never launched on other architectures.
__device__ __forceinline__ void publish_to_tensor_cores() {}
__device__ __forceinline__ void begin_products() {}
__device__ __forceinline__ void commit_products() {}
template <int kPending>
__device__ __forceinline__ void wait_products() {}
template <int kRegisters>
__device__ __forceinline__ void lower_registers() {}
template <int kRegisters>
__device__ __forceinline__ void raise_registers() {}
__device__ __forceinline__ void init_barrier(uint64_t* /*barrier*/, int /*arrivals*/) {}
__device__ __forceinline__ void publish_barriers() {}
__device__ __forceinline__ void arrive_barrier(uint64_t* /*barrier*/) {}
__device__ __forceinline__ void wait_barrier(uint64_t* /*barrier*/, int /*parity*/) {}
__device__ __forceinline__ void pin(float& /*x*/) {}
template <class Math>
__device__ __forceinline__ void multiply_shared(float (* /*c*/)[4], uint64_t /*a*/, uint64_t /*b*/, int /*add*/) {
  __trap();
}
template <class Math>
__device__ __forceinline__ void multiply_registers(float (* /*c*/)[4], const uint32_t (& /*a*/)[4], uint64_t /*b*/) {
  __trap();
}

#endif

}  // namespace minfer::cuda::attention
