// What this machine can do at most with an instruction set and a pool of threads: read bandwidth over memory larger
// than the caches (best of one, four and eight address streams a thread), 8-bit dots and float
// multiply-adds (the faster of f32 and bf16) in registers. Each is the best of several short runs. The kernels do
// nothing but that one thing; sources of other instruction sets beside.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/thread_pool.hpp"
#include "cpu/runtime/isa.hpp"
#include "graph/backend.hpp"

namespace minfer::cpu {

struct LimitKernels {
  // Reads `bytes` (a multiple of 4096) as `streams` (1, 4 or 8) interleaved parts; returns something of what it read.
  int64_t (*read)(const std::byte* data, int64_t bytes, int streams) noexcept;
  // `rounds` rounds of 8-bit dots / of multiply-adds in registers; the operations of a round are given beside.
  int64_t (*dot8)(int64_t rounds) noexcept;
  int64_t dot8_ops_a_round;
  int64_t (*multiply_add)(int64_t rounds) noexcept;
  int64_t multiply_add_ops_a_round;
};

namespace scalar {
extern const LimitKernels kLimitKernels;
}
namespace avx2 {
extern const LimitKernels kLimitKernels;
}
namespace avxvnni {
LimitKernels limit_kernels();
}
namespace avx512 {
extern const LimitKernels kLimitKernels;
}
namespace amx {
LimitKernels limit_kernels();
}

// The memory that measure_limits takes while it runs: four times the caches of the processors, and 16 MiB a thread at
// least; 192 MiB a thread where Linux doesn't say what caches there are.
int64_t measuring_bytes(int threads);
// Errors: out_of_memory where the buffer to read can't be had.
graph::DeviceLimits measure_limits(Isa isa, ThreadPool& pool);

}  // namespace minfer::cpu
