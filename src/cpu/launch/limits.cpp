// Timing of the limit kernels. See limits.hpp.
#include "cpu/launch/limits.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include "base/error.hpp"
#include "cpu/runtime/memory.hpp"

namespace minfer::cpu {
namespace {

constexpr int64_t kReadBytesAThread = int64_t{192} << 20;
constexpr int kReadRuns = 4;
constexpr int64_t kArithmeticRounds = 4'000'000;
constexpr int kArithmeticRuns = 3;

const LimitKernels& limit_kernels(Isa isa) {
  switch (isa) {
    case Isa::scalar:
      return scalar::kLimitKernels;
#if defined(__x86_64__)
    case Isa::avx2:
      return avx2::kLimitKernels;
    case Isa::avx512:
      return avx512::kLimitKernels;
#else
    case Isa::avx2:
    case Isa::avx512:
      break;
#endif
  }
  fail(ErrorCode::internal, "internal error: limits of an instruction set that this build lacks");
}

// Seconds that all threads take for `work(thread)`.
double timed(ThreadPool& pool, FunctionRef<int64_t(int thread)> work) {
  std::atomic<int64_t> sink = 0;
  const auto start = std::chrono::steady_clock::now();
  pool.run([&](Worker& worker) { sink += work(worker.index()); });
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double measure_read(const LimitKernels& kernels, ThreadPool& pool) {
  const int64_t total = kReadBytesAThread * pool.threads();
  const HugeBuffer buffer(static_cast<size_t>(total), "the bandwidth measurement");
  pool.run([&](Worker& worker) {  // each thread's part is first touched by it
    std::memset(buffer.data() + worker.index() * kReadBytesAThread, 1, static_cast<size_t>(kReadBytesAThread));
  });
  double best = 0;
  for (const int streams : {1, 4, 8}) {
    for (int run = 0; run < kReadRuns; ++run) {
      const double seconds = timed(pool, [&](int thread) {
        return kernels.read(buffer.data() + thread * kReadBytesAThread, kReadBytesAThread, streams);
      });
      best = std::max(best, static_cast<double>(total) / seconds);
    }
  }
  return best;
}

double measure_rate(ThreadPool& pool, int64_t (*kernel)(int64_t) noexcept, int64_t ops_a_round) {
  double best = 0;
  for (int run = 0; run < kArithmeticRuns; ++run) {
    const double seconds = timed(pool, [&](int) { return kernel(kArithmeticRounds); });
    const double ops = static_cast<double>(ops_a_round) * static_cast<double>(kArithmeticRounds) * pool.threads();
    best = std::max(best, ops / seconds);
  }
  return best;
}

}  // namespace

graph::DeviceLimits measure_limits(Isa isa, ThreadPool& pool) {
  const LimitKernels& kernels = limit_kernels(isa);
  return {measure_read(kernels, pool), measure_rate(pool, kernels.dot8, kernels.dot8_ops_a_round),
          measure_rate(pool, kernels.multiply_add, kernels.multiply_add_ops_a_round)};
}

}  // namespace minfer::cpu
