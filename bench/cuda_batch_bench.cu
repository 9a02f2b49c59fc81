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
#include <string>
#include <vector>

#include "cuda/launch/gemm.hpp"
#include "cuda/launch/linear_batch.hpp"
#include "cuda/launch/linear_decode.hpp"
#include "cuda_products.hpp"

namespace minfer::cuda {
namespace {

using tensor::DType;

// One of the three families.
struct Family {
  const char* name;
  std::function<void(const Queue&, const LinearArgs&)> linear;
  std::function<void(const Queue&, const LinearGluArgs&)> glu;
};

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
  TestBuffer<std::byte> workspace(static_cast<size_t>(kGemmWorkspaceBytes));
  GemmContext gemm(workspace.data());
  const int64_t most = *std::max_element(rows.begin(), rows.end());
  const int64_t scratch_bytes =
      std::max({linear_scratch_bytes(DType::q4_k, most, kVocabulary, kHidden),
                linear_scratch_bytes(DType::q4_k, most, kHidden, kFeedForward),
                linear_glu_scratch_bytes(DType::q4_k, most, kFeedForward, kHidden), int64_t{256}});
  TestBuffer<std::byte> memory(static_cast<size_t>(scratch_bytes));
  const LinearScratch scratch{memory.data(), scratch_bytes, &gemm};
  const Family batch{"batch", [](const Queue& q, const LinearArgs& a) { launch_linear_batch(q, a); },
                     [](const Queue& q, const LinearGluArgs& a) { launch_linear_glu_batch(q, a); }};
  const Family decode{"decode", [](const Queue& q, const LinearArgs& a) { launch_linear_decode(q, a); },
                      [](const Queue& q, const LinearGluArgs& a) { launch_linear_glu_decode(q, a); }};
  const Family prefill{"gemm", [&](const Queue& q, const LinearArgs& a) { launch_gemm_linear(q, a, scratch); },
                       [&](const Queue& q, const LinearGluArgs& a) { launch_gemm_linear_glu(q, a, scratch); }};
  const Queue queue{nullptr, &capabilities};
  for (const int64_t count : rows) {
    const Buffers buffers(queue, activation_format(DType::q4_k, count), count);
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
