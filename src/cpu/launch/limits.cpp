// Timing of the limit kernels. See limits.hpp.
#include "cpu/launch/limits.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "base/error.hpp"
#include "cpu/runtime/memory.hpp"

namespace minfer::cpu {
namespace {

constexpr int64_t kLeastBytesAThread = int64_t{16} << 20;
constexpr int64_t kUnknownBytesAThread = int64_t{192} << 20;  // where the caches are not known
constexpr int64_t kCaches = 4;                                // what is read is so much larger than they are
constexpr int64_t kReadUnit = 4096;
constexpr int kReadRuns = 12;
constexpr int64_t kArithmeticRounds = 4'000'000;
constexpr int kArithmeticRuns = 3;

LimitKernels limit_kernels(Isa isa) {
  switch (isa) {
    case Isa::scalar:
      return scalar::kLimitKernels;
#if defined(__x86_64__)
    case Isa::avx2:
      return avx2::kLimitKernels;
    case Isa::avxvnni:
      return avxvnni::limit_kernels();
    case Isa::avx512:
      return avx512::kLimitKernels;
    case Isa::amx:
      return amx::limit_kernels();
#else
    case Isa::avx2:
    case Isa::avxvnni:
    case Isa::avx512:
    case Isa::amx:
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

// The last-level caches of all processors, by what Linux says; 0 where it says nothing.
int64_t cache_bytes() {
  namespace fs = std::filesystem;
  constexpr int kMostProcessors = 4096;
  std::set<std::string> seen;  // by who shares them
  int64_t bytes = 0;
  for (int cpu = 0; cpu < kMostProcessors; ++cpu) {
    const fs::path folder = fmt::format("/sys/devices/system/cpu/cpu{}", cpu);
    std::error_code error;
    if (!fs::exists(folder, error)) break;
    std::ifstream size(folder / "cache/index3/size"), shared(folder / "cache/index3/shared_cpu_list");
    int64_t kibibytes = 0;
    std::string sharers;
    if (size >> kibibytes && shared >> sharers && seen.insert(sharers).second) bytes += kibibytes * 1024;
  }
  return bytes;
}

int64_t read_bytes_a_thread(int threads) {
  const int64_t caches = cache_bytes();
  if (caches == 0) return kUnknownBytesAThread;
  const int64_t part = (kCaches * caches / threads + kReadUnit - 1) / kReadUnit * kReadUnit;
  return std::max(part, kLeastBytesAThread);
}

double measure_read(const LimitKernels& kernels, ThreadPool& pool) {
  const int64_t part = read_bytes_a_thread(pool.threads());
  const int64_t total = part * pool.threads();
  const HugeBuffer buffer(static_cast<size_t>(total), "the bandwidth measurement");
  pool.run([&](Worker& worker) {  // each thread's part is first touched by it
    std::memset(buffer.data() + worker.index() * part, 1, static_cast<size_t>(part));
  });
  double best = 0;
  for (const int streams : {1, 4, 8}) {
    for (int run = 0; run < kReadRuns; ++run) {
      const double seconds =
          timed(pool, [&](int thread) { return kernels.read(buffer.data() + thread * part, part, streams); });
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

int64_t measuring_bytes(int threads) {
  return read_bytes_a_thread(threads) * threads;
}

graph::DeviceLimits measure_limits(Isa isa, ThreadPool& pool) {
  const LimitKernels kernels = limit_kernels(isa);
  return {measure_read(kernels, pool), measure_rate(pool, kernels.dot8, kernels.dot8_ops_a_round),
          measure_rate(pool, kernels.multiply_add, kernels.multiply_add_ops_a_round)};
}

}  // namespace minfer::cpu
