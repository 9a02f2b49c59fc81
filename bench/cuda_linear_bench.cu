// Decode products on the card: (a) GB/s of each of Qwen3-8B's products, 1 to 8 rows; (b) tokens/s of the chain that one
// token needs - 36 layers of four products, each with weights of its own, and the output matrix - captured in a graph
// of chained launches, for several cuts of the work. Weights are random (never zeros), 4.65 GB for Q4_K_M; nothing is
// in the cache when it is read again. Times are medians of graph launches between events.
//   cuda_linear_bench [chain|shapes|all] [between]
// `between`: small kernels between the products, as norms and attention are.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cuda/kernels/common/chain.cuh"
#include "cuda/kernels/linear/device_test_support.hpp"
#include "cuda/kernels/linear/test_data.hpp"
#include "cuda/launch/linear_decode.hpp"

namespace minfer::cuda {
namespace {

using tensor::DType;
using testing::DeviceBuffer;

constexpr int kLayers = 36;
constexpr int64_t kHidden = 4096, kFeedForward = 12288, kVocabulary = 151936, kKv = 1024;

// What stands for a norm or for attention: waits, writes a little.
__global__ void between_kernel(float* out) {
  allow_dependents();
  wait_for_dependencies();
  out[blockIdx.x * blockDim.x + threadIdx.x] += 1.0F;
}

// Memory full of valid panels of one type: any matrix of a multiple of 256 columns may begin at a chunk of 8 rows.
struct Weights {
  Weights(DType dtype, int64_t bytes) : data(static_cast<size_t>(bytes)), type(dtype) {
    const int64_t rows = 512, cols = 4096;
    std::mt19937 random(1);
    const DeviceBuffer<std::byte> file(testing::random_rows(dtype, rows, cols, random));
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
  DeviceBuffer<std::byte> data;
  DType type;
  int64_t used = 0;
};

struct Layer {
  PanelMatrix q, k, v, o, gate, up, down;
};
struct Model {
  std::vector<Layer> layers;
  PanelMatrix head;
  int64_t bytes = 0;
};

int64_t bytes_of(const PanelMatrix& m) {
  return panel_matrix_bytes(m.dtype, m.rows, m.cols);
}

// `more` where Q4_K_M files have Q6_K: the output matrix, half of the layers' v and down.
Model make_model(Weights& weights, Weights& more) {
  Model model;
  for (int l = 0; l < kLayers; ++l) {
    Weights& some = l % 2 == 0 ? more : weights;
    model.layers.push_back({weights.take(kHidden, kHidden), weights.take(kKv, kHidden), some.take(kKv, kHidden),
                            weights.take(kHidden, kHidden), weights.take(kFeedForward, kHidden),
                            weights.take(kFeedForward, kHidden), some.take(kHidden, kFeedForward)});
    const Layer& layer = model.layers.back();
    for (const PanelMatrix* m : {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
      model.bytes += bytes_of(*m);
    }
  }
  model.head = more.take(kVocabulary, kHidden);
  model.bytes += bytes_of(model.head);
  return model;
}

// Rows of every width that the products read and write.
struct Buffers {
  Buffers(ActivationFormat format, int64_t count)
      : hidden_in(make(format, count, kHidden)),
        wide(make(format, count, kFeedForward)),
        stream(make(ActivationFormat::f32, count, kHidden)),
        q(make(ActivationFormat::f32, count, kHidden)),
        k(make(ActivationFormat::f32, count, kKv)),
        v(make(ActivationFormat::f32, count, kKv)),
        logits(make(ActivationFormat::f32, count, kVocabulary)) {}
  Rows make(ActivationFormat format, int64_t count, int64_t width) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    std::vector<float> x(static_cast<size_t>(count * width));
    for (float& value : x) value = normal(random);
    std::vector<std::byte> bytes(x.size() * 4);
    std::memcpy(bytes.data(), x.data(), bytes.size());
    if (format == ActivationFormat::q8) bytes = testing::quantize_rows(x, width);
    memory.push_back(std::make_unique<DeviceBuffer<std::byte>>(bytes));
    return {format, memory.back()->data(), count, width};
  }
  std::vector<std::unique_ptr<DeviceBuffer<std::byte>>> memory;
  Rows hidden_in, wide, stream, q, k, v, logits;
};

LinearArgs linear(const Rows& x, const PanelMatrix& weight, const Rows& out) {
  LinearArgs args;
  args.x = x;
  args.segments = 1;
  args.segment[0] = {weight, nullptr, out};
  return args;
}

void launch_layer(const Queue& queue, const Layer& l, const Buffers& b, const DecodeTuning& tuning, bool between) {
  const auto small = [&](int blocks) {
    if (between) {
      launch_kernel(queue, "bench/between", {dim3(static_cast<unsigned>(blocks)), dim3(128), 0}, between_kernel,
                    reinterpret_cast<float*>(b.q.data));
    }
  };
  small(1);
  LinearArgs qkv = linear(b.hidden_in, l.q, b.q);
  qkv.segments = 3;
  qkv.segment[1] = {l.k, nullptr, b.k};
  qkv.segment[2] = {l.v, nullptr, b.v};
  launch_linear_decode(queue, qkv, tuning);
  small(8);
  LinearArgs o = linear(b.hidden_in, l.o, b.stream);
  o.residual = reinterpret_cast<const float*>(b.stream.data);
  launch_linear_decode(queue, o, tuning);
  small(1);
  launch_linear_glu_decode(
      queue, {b.hidden_in, l.gate, l.up, nullptr, nullptr, minfer::graph::Activation::silu, b.wide}, tuning);
  LinearArgs down = linear(b.wide, l.down, b.stream);
  down.residual = reinterpret_cast<const float*>(b.stream.data);
  launch_linear_decode(queue, down, tuning);
}

// Median milliseconds of a graph of what `body` launches.
double graph_ms(const Capabilities& capabilities, bool chained, int repeats,
                const std::function<void(const Queue&)>& body) {
  cudaStream_t stream = nullptr;
  check_status(cudaStreamCreate(&stream), "bench");
  check_status(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "bench");
  body({stream, &capabilities, nullptr, chained});
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  check_status(cudaStreamEndCapture(stream, &graph), "bench");
  check_status(cudaGraphInstantiate(&executable, graph, 0), "bench");
  std::vector<cudaEvent_t> events(static_cast<size_t>(repeats + 1));
  for (cudaEvent_t& event : events) cudaEventCreate(&event);
  for (int i = 0; i < 2; ++i) cudaGraphLaunch(executable, stream);
  cudaEventRecord(events[0], stream);
  for (int i = 0; i < repeats; ++i) {
    cudaGraphLaunch(executable, stream);
    cudaEventRecord(events[static_cast<size_t>(i + 1)], stream);
  }
  check_status(cudaStreamSynchronize(stream), "bench");
  std::vector<float> times;
  for (size_t i = 1; i < events.size(); ++i) {
    times.push_back(0);
    cudaEventElapsedTime(&times.back(), events[i - 1], events[i]);
  }
  for (cudaEvent_t event : events) cudaEventDestroy(event);
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

void run_chain(const char* name, const Capabilities& capabilities, const Model& model, const Buffers& buffers,
               const DecodeTuning& tuning, bool chained, bool between) {
  const double ms = graph_ms(capabilities, chained, 20, [&](const Queue& queue) {
    for (const Layer& layer : model.layers) launch_layer(queue, layer, buffers, tuning, between);
    launch_linear_decode(queue, linear(buffers.hidden_in, model.head, buffers.logits), tuning);
  });
  const double rows = static_cast<double>(buffers.hidden_in.rows);
  std::printf(
      "chain %-9s rows %.0f ring %3d tile %2d KB blocks %d%s%s: %.3f ms, %.0f tokens/s, %.2f "
      "TB/s\n",
      name, rows, static_cast<int>(tuning.ring_bytes / 1024), static_cast<int>(tuning.tile_bytes / 1024),
      tuning.blocks_per_multiprocessor, chained ? "" : " unchained", between ? " between" : "", ms, 1000 * rows / ms,
      static_cast<double>(model.bytes) / ms / 1e9);
}

// One product over all layers' weights, so that nothing is in the cache.
void run_shapes(const char* name, const Capabilities& capabilities, const Model& model, const Buffers& b) {
  const DecodeTuning tuning;
  const auto report = [&](const char* what, int64_t bytes, const std::function<void(const Queue&)>& body) {
    const double ms = graph_ms(capabilities, true, 10, body);
    std::printf("%-9s rows %d %-8s %7.2f us each, %5.0f GB/s\n", name, static_cast<int>(b.q.rows), what,
                ms * 1000 / (std::strcmp(what, "lm_head") == 0 ? 1 : kLayers), static_cast<double>(bytes) / ms / 1e6);
  };
  int64_t qkv = 0, o = 0, glu = 0, down = 0;
  for (const Layer& l : model.layers) {
    qkv += bytes_of(l.q) + bytes_of(l.k) + bytes_of(l.v);
    o += bytes_of(l.o);
    glu += bytes_of(l.gate) + bytes_of(l.up);
    down += bytes_of(l.down);
  }
  report("qkv", qkv, [&](const Queue& queue) {
    for (const Layer& l : model.layers) {
      LinearArgs args = linear(b.hidden_in, l.q, b.q);
      args.segments = 3;
      args.segment[1] = {l.k, nullptr, b.k};
      args.segment[2] = {l.v, nullptr, b.v};
      launch_linear_decode(queue, args, tuning);
    }
  });
  report("o", o, [&](const Queue& queue) {
    for (const Layer& l : model.layers) launch_linear_decode(queue, linear(b.hidden_in, l.o, b.stream), tuning);
  });
  report("gate/up", glu, [&](const Queue& queue) {
    for (const Layer& l : model.layers) {
      launch_linear_glu_decode(
          queue, {b.hidden_in, l.gate, l.up, nullptr, nullptr, minfer::graph::Activation::silu, b.wide}, tuning);
    }
  });
  report("down", down, [&](const Queue& queue) {
    for (const Layer& l : model.layers) launch_linear_decode(queue, linear(b.wide, l.down, b.stream), tuning);
  });
  report("lm_head", bytes_of(model.head),
         [&](const Queue& queue) { launch_linear_decode(queue, linear(b.hidden_in, model.head, b.logits), tuning); });
}

void run_type(const char* name, const Capabilities& capabilities, const Model& model, ActivationFormat format,
              const std::string& what, const std::vector<DecodeTuning>& tunings) {
  const Buffers one(format, 1);
  if (what != "shapes") {
    for (const DecodeTuning& tuning : tunings) {
      run_chain(name, capabilities, model, one, tuning, true, false);
      run_chain(name, capabilities, model, one, tuning, true, true);
      if (&tuning == tunings.data()) run_chain(name, capabilities, model, one, tuning, false, false);
    }
    for (const int64_t rows : {2, 4, 8}) {
      run_chain(name, capabilities, model, Buffers(format, rows), tunings[0], true, false);
    }
  }
  if (what != "chain") {
    for (const int64_t rows : {1, 2, 4, 8}) run_shapes(name, capabilities, model, Buffers(format, rows));
  }
}

int run(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "all";
  const Capabilities capabilities = testing::test_capabilities();
  const auto tuning = [](int64_t ring, int64_t tile, int blocks = 1) {
    return DecodeTuning{ring * 1024, tile * 1024, blocks};
  };
  const std::vector<DecodeTuning> tunings = {
      {}, tuning(96, 10), tuning(96, 14), tuning(96, 17), tuning(96, 20), tuning(104, 28), tuning(48, 10, 2)};
  {
    Weights q4(DType::q4_k, int64_t{38} << 27), q6(DType::q6_k, int64_t{16} << 27);
    run_type("Q4_K_M", capabilities, make_model(q4, q6), ActivationFormat::q8, what, tunings);
  }
  {
    Weights q8(DType::q8_0, int64_t{66} << 27);
    run_type("Q8_0", capabilities, make_model(q8, q8), ActivationFormat::q8, what, {{}, tunings[2], tunings[4]});
  }
  Weights bf16(DType::bf16, int64_t{124} << 27);
  run_type("BF16", capabilities, make_model(bf16, bf16), ActivationFormat::f32, what, {{}, tunings[2], tunings[4]});
  check_status(cudaDeviceSynchronize(), "bench");
  return 0;
}

}  // namespace
}  // namespace minfer::cuda

int main(int argc, char** argv) {
  return minfer::cuda::run(argc, argv);
}
