// How near CPU attention comes to this machine's limits, which it measures first with the same threads: decode (one
// query token a step, a cache of `depth` tokens) as GB/s of keys and values against the read bandwidth, prefill as
// GFLOP/s (4 * head size a query head and visible token) against fp32 multiply-adds. As many layers as make 256 MiB of
// cache, so that decode reads memory rather than cache, and pages in shuffled order. Best of several runs. Usage:
// attention_bench [threads] [isa]
#include <immintrin.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "cpu/launch/attention.hpp"
#include "cpu/launch/kv_append.hpp"
#include "cpu/runtime/isa.hpp"
#include "cpu/runtime/memory.hpp"
#include "graph/kv.hpp"

namespace minfer::cpu {
namespace {

constexpr int64_t kCacheBytes = int64_t{256} << 20;
constexpr int kRepetitions = 9;

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class Body>
double best_seconds(ThreadPool& pool, Body body) {
  double best = 1e9;
  for (int i = 0; i < kRepetitions; ++i) {
    const double start = seconds();
    pool.run([&](Worker& worker) { body(worker); });
    best = std::min(best, seconds() - start);
  }
  return best;
}

// GB/s: every thread sums its part of a buffer, from 8 addresses at once.
__attribute__((target("avx2"))) int64_t sum_streams(const std::byte* data, int64_t bytes) {
  constexpr int64_t kStreams = 8;
  const int64_t part = bytes / kStreams / 64 * 64;
  __m256i sums[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
  for (int64_t i = 0; i < part; i += 64) {
    for (int64_t s = 0; s < kStreams; ++s) {
      const auto* p = reinterpret_cast<const __m256i*>(data + s * part + i);
      sums[0] = _mm256_add_epi64(sums[0], _mm256_load_si256(p));
      sums[1] = _mm256_add_epi64(sums[1], _mm256_load_si256(p + 1));
    }
  }
  return _mm256_extract_epi64(_mm256_add_epi64(sums[0], sums[1]), 0);
}

double read_limit(ThreadPool& pool) {
  HugeBuffer buffer(kCacheBytes, "bandwidth test");
  std::memset(buffer.data(), 1, buffer.size_bytes());
  std::vector<int64_t> sums(pool.threads());
  const double time = best_seconds(pool, [&](Worker& worker) {
    const int64_t part = kCacheBytes / worker.count() / 64 * 64;
    sums[worker.index()] = sum_streams(buffer.data() + part * worker.index(), part);
  });
  return std::accumulate(sums.begin(), sums.end(), int64_t{0}) == 0 ? 0.0 : kCacheBytes / time / 1e9;
}

__attribute__((target("avx2,fma"))) float multiply_adds(int64_t count) {
  __m256 sums[12];
  for (auto& sum : sums) sum = _mm256_set1_ps(1.0F);
  __m256 a = _mm256_set1_ps(1.0001F);
  const __m256 b = _mm256_set1_ps(1e-6F);
  for (int64_t i = 0; i < count; ++i) {
    for (auto& sum : sums) sum = _mm256_fmadd_ps(sum, a, b);
    asm volatile("" : "+x"(a));
  }
  float total = 0.0F;
  for (const auto& sum : sums) total += _mm256_cvtss_f32(sum);
  return total;
}

double fma_limit(ThreadPool& pool) {
  constexpr int64_t kCount = 10'000'000;
  std::vector<float> sums(pool.threads());
  const double time = best_seconds(pool, [&](Worker& worker) { sums[worker.index()] = multiply_adds(kCount); });
  return pool.threads() * double{kCount} * 12 * 16 / time / 1e9;
}

struct Model {
  const char* name;
  int64_t heads;
  int64_t kv_heads;
  int64_t head_dim;
};

struct Limits {
  double gigabytes;
  double gigaflops;
};

void random_floats(std::vector<float>& values, int64_t size) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  values.resize(size);
  std::generate(values.begin(), values.end(), [&] { return uniform(random); });
}

// A cache of some layers with `depth` tokens, and the arguments for the last `rows` of them.
class Step {
 public:
  Step(Isa isa, ThreadPool& pool, const Model& model, KvFormat format, int64_t depth, int64_t rows, int64_t layers)
      : isa_(isa), pool_(pool), layers_(layers) {
    spec_.kv = {model.kv_heads, model.head_dim, model.head_dim, format, format};
    spec_.heads = model.heads;
    spec_.scale = 0.1F;
    const int64_t pages = (depth + 63) / 64;
    table_.resize(pages);
    std::iota(table_.begin(), table_.end(), 0);
    std::shuffle(table_.begin(), table_.end(), std::mt19937(1));
    const int64_t page_bytes = kv_k_page_bytes(spec_.kv);
    layer_bytes_ = 2 * pages * page_bytes;
    cache_ = HugeBuffer(layers * layer_bytes_, "KV pages");
    random_floats(q_, rows * model.heads * model.head_dim);
    out_.resize(q_.size());
    for (int64_t r = 0; r < rows; ++r) positions_.push_back(static_cast<int32_t>(depth - rows + r));
    row_sequence_.resize(rows);
    sequence_ = {table_.data(), depth};
    fill(depth, page_bytes);
    args_.spec = spec_;
    args_.rows = rows;
    args_.row_sequence = row_sequence_.data();
    args_.row_position = positions_.data();
    args_.sequences = &sequence_;
    args_.q = q_.data();
    args_.q_stride = model.heads * model.head_dim;
    args_.k_page_stride = page_bytes;
    args_.v_page_stride = page_bytes;
    args_.out = reinterpret_cast<std::byte*>(out_.data());
    args_.out_stride = args_.q_stride * 4;
    capacity_ = {rows, depth, pool.threads()};
    scratch_ = HugeBuffer(attention_scratch_bytes(spec_, capacity_), "scratch");
  }

  // One pass over all layers.
  double time() {
    return best_seconds(pool_, [&](Worker& worker) {
      AttentionArgs args = args_;
      for (int64_t layer = 0; layer < layers_; ++layer) {
        args.k_base = cache_.data() + layer * layer_bytes_;
        args.v_base = args.k_base + layer_bytes_ / 2;
        launch_attention(isa_, worker, args, capacity_, {scratch_.data(), scratch_.size_bytes()});
      }
    });
  }
  double append_time() {
    return best_seconds(pool_, [&](Worker& worker) {
      for (int64_t layer = 0; layer < layers_; ++layer) launch_kv_append(isa_, worker, append_args(layer));
    });
  }
  int64_t layer_bytes() const { return layer_bytes_; }

 private:
  KvAppendArgs append_args(int64_t layer) const {
    KvAppendArgs args;
    args.spec = spec_.kv;
    args.tokens = static_cast<int64_t>(slots_.size());
    args.slots = slots_.data();
    args.k = kv_.data();
    args.v = kv_.data();
    args.k_stride = args.v_stride = spec_.kv.kv_heads * spec_.kv.head_dim_k;
    args.k_base = cache_.data() + layer * layer_bytes_;
    args.v_base = args.k_base + layer_bytes_ / 2;
    args.k_page_stride = args.v_page_stride = kv_k_page_bytes(spec_.kv);
    return args;
  }
  void fill(int64_t depth, int64_t) {
    random_floats(kv_, depth * spec_.kv.kv_heads * spec_.kv.head_dim_k);
    for (int64_t p = 0; p < depth; ++p) slots_.push_back(table_[p / 64] * int64_t{64} + p % 64);
    pool_.run([&](Worker& worker) {
      for (int64_t layer = 0; layer < layers_; ++layer) launch_kv_append(isa_, worker, append_args(layer));
    });
  }

  Isa isa_;
  ThreadPool& pool_;
  int64_t layers_;
  AttentionSpec spec_;
  AttentionArgs args_;
  AttentionCapacity capacity_;
  AttentionSequence sequence_;
  int64_t layer_bytes_ = 0;
  std::vector<int32_t> table_;
  std::vector<int64_t> slots_;
  std::vector<int32_t> positions_;
  std::vector<int32_t> row_sequence_;
  std::vector<float> q_;
  std::vector<float> kv_;
  std::vector<float> out_;
  HugeBuffer cache_;
  HugeBuffer scratch_;
};

void bench_decode(Isa isa, ThreadPool& pool, const Limits& limits, const Model& model, KvFormat format, int64_t depth) {
  const int64_t layer_bytes = 2 * depth / kKvPageTokens * model.kv_heads * kv_head_bytes(format, model.head_dim);
  const int64_t layers = (kCacheBytes + layer_bytes - 1) / layer_bytes;
  Step step(isa, pool, model, format, depth, 1, layers);
  const double time = step.time();
  const double rate = static_cast<double>(layers * layer_bytes) / time / 1e9;
  std::printf("| decode@%ld | %s %s | %.1f us | %.1f GB/s | %.0f%% |\n", depth, model.name,
              graph::kv_format_name(format).data(), time / static_cast<double>(layers) * 1e6, rate,
              100 * rate / limits.gigabytes);
}

void bench_prefill(Isa isa, ThreadPool& pool, const Limits& limits, const Model& model, KvFormat format, int64_t depth,
                   int64_t rows) {
  const int64_t layers = 1;
  Step step(isa, pool, model, format, depth, rows, layers);
  const double time = step.time() / layers;
  double visible = 0.0;
  for (int64_t r = 0; r < rows; ++r) visible += static_cast<double>(depth - rows + r + 1);
  const double rate = 4.0 * visible * static_cast<double>(model.heads * model.head_dim) / time / 1e9;
  std::printf("| prefill %ld@%ld | %s %s | %.1f us | %.1f GFLOP/s | %.0f%% |\n", rows, depth - rows, model.name,
              graph::kv_format_name(format).data(), time * 1e6, rate, 100 * rate / limits.gigaflops);
  if (depth == rows) {
    std::printf("| append %ld | %s %s | %.1f us | %.1f GB/s written | |\n", rows, model.name,
                graph::kv_format_name(format).data(), step.append_time() / layers * 1e6,
                static_cast<double>(step.layer_bytes()) / (step.append_time() / layers) / 1e9);
  }
}

}  // namespace

int run_bench(int argc, char** argv) {
  const int threads = argc > 1 ? std::stoi(argv[1]) : 2;
  const Isa isa = choose_isa(argc > 2 && std::strcmp(argv[2], "best") != 0 ? argv[2] : "");
  const bool decode = argc <= 3 || std::strcmp(argv[3], "decode") == 0;
  const bool prefill = argc <= 3 || std::strcmp(argv[3], "prefill") == 0;
  ThreadPool pool(threads);
  const Limits limits = {read_limit(pool), fma_limit(pool)};
  std::printf("%s, %d threads; limits: %.1f GB/s read, %.0f GFLOP/s fp32 FMA\n", std::string(isa_name(isa)).c_str(),
              threads, limits.gigabytes, limits.gigaflops);
  std::printf("| work | shape | time a layer | rate | of limit |\n|---|---|---|---|---|\n");
  const Model qwen3 = {"qwen3-0.6b", 16, 8, 128};
  const Model qwen25 = {"qwen2.5-0.5b", 14, 2, 64};
  for (const Model& model : {qwen3, qwen25}) {
    for (const KvFormat format : {KvFormat::f16, KvFormat::q8_0, KvFormat::bf16, KvFormat::f32}) {
      if (decode) {
        for (const int64_t depth : {2048, 8192}) bench_decode(isa, pool, limits, model, format, depth);
      }
      if (prefill) {
        bench_prefill(isa, pool, limits, model, format, 256, 256);
        bench_prefill(isa, pool, limits, model, format, 2048, 2048);
        bench_prefill(isa, pool, limits, model, format, 8192, 128);
      }
    }
  }
  return 0;
}

}  // namespace minfer::cpu

int main(int argc, char** argv) {
  return minfer::cpu::run_bench(argc, argv);
}
