// Small batches on the card: the linears of Qwen3-8B Q4_K_M (36 layers with weights of their own, V and down Q6_K in
// every second one, and the output matrix) for 2 to 256 rows, in one captured graph of chained launches: milliseconds
// and tokens/s of the small-batch family, beside decode (to 8 rows) and prefill (from 9); then each product alone.
// Weights are random (never zeros), 4.6 GB: nothing is in the cache when it is read again. Medians of graph launches.
//   cuda_batch_bench [chain|shapes|all|once] [rows ...]      once: each product alone, for a profiler
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cuda/kernels/linear/device_test_support.hpp"
#include "cuda/kernels/linear/test_data.hpp"
#include "cuda/launch/gemm.hpp"
#include "cuda/launch/linear_batch.hpp"
#include "cuda/launch/linear_decode.hpp"
#include "cuda/launch/rows.hpp"
#include "cuda/launch/test_rows.hpp"

namespace minfer::cuda {
namespace {

using tensor::DType;
using testing::DeviceBuffer;

constexpr int kLayers = 36;
constexpr int64_t kHidden = 4096, kFeedForward = 12288, kVocabulary = 151936, kKv = 1024;

// Memory full of valid panels of one type: any matrix of a multiple of 256 columns may begin at a panel's chunk.
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

int64_t bytes_of(const PanelMatrix& m) {
  return panel_matrix_bytes(m.dtype, m.rows, m.cols);
}

struct Model {
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

// Rows of every width that the products read and write.
struct Buffers {
  Buffers(const Queue& queue, int64_t count) : format(activation_format(DType::q4_k, count)) {
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
    floats.push_back(std::make_unique<DeviceBuffer<float>>(x));
    const Rows from = f32_rows(floats.back()->data(), count, width);
    if (as == ActivationFormat::f32) return from;
    bytes.push_back(std::make_unique<DeviceBuffer<std::byte>>(static_cast<size_t>(count * row_stride(as, width))));
    const Rows to{as, bytes.back()->data(), count, width};
    launch_convert(queue, from, to);
    return to;
  }
  ActivationFormat format;
  std::vector<std::unique_ptr<DeviceBuffer<float>>> floats;
  std::vector<std::unique_ptr<DeviceBuffer<std::byte>>> bytes;
  Rows hidden_in, wide, stream, q, k, v, logits;
};

// One of the three families.
struct Family {
  const char* name;
  std::function<void(const Queue&, const LinearArgs&)> linear;
  std::function<void(const Queue&, const LinearGluArgs&)> glu;
};

LinearArgs linear(const Rows& x, const PanelMatrix& weight, const Rows& out, bool residual = false) {
  LinearArgs args;
  args.x = x;
  args.segments = 1;
  args.segment[0] = {weight, nullptr, out};
  if (residual) args.residual = reinterpret_cast<const float*>(out.data);
  return args;
}

struct Product {
  const char* name;
  std::function<void(const Queue&, const Family&, const Model&, const Layer&, const Buffers&)> launch;
  bool once = false;
};

const Product kProducts[] = {
    {"qkv",
     [](const Queue& queue, const Family& f, const Model&, const Layer& l, const Buffers& b) {
       LinearArgs args = linear(b.hidden_in, l.q, b.q);
       args.segments = 3;
       args.segment[1] = {l.k, nullptr, b.k};
       args.segment[2] = {l.v, nullptr, b.v};
       f.linear(queue, args);
     }},
    {"o", [](const Queue& queue, const Family& f, const Model&, const Layer& l,
             const Buffers& b) { f.linear(queue, linear(b.hidden_in, l.o, b.stream, true)); }},
    {"gate/up",
     [](const Queue& queue, const Family& f, const Model&, const Layer& l, const Buffers& b) {
       f.glu(queue, {b.hidden_in, l.gate, l.up, nullptr, nullptr, minfer::graph::Activation::silu, b.wide});
     }},
    {"down", [](const Queue& queue, const Family& f, const Model&, const Layer& l,
                const Buffers& b) { f.linear(queue, linear(b.wide, l.down, b.stream, true)); }},
    {"lm_head",
     [](const Queue& queue, const Family& f, const Model& m, const Layer&, const Buffers& b) {
       f.linear(queue, linear(b.hidden_in, m.head, b.logits));
     },
     true},
};

// Median milliseconds of a graph of what `body` launches.
double graph_ms(const Capabilities& capabilities, bool chained, int repeats,
                const std::function<void(const Queue&)>& body) {
  cudaStream_t stream = nullptr;
  check_status(cudaStreamCreate(&stream), "bench");
  check_status(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "bench");
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

void run_chain(const Capabilities& capabilities, const Family& family, const Model& model, const Buffers& b) {
  const double ms = graph_ms(capabilities, true, 10, [&](const Queue& queue) {
    for (const Layer& layer : model.layers) {
      for (const Product& product : kProducts) {
        if (!product.once) product.launch(queue, family, model, layer, b);
      }
    }
    kProducts[4].launch(queue, family, model, model.layers[0], b);
  });
  std::printf("chain %-6s rows %3d: %7.3f ms, %6.0f tokens/s, %.2f TB/s\n", family.name, static_cast<int>(b.q.rows), ms,
              1000.0 * static_cast<double>(b.q.rows) / ms, static_cast<double>(model.bytes) / ms / 1e9);
}

// Each product over all layers' weights, so that nothing is in the cache.
void run_shapes(const Capabilities& capabilities, const Family& family, const Model& model, const Buffers& b) {
  std::printf("shapes %-6s rows %3d:", family.name, static_cast<int>(b.q.rows));
  for (const Product& product : kProducts) {
    const int count = product.once ? 1 : kLayers;
    const double ms = graph_ms(capabilities, true, 7, [&](const Queue& queue) {
      for (int l = 0; l < count; ++l) product.launch(queue, family, model, model.layers[static_cast<size_t>(l)], b);
    });
    std::printf(" %s %.2f", product.name, ms * 1000 / count);
  }
  std::printf(" us\n");
}

int run(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "all";
  std::vector<int64_t> rows;
  for (int i = 2; i < argc; ++i) rows.push_back(std::stoll(argv[i]));
  if (rows.empty()) rows = {2, 3, 4, 8, 9, 16, 32, 64, 96, 100, 128, 192, 256};
  const Capabilities capabilities = testing::test_capabilities();
  Weights q4(DType::q4_k, int64_t{38} << 27), q6(DType::q6_k, int64_t{16} << 27);
  const Model model(q4, q6);
  DeviceBuffer<std::byte> workspace(static_cast<size_t>(kGemmWorkspaceBytes));
  GemmContext gemm(workspace.data());
  const int64_t most = *std::max_element(rows.begin(), rows.end());
  const int64_t scratch_bytes =
      std::max({linear_scratch_bytes(DType::q4_k, most, kVocabulary, kHidden),
                linear_scratch_bytes(DType::q4_k, most, kHidden, kFeedForward),
                linear_glu_scratch_bytes(DType::q4_k, most, kFeedForward, kHidden), int64_t{256}});
  DeviceBuffer<std::byte> memory(static_cast<size_t>(scratch_bytes));
  const LinearScratch scratch{memory.data(), scratch_bytes, &gemm};
  const Family batch{"batch", [](const Queue& q, const LinearArgs& a) { launch_linear_batch(q, a); },
                     [](const Queue& q, const LinearGluArgs& a) { launch_linear_glu_batch(q, a); }};
  const Family decode{"decode", [](const Queue& q, const LinearArgs& a) { launch_linear_decode(q, a); },
                      [](const Queue& q, const LinearGluArgs& a) { launch_linear_glu_decode(q, a); }};
  const Family prefill{"gemm", [&](const Queue& q, const LinearArgs& a) { launch_gemm_linear(q, a, scratch); },
                       [&](const Queue& q, const LinearGluArgs& a) { launch_gemm_linear_glu(q, a, scratch); }};
  const Queue queue{nullptr, &capabilities};
  for (const int64_t count : rows) {
    const Buffers buffers(queue, count);
    if (what == "once") {
      for (const Product& product : kProducts) product.launch(queue, batch, model, model.layers[0], buffers);
      continue;
    }
    if (what != "shapes") run_chain(capabilities, batch, model, buffers);
    if (what != "shapes") run_chain(capabilities, count <= kDecodeRows ? decode : prefill, model, buffers);
    if (what != "chain") run_shapes(capabilities, batch, model, buffers);
  }
  check_status(cudaDeviceSynchronize(), "bench");
  return 0;
}

}  // namespace
}  // namespace minfer::cuda

int main(int argc, char** argv) {
  return minfer::cuda::run(argc, argv);
}
