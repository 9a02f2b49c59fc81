// Linear kernels against the machine's limits: for each instruction set and type, decode (one column, weights larger
// than the caches) as a fraction of the read bandwidth measured on the same memory in the same seconds, and prefill
// (256 columns) as a fraction of the instruction set's 8-bit dot rate (launch/limits.hpp; vpdpbusd, or for AVX2 maddubs
// summed in 16 bits by fours). Plain types count against the better of fp32 FMA and the bf16 dot. With `rows`: a few
// streams that decode together, 1 ... 32 rows of activations and weights larger than the caches; the ratio is the gain
// in rows a second over one row. Usage: linear_bench [ISA|all] [TYPE|all] [THREADS] [rows].
#include <immintrin.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/error.hpp"
#include "base/thread_pool.hpp"
#include "cpu/launch/limits.hpp"
#include "cpu/launch/linear.hpp"
#include "cpu/launch/linear_test_data.hpp"
#include "cpu/runtime/memory.hpp"

namespace minfer::cpu {
namespace {

using testing::kLinearTypes;
using testing::LinearType;

constexpr int64_t kDecodeBytes = 96 << 20;
constexpr int64_t kDecodeK = 2048;
constexpr int64_t kPrefillRows = 256;

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The best of some runs of body() on all threads of the pool.
template <class Body>
double best_time(ThreadPool& pool, int runs, Body body) {
  double best = 1e9;
  for (int i = 0; i < runs; ++i) {
    const double start = seconds();
    pool.run(body);
    best = std::min(best, seconds() - start);
  }
  return best;
}

[[gnu::target("avx2")]] int64_t read_all(const std::byte* p, int64_t bytes, int64_t streams) {
  const int64_t segment = bytes / streams / 128 * 128;
  __m256i sums[4] = {};
  for (int64_t at = 0; at < segment; at += 128) {
    for (int64_t s = 0; s < streams; ++s) {
      const auto* line = reinterpret_cast<const __m256i*>(p + s * segment + at);
      for (int i = 0; i < 4; ++i) sums[i] = _mm256_add_epi64(sums[i], _mm256_load_si256(line + i));
    }
  }
  const __m256i sum = _mm256_add_epi64(_mm256_add_epi64(sums[0], sums[1]), _mm256_add_epi64(sums[2], sums[3]));
  return _mm256_extract_epi64(sum, 0);
}

volatile int64_t sink;

double read_bandwidth(ThreadPool& pool, const HugeBuffer& memory) {
  double best = 0;
  for (const int64_t streams : {1, 4, 8}) {
    const int64_t bytes = static_cast<int64_t>(memory.size_bytes()) / pool.threads() / 4096 * 4096;
    const double time = best_time(
        pool, 5, [&](Worker& worker) { sink = read_all(memory.data() + worker.index() * bytes, bytes, streams); });
    best = std::max(best, static_cast<double>(bytes * pool.threads()) / time);
  }
  return best;
}

// Each thread on a processor of its own, so that two never share one.
void pin(ThreadPool& pool) {
  pool.run([](Worker& worker) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<size_t>(worker.index()), &set);
    sched_setaffinity(0, sizeof(set), &set);
  });
}

// Random panels, repeated to fill `rows`.
void fill(const LinearType& type, Layout layout, int64_t rows, int64_t k, std::byte* out) {
  std::mt19937 random(1);
  const std::vector<std::byte> source = testing::random_rows(type, 64, k, random);
  const auto bytes = static_cast<int64_t>(source.size());
  pack_panels(type.dtype, layout, 64, k, source.data(), out);
  for (int64_t row = 64; row < rows; row += 64) std::copy_n(out, bytes, out + row / 64 * bytes);
}

struct Inputs {
  std::vector<float> f32;
  testing::Q8Rows q8;
  ActivationRows rows(int64_t count, int64_t k) const { return {count, f32.data(), k, q8.data}; }
};

Inputs make_inputs(int64_t rows, int64_t k) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  Inputs inputs;
  inputs.f32.resize(static_cast<size_t>(rows * k));
  for (float& value : inputs.f32) value = normal(random);
  inputs.q8 = testing::quantize_rows(inputs.f32, k);
  return inputs;
}

double time_linear(Isa isa, ThreadPool& pool, const ActivationRows& x, const LinearWeight& weight, int runs) {
  const HugeBuffer out(static_cast<size_t>(x.rows * weight.rows) * sizeof(float), "benchmark outputs");
  const LinearTask task{weight, nullptr, nullptr, reinterpret_cast<float*>(out.data()), weight.rows};
  return best_time(pool, runs, [&](Worker& worker) { launch_linear(isa, worker, x, {&task, 1}); });
}

void bench_type(Isa isa, const LinearType& type, const HugeBuffer& memory, std::span<ThreadPool*> pools,
                const graph::DeviceLimits& limits) {
  const Layout layout = *linear_layout(isa, type.dtype);
  std::printf("%-7s %-7s", std::string(isa_name(isa)).c_str(),
              std::string(tensor::dtype_info(type.dtype).name).c_str());
  const int64_t rows = kDecodeBytes / tensor::row_bytes(type.dtype, kDecodeK) / 64 * 64;
  fill(type, layout, rows, kDecodeK, memory.data());
  const Inputs one = make_inputs(1, kDecodeK);
  for (ThreadPool* pool : pools) {
    const double bandwidth = read_bandwidth(*pool, memory);
    const double time =
        time_linear(isa, *pool, one.rows(1, kDecodeK), {type.dtype, layout, rows, kDecodeK, memory.data()}, 7);
    const double rate = static_cast<double>(rows * tensor::row_bytes(type.dtype, kDecodeK)) / time;
    std::printf("  decode %dt %5.1f GB/s %3.0f%%", pool->threads(), rate / 1e9, 100 * rate / bandwidth);
  }
  const double limit = linear_reads_q8(isa, type.dtype) ? limits.dot8_ops_per_second : limits.float_ops_per_second;
  for (const auto& [n, k] : {std::pair<int64_t, int64_t>{1024, 3072}, {3072, 1024}}) {
    fill(type, layout, n, k, memory.data());
    const Inputs x = make_inputs(kPrefillRows, k);
    const double time =
        time_linear(isa, *pools.back(), x.rows(kPrefillRows, k), {type.dtype, layout, n, k, memory.data()}, 7);
    const double rate = 2.0 * static_cast<double>(n * k * kPrefillRows) / time;
    std::printf("  prefill %ldx%ld %4.0f GOPS %3.0f%%", static_cast<long>(n), static_cast<long>(k), rate / 1e9,
                100 * rate / limit);
  }
  // Packing, one thread.
  const std::vector<std::byte> source(static_cast<size_t>(1024 * tensor::row_bytes(type.dtype, kDecodeK)));
  const double time = best_time(*pools.front(), 3, [&](Worker&) {
    pack_panels(type.dtype, layout, 1024, kDecodeK, source.data(), memory.data());
  });
  std::printf("  pack %.2f GB/s\n", static_cast<double>(source.size()) / time / 1e9);
  std::fflush(stdout);
}

constexpr int64_t kBatchRows[] = {1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32};
constexpr int kBatchRounds = 7;
constexpr std::pair<int64_t, int64_t> kBatchShapes[] = {{896, 4864}, {1024, 3072}, {151936, 896}};

// The best time of a product with each of kBatchRows. Equal matrices follow each other to fill the memory; a round
// takes all row counts, so that a disturbance hits few of its runs.
void bench_rows(Isa isa, const LinearType& type, int64_t n, int64_t shape_k, ThreadPool& pool) {
  const int64_t block = tensor::dtype_info(type.dtype).block_elements;
  const int64_t k = (shape_k + block - 1) / block * block;  // 896 is no multiple of 256
  const Layout layout = *linear_layout(isa, type.dtype);
  const int64_t bytes = panel_matrix_bytes(type.dtype, layout, n, k);
  const int64_t copies = (kDecodeBytes + bytes - 1) / bytes;
  const HugeBuffer memory(static_cast<size_t>(copies * bytes), "benchmark weights");
  fill(type, layout, copies * n, k, memory.data());
  const int64_t most = kBatchRows[std::size(kBatchRows) - 1];
  const Inputs inputs = make_inputs(most, k);
  const HugeBuffer out(static_cast<size_t>(most * n) * sizeof(float), "benchmark outputs");
  double best[std::size(kBatchRows)];
  std::fill(std::begin(best), std::end(best), 1e9);
  for (int round = 0; round < kBatchRounds; ++round) {
    for (size_t i = 0; i < std::size(kBatchRows); ++i) {
      const double time = best_time(pool, 1, [&](Worker& worker) {
        for (int64_t copy = 0; copy < copies; ++copy) {
          const LinearTask task{{type.dtype, layout, n, k, memory.data() + copy * bytes},
                                nullptr,
                                nullptr,
                                reinterpret_cast<float*>(out.data()),
                                n};
          launch_linear(isa, worker, inputs.rows(kBatchRows[i], k), {&task, 1});
        }
      });
      best[i] = std::min(best[i], time / static_cast<double>(copies));
    }
  }
  std::printf("%s %s %ldx%ld, %d threads\n", std::string(isa_name(isa)).c_str(),
              std::string(tensor::dtype_info(type.dtype).name).c_str(), static_cast<long>(n), static_cast<long>(k),
              pool.threads());
  for (size_t i = 0; i < std::size(kBatchRows); ++i) {
    const auto rows = static_cast<double>(kBatchRows[i]);
    std::printf("  %2.0f rows %8.0f us %5.1f GB/s %5.0f GOPS  ratio %5.2f\n", rows, best[i] * 1e6,
                static_cast<double>(bytes) / best[i] / 1e9, 2e-9 * static_cast<double>(n * k) * rows / best[i],
                rows * best[0] / best[i]);
  }
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  const std::string isa_wanted = argc > 1 ? argv[1] : "all";
  const std::string type_wanted = argc > 2 ? argv[2] : "all";
  ThreadPool single(1);
  ThreadPool several(argc > 3 ? std::stoi(argv[3]) : 2);
  ThreadPool* pools[] = {&single, &several};
  pin(several);
  const HugeBuffer memory(static_cast<size_t>(kDecodeBytes), "benchmark weights");
  for (const Isa isa : {Isa::amx, Isa::avx512, Isa::avxvnni, Isa::avx2}) {
    if (!isa_available(isa) || (isa_wanted != "all" && isa_wanted != isa_name(isa))) continue;
    if (argc > 4) {
      for (const LinearType& type : kLinearTypes) {
        if (type_wanted != "all" && type_wanted != tensor::dtype_info(type.dtype).name) continue;
        for (const auto& [n, k] : kBatchShapes) bench_rows(isa, type, n, k, several);
      }
      continue;
    }
    const graph::DeviceLimits limits = measure_limits(isa, several);
    std::printf("%s, %d threads: 8-bit dots %.0f GOPS, float multiply-adds %.0f GFLOP/s\n",
                std::string(isa_name(isa)).c_str(), several.threads(), limits.dot8_ops_per_second / 1e9,
                limits.float_ops_per_second / 1e9);
    for (const LinearType& type : kLinearTypes) {
      if (type_wanted != "all" && type_wanted != tensor::dtype_info(type.dtype).name) continue;
      bench_type(isa, type, memory, pools, limits);
    }
  }
  return 0;
}

}  // namespace
}  // namespace minfer::cpu

int main(int argc, char** argv) {
  try {
    return minfer::cpu::run(argc, argv);
  } catch (const minfer::Error& error) {
    std::fprintf(stderr, "linear_bench: %s\n", error.what());
    return 1;
  }
}
