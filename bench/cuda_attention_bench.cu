// How near CUDA attention comes to the card's limits. Decode: sequences of one length over shuffled pages, a chain of
// layers in a CUDA graph with dependent launches as in a model, as microseconds a layer and TB/s of keys and values;
// also with rope_append before each attention. Prefill: one sequence, as TFLOP/s (4 * head size a query head and
// visible position). As many layers as make some gigabytes, so that memory is read and not the L2 cache. Heads as
// Qwen3-8B has them: 32 over 8 KV heads of 128. Usage: cuda_attention_bench [decode|prefill]
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "cuda/launch/attention.hpp"
#include "cuda/launch/attention_plan.hpp"
#include "cuda/launch/test_rows.hpp"
#include "cuda/runtime/device.hpp"
#include "cuda_timing.hpp"

namespace minfer::cuda {
namespace {

using graph::KvFormat;

constexpr int64_t kHeads = 32;
constexpr int64_t kKvHeads = 8;
constexpr int64_t kHeadSize = 128;
constexpr int64_t kCacheBytes = int64_t{3} << 30;
constexpr int64_t kMaxLayers = 36;
constexpr int kRepetitions = 7;

void require(cudaError_t status) {
  check_status(status, "bench");
}

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(int64_t count) {
    require(cudaMalloc(&data_, static_cast<size_t>(count) * sizeof(T)));
    require(cudaMemset(data_, 0, static_cast<size_t>(count) * sizeof(T)));
  }
  explicit DeviceArray(const std::vector<T>& host) : DeviceArray(static_cast<int64_t>(host.size())) {
    require(cudaMemcpy(data_, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  T* data() const { return data_; }

 private:
  T* data_ = nullptr;
};

// Random numbers of about +-2: 16-bit floats whose exponent is bounded, which 8-bit quants and scales are as well.
__global__ void fill_kernel(uint16_t* out, int64_t count, uint32_t seed) {
  for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < count;
       i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    uint32_t x = static_cast<uint32_t>(i) * 2654435761U + seed;
    x ^= x >> 16;
    x *= 0x7feb352dU;
    x ^= x >> 15;
    out[i] = static_cast<uint16_t>((x & 0x8fffU) | 0x3000U);
  }
}

struct Options {
  KvFormat format;
  int64_t sequences, length, rows;  // rows of each sequence, its last
  bool with_rope = false;
};

// A model's attention layers at one step.
class Layers {
 public:
  Layers(const Capabilities& capabilities, const Options& o)
      : options_(o),
        part_(kv_part_bytes(o.format, kKvHeads, kHeadSize)),
        pages_(o.sequences * ((o.length + 63) / 64)),
        layers_(std::clamp<int64_t>(kCacheBytes / (pages_ * 2 * part_), 1, o.rows > 1 ? 4 : kMaxLayers)),
        rows_(o.sequences * o.rows),
        cache_(layers_ * pages_ * 2 * part_),
        q_(rows_ * kHeads * kHeadSize),
        k_(rows_ * kKvHeads * kHeadSize),
        angles_(rows_ * kHeadSize),
        out_(rows_ * kHeads * kHeadSize),
        infos_(make_infos(o)),
        tables_(make_tables()),
        slots_(make_slots()),
        row_sequence_(make_rows()),
        scratch_(attention_scratch_bytes(capabilities, view(0), kHeads, rows_, o.sequences, o.length, o.rows == 1)) {}

  int64_t layers() const { return layers_; }
  double bytes() const {
    return static_cast<double>(options_.sequences * options_.length) * 2 * static_cast<double>(part_) / 64;
  }

  void fill(const Queue& queue) {
    const auto fill_part = [&](void* data, int64_t bytes) {
      launch_kernel(queue, "bench/fill", {dim3(1024), dim3(256)}, fill_kernel, static_cast<uint16_t*>(data), bytes / 2,
                    7U);
    };
    fill_part(cache_.data(), layers_ * pages_ * 2 * part_);
    std::vector<float> q(static_cast<size_t>(rows_ * kHeads * kHeadSize));
    std::mt19937 engine(1);
    std::normal_distribution<float> normal;
    for (float& x : q) x = normal(engine);
    require(cudaMemcpy(q_.data(), q.data(), q.size() * 4, cudaMemcpyHostToDevice));
  }

  void launch(const Queue& queue) {
    for (int64_t layer = 0; layer < layers_; ++layer) {
      const StepView step{infos_.data(),      tables_.data(), slots_.data(),      row_sequence_.data(), nullptr,
                          options_.sequences, rows_,          options_.rows == 1, options_.length};
      const Rows q = f32_rows(q_.data(), rows_, kHeads * kHeadSize);
      if (options_.with_rope) {
        const Rows k = f32_rows(k_.data(), rows_, kKvHeads * kHeadSize);
        launch_rope_append(queue, {.q = q,
                                   .k = k,
                                   .v = k,
                                   .angles = f32_rows(angles_.data(), rows_, kHeadSize),
                                   .eps = 1e-6F,
                                   .heads = kHeads,
                                   .kv = view(layer),
                                   .step = step,
                                   .q_out = q});
      }
      launch_attention(queue, {.q = q,
                               .out = f32_rows(out_.data(), rows_, kHeads * kHeadSize),
                               .heads = kHeads,
                               .scale = 0.0884F,
                               .kv = view(layer),
                               .step = step,
                               .scratch = scratch_.data()});
    }
  }

 private:
  KvLayerView view(int64_t layer) const {
    std::byte* k = cache_.data() + layer * 2 * part_;
    return {k, k + part_, layers_ * 2 * part_, options_.format, options_.format, kKvHeads, kHeadSize, kHeadSize};
  }
  std::vector<SequenceInfo> make_infos(const Options& o) const {
    std::vector<SequenceInfo> infos;
    for (int64_t s = 0; s < o.sequences; ++s) {
      infos.push_back({static_cast<int32_t>(s * o.rows), static_cast<int32_t>(o.rows),
                       static_cast<int32_t>(o.length - o.rows), static_cast<int32_t>(s * (pages_ / o.sequences))});
    }
    return infos;
  }
  std::vector<int32_t> make_tables() {
    page_ids_.resize(static_cast<size_t>(pages_));
    std::iota(page_ids_.begin(), page_ids_.end(), 0);
    std::shuffle(page_ids_.begin(), page_ids_.end(), std::mt19937(3));
    return page_ids_;
  }
  std::vector<int32_t> make_slots() const {
    std::vector<int32_t> slots;
    for (int64_t s = 0; s < options_.sequences; ++s) {
      for (int64_t p = options_.length - options_.rows; p < options_.length; ++p) {
        slots.push_back(page_ids_[static_cast<size_t>(s * (pages_ / options_.sequences) + p / 64)] * 64 +
                        static_cast<int32_t>(p % 64));
      }
    }
    return slots;
  }
  std::vector<int32_t> make_rows() const {
    std::vector<int32_t> rows;
    for (int64_t r = 0; r < rows_; ++r) rows.push_back(static_cast<int32_t>(r / options_.rows));
    return rows;
  }

  Options options_;
  int64_t part_, pages_, layers_, rows_;
  std::vector<int32_t> page_ids_;
  DeviceArray<std::byte> cache_;
  DeviceArray<float> q_, k_, angles_, out_;
  DeviceArray<SequenceInfo> infos_;
  DeviceArray<int32_t> tables_, slots_, row_sequence_;
  DeviceArray<std::byte> scratch_;
};

// Median microseconds a layer of a captured step.
double microseconds(const Queue& queue, Layers& layers) {
  layers.fill(queue);
  require(cudaStreamSynchronize(queue.stream));
  const double ms = graph_ms(queue.stream, kRepetitions, [&] { layers.launch(queue); });
  return ms * 1e3 / static_cast<double>(layers.layers());
}

const char* name_of(KvFormat format) {
  return format == KvFormat::f16 ? "f16" : format == KvFormat::bf16 ? "bf16" : "q8_0";
}

void bench_decode(const Queue& queue) {
  for (const KvFormat format : {KvFormat::f16, KvFormat::bf16, KvFormat::q8_0}) {
    for (const int64_t length : {64, 128, 512, 1024, 4096, 16384}) {
      for (const int64_t sequences : {1, 8, 32, 100}) {
        if (sequences * length > 32 * 16384 || (length < 512 && sequences != 1)) continue;
        Layers plain(*queue.capabilities, {format, sequences, length, 1});
        const double us = microseconds(queue, plain);
        std::printf("decode %-4s %3d sequences x %5d: %8.2f us a layer, %5.2f TB/s", name_of(format),
                    static_cast<int>(sequences), static_cast<int>(length), us, plain.bytes() / us / 1e6);
        if (sequences == 1) {
          Layers both(*queue.capabilities, {format, sequences, length, 1, true});
          std::printf(", %6.2f us with rope_append", microseconds(queue, both));
        }
        std::printf("\n");
      }
    }
  }
}

void bench_prefill(const Queue& queue) {
  for (const KvFormat format : {KvFormat::f16, KvFormat::bf16, KvFormat::q8_0}) {
    for (const auto& [rows, length] : std::vector<std::pair<int64_t, int64_t>>{
             {8, 512}, {8, 8192}, {64, 8192}, {512, 512}, {512, 8192}, {2048, 2048}, {8192, 8192}}) {
      Layers layers(*queue.capabilities, {format, 1, length, rows});
      const double us = microseconds(queue, layers);
      const double pairs =
          static_cast<double>(rows) * (static_cast<double>(length) - static_cast<double>(rows - 1) / 2);
      std::printf("prefill %-4s %5d rows, the last of %5d: %9.2f us a layer, %5.1f TFLOP/s\n", name_of(format),
                  static_cast<int>(rows), static_cast<int>(length), us,
                  4.0 * static_cast<double>(kHeads * kHeadSize) * pairs / us / 1e6);
    }
  }
}

}  // namespace

int bench(const std::string& which) {
  const Capabilities capabilities = query_capabilities();
  Queue queue;
  require(cudaStreamCreateWithFlags(&queue.stream, cudaStreamNonBlocking));
  queue.capabilities = &capabilities;
  queue.chained = capabilities.tier >= Tier::hopper;
  std::printf("%s\n", capabilities.name.c_str());
  if (which != "prefill") bench_decode(queue);
  if (which != "decode") bench_prefill(queue);
  return 0;
}

}  // namespace minfer::cuda

int main(int argc, char** argv) {
  return minfer::cuda::bench(argc > 1 ? argv[1] : "");
}
