// The linears of Qwen3-8B for the benchmarks of products: weights for 36 layers and the output matrix, rows that they
// read and write, and the time of a graph of launches. Weights are random (never zeros), and far more than the cache
// holds: nothing is in it when it is read again. One thread; any failed call throws.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

#include "cuda/kernels/linear/device_test_support.hpp"
#include "cuda/kernels/linear/test_data.hpp"
#include "cuda/launch/linear.hpp"
#include "cuda/launch/rows.hpp"
#include "cuda/launch/test_rows.hpp"
#include "cuda_timing.hpp"

namespace minfer::cuda {

using testing::TestBuffer;

inline constexpr int kLayers = 36;
inline constexpr int64_t kHidden = 4096, kFeedForward = 12288, kVocabulary = 151936, kKv = 1024;

// Memory full of valid panels of one type: any matrix of a multiple of 256 columns may begin at a panel's chunk.
struct Weights {
  Weights(tensor::DType dtype, int64_t bytes) : data(static_cast<size_t>(bytes)), type(dtype) {
    const int64_t rows = 512, cols = 4096;
    std::mt19937 random(1);
    const TestBuffer<std::byte> file(testing::random_rows(dtype, rows, cols, random));
    const Capabilities capabilities = testing::test_capabilities();
    launch_pack({nullptr, &capabilities}, {dtype, data.data(), rows, cols}, file.data(), 0, rows);
    const int64_t part = rows / 8 * panel_bytes(dtype, cols);
    for (int64_t at = part; at < bytes; at += part) {
      cudaMemcpyAsync(data.data() + at, data.data(), static_cast<size_t>(std::min(part, bytes - at)),
                      cudaMemcpyDeviceToDevice);
    }
    check_status(cudaDeviceSynchronize(), "bench");
  }
  PanelMatrix take(int64_t rows, int64_t cols) {
    const PanelMatrix matrix{type, data.data() + used, rows, cols};
    used += panel_matrix_bytes(type, rows, cols);
    if (used > static_cast<int64_t>(data.size())) {
      std::printf("the benchmark's weights don't fit its memory\n");
      std::exit(1);
    }
    return matrix;
  }
  TestBuffer<std::byte> data;
  tensor::DType type;
  int64_t used = 0;
};

struct Layer {
  PanelMatrix q, k, v, o, gate, up, down;
};

inline int64_t bytes_of(const PanelMatrix& m) {
  return panel_matrix_bytes(m.dtype, m.rows, m.cols);
}

struct Model {
  // `more` where Q4_K_M files have Q6_K: the output matrix, half of the layers' v and down.
  Model(Weights& weights, Weights& more) : head(more.take(kVocabulary, kHidden)), bytes(bytes_of(head)) {
    for (int l = 0; l < kLayers; ++l) {
      Weights& some = l % 2 == 0 ? more : weights;
      layers.push_back({weights.take(kHidden, kHidden), weights.take(kKv, kHidden), some.take(kKv, kHidden),
                        weights.take(kHidden, kHidden), weights.take(kFeedForward, kHidden),
                        weights.take(kFeedForward, kHidden), some.take(kHidden, kFeedForward)});
      const Layer& n = layers.back();
      for (const PanelMatrix* m : {&n.q, &n.k, &n.v, &n.o, &n.gate, &n.up, &n.down}) bytes += bytes_of(*m);
    }
  }
  std::vector<Layer> layers;
  PanelMatrix head;
  int64_t bytes = 0;
};

// Rows of every width that the products read and write. `format`: what they read.
struct Buffers {
  Buffers(const Queue& queue, ActivationFormat format, int64_t count) {
    hidden_in = make(queue, format, count, kHidden);
    wide = make(queue, format, count, kFeedForward);
    stream = make(queue, ActivationFormat::f32, count, kHidden);
    q = make(queue, ActivationFormat::f32, count, kHidden);
    k = make(queue, ActivationFormat::f32, count, kKv);
    v = make(queue, ActivationFormat::f32, count, kKv);
    logits = make(queue, ActivationFormat::f32, count, kVocabulary);
    check_status(cudaDeviceSynchronize(), "bench");
  }
  Rows make(const Queue& queue, ActivationFormat as, int64_t count, int64_t width) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    std::vector<float> x(static_cast<size_t>(count * width));
    for (float& value : x) value = normal(random);
    floats.push_back(std::make_unique<TestBuffer<float>>(x));
    const Rows from = f32_rows(floats.back()->data(), count, width);
    if (as == ActivationFormat::f32) return from;
    bytes.push_back(std::make_unique<TestBuffer<std::byte>>(static_cast<size_t>(count * row_stride(as, width))));
    const Rows to{as, bytes.back()->data(), count, width};
    launch_convert(queue, from, to);
    return to;
  }
  std::vector<std::unique_ptr<TestBuffer<float>>> floats;
  std::vector<std::unique_ptr<TestBuffer<std::byte>>> bytes;
  Rows hidden_in, wide, stream, q, k, v, logits;
};

inline LinearArgs linear(const Rows& x, const PanelMatrix& weight, const Rows& out, bool residual = false) {
  LinearArgs args;
  args.x = x;
  args.segments = 1;
  args.segment[0] = {weight, nullptr, out};
  if (residual) args.residual = reinterpret_cast<const float*>(out.data);
  return args;
}

// The same of launches on a queue of their own.
inline double graph_ms(const Capabilities& capabilities, bool chained, int repeats,
                       const std::function<void(const Queue&)>& body) {
  cudaStream_t stream = nullptr;
  check_status(cudaStreamCreate(&stream), "bench");
  const double ms = graph_ms(stream, repeats, [&] { body({stream, &capabilities, nullptr, chained}); });
  check_status(cudaStreamDestroy(stream), "bench");
  return ms;
}

}  // namespace minfer::cuda
