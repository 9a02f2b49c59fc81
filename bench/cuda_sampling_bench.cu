// How long the sampler takes: microseconds of a launch in a CUDA graph of launches that depend on each other, for rows
// of 151,936 logits. With many rows the launches go through several buffers, so that memory is read and not the L2
// cache. Usage: cuda_sampling_bench [rows]
#include <cuda_runtime.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "cuda/launch/sampling.hpp"
#include "cuda/launch/test_rows.hpp"
#include "cuda/runtime/device.hpp"
#include "cuda_timing.hpp"

namespace minfer::cuda {
namespace {

constexpr int64_t kVocabulary = 151936;
constexpr int64_t kBufferBytes = int64_t{240} << 20;
constexpr int kRepetitions = 7;

void require(cudaError_t status) {
  check_status(status, "bench");
}

template <class T>
T* upload(const std::vector<T>& host) {
  void* data = nullptr;
  require(cudaMalloc(&data, std::max<size_t>(host.size() * sizeof(T), 16)));
  require(cudaMemcpy(data, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
  return static_cast<T*>(data);
}

struct Case {
  const char* name;
  SamplingRow row;
  int32_t edits;
  bool masked = false;
};

// Logits as of a language model: normal, and a few that stand out.
std::vector<float> make_logits(int64_t rows) {
  std::vector<float> normal(1 << 20);
  std::mt19937 random(1);
  std::normal_distribution<float> distribution;
  for (float& x : normal) x = distribution(random) * 2.5F;
  std::vector<float> logits(static_cast<size_t>(rows * kVocabulary));
  for (int64_t r = 0; r < rows; ++r) {
    float* row = logits.data() + r * kVocabulary;
    std::copy_n(normal.begin() + static_cast<long>(random() % (normal.size() - kVocabulary)), kVocabulary, row);
    for (int i = 0; i < 40; ++i) row[random() % kVocabulary] = 8.0F + distribution(random) * 3.0F;
  }
  return logits;
}

double microseconds(const Queue& queue, const Case& which, int64_t rows, int64_t buffers, float* logits) {
  std::vector<SamplingRow> settings;
  std::vector<LogitEdit> changes;
  std::mt19937_64 random(2);
  for (int64_t r = 0; r < rows; ++r) {
    SamplingRow row = which.row;
    row.first_edit = static_cast<int32_t>(changes.size());
    row.edits = which.edits;
    row.mask = which.masked ? 0 : -1;
    row.uniform = static_cast<double>(random() >> 11) * 0x1.0p-53;
    settings.push_back(row);
    for (int32_t e = 0; e < which.edits; ++e) changes.push_back({e * 2000, 0.0F, 1, 0.0F});
  }
  const SamplingRow* device_rows = upload(settings);
  const LogitEdit* device_edits = upload(changes);
  // As of a grammar: a few tokens in each of the mask's words.
  const uint32_t* device_masks =
      upload(std::vector<uint32_t>(static_cast<size_t>(mask_words(kVocabulary)), 0x00100400U));
  Drawn* out = upload(std::vector<Drawn>(static_cast<size_t>(rows)));
  TokenLogprob* top = upload(std::vector<TokenLogprob>(static_cast<size_t>(rows * graph::kMostTopLogprobs)));
  TokenLogprob* const* top_address = upload(std::vector<TokenLogprob*>{top});
  std::byte* scratch = nullptr;
  require(cudaMalloc(&scratch, static_cast<size_t>(sample_scratch_bytes(rows, kVocabulary))));
  const int launches = static_cast<int>(std::max<int64_t>(buffers, 20));
  const double ms = graph_ms(queue.stream, kRepetitions, [&] {
    for (int i = 0; i < launches; ++i) {
      float* at = logits + i % buffers * rows * kVocabulary;
      launch_sample(queue, {f32_rows(at, rows, kVocabulary), device_rows, device_edits, device_masks, out, scratch,
                            nullptr, which.row.top_logprobs > 0 ? top_address : nullptr});
    }
  });
  for (const void* data :
       {static_cast<const void*>(device_rows), static_cast<const void*>(device_edits), static_cast<const void*>(top),
        static_cast<const void*>(top_address), static_cast<const void*>(device_masks), static_cast<const void*>(out),
        static_cast<const void*>(scratch)}) {
    require(cudaFree(const_cast<void*>(data)));
  }
  return ms * 1e3 / launches;
}

}  // namespace

void bench(int64_t only_rows) {
  const Capabilities capabilities = query_capabilities();
  Queue queue;
  require(cudaStreamCreateWithFlags(&queue.stream, cudaStreamNonBlocking));
  queue.capabilities = &capabilities;
  queue.chained = capabilities.tier >= Tier::hopper;
  const SamplingRow greedy = {0,    0,    1.1F, 0.0F, 0.0F, -1,  0.0F, 0,    1.0F,
                              1.0F, 0.0F, 0.0F, 0.1F, 0.5F, 0.0, 0,    0.0F, -1};
  const auto with = [&](float temperature, int32_t top_k, float typical_p, float top_p, float min_p) {
    SamplingRow row = greedy;
    row.temperature = temperature;
    row.top_k = top_k;
    row.typical_p = typical_p;
    row.top_p = top_p;
    row.min_p = min_p;
    return row;
  };
  const auto mirostat = [&](int32_t version) {
    SamplingRow row = with(0.8F, 0, 1.0F, 1.0F, 0.0F);
    row.mirostat = version;
    row.mirostat_mu = 10.0F;
    return row;
  };
  SamplingRow likeliest = greedy;
  likeliest.top_logprobs = graph::kMostTopLogprobs;
  const Case cases[] = {
      {"greedy", greedy, 0},
      {"greedy, 20 likeliest", likeliest, 0},
      {"greedy, 64 edits", greedy, 64},
      {"top_k 40 + top_p + min_p", with(0.8F, 40, 1.0F, 0.95F, 0.05F), 0},
      {"the same, 64 edits", with(0.8F, 40, 1.0F, 0.95F, 0.05F), 64},
      {"top_k 256 + top_p", with(0.8F, 256, 1.0F, 0.95F, 0.0F), 0},
      {"top_k 40 + typical", with(0.8F, 40, 0.9F, 1.0F, 0.0F), 0},
      {"top_p 0.9, no top_k", with(0.8F, 0, 1.0F, 0.9F, 0.0F), 0},
      {"temperature 0.5 only", with(0.5F, 0, 1.0F, 1.0F, 0.0F), 0},
      {"temperature 2 (all sorted)", with(2.0F, 0, 1.0F, 1.0F, 0.0F), 0},
      {"Mirostat 1", mirostat(1), 0},
      {"Mirostat 2", mirostat(2), 0},
      {"top_k 40, masked", with(0.8F, 40, 1.0F, 1.0F, 0.0F), 0, true},
      {"greedy, masked", greedy, 0, true},
      {"typical of all", with(1.0F, 0, 0.9F, 1.0F, 0.0F), 0},
  };
  for (const int64_t rows : {1, 8, 32, 100, 256}) {
    if (only_rows != 0 && rows != only_rows) continue;
    const int64_t buffers = rows == 1 ? 1 : std::max<int64_t>(1, kBufferBytes / (rows * kVocabulary * 4));
    float* logits = upload(make_logits(rows * buffers));
    for (const Case& which : cases) {
      std::printf("%4d rows %-28s %8.1f us\n", static_cast<int>(rows), which.name,
                  microseconds(queue, which, rows, buffers, logits));
      std::fflush(stdout);
    }
    require(cudaFree(logits));
  }
}

}  // namespace minfer::cuda

int main(int argc, char** argv) {
  int64_t rows = 0;
  if (argc > 1) std::from_chars(argv[1], argv[1] + std::strlen(argv[1]), rows);
  minfer::cuda::bench(rows);
  return 0;
}
