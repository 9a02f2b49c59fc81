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
#include <string>
#include <vector>

#include "cuda/kernels/common/chain.cuh"
#include "cuda/launch/linear_decode.hpp"
#include "cuda_products.hpp"

namespace minfer::cuda {
namespace {

using tensor::DType;

// What stands for a norm or for attention: waits, writes a little.
__global__ void between_kernel(float* out) {
  allow_dependents();
  wait_for_dependencies();
  out[blockIdx.x * blockDim.x + threadIdx.x] += 1.0F;
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

void run_chain(const char* name, const Capabilities& capabilities, const Model& model, const Buffers& buffers,
               const DecodeTuning& tuning, bool chained, bool between) {
  const double ms = graph_ms(capabilities, chained, 20, [&](const Queue& queue) {
    for (const Layer& layer : model.layers) launch_layer(queue, layer, buffers, tuning, between);
    launch_linear_decode(queue, linear(buffers.hidden_in, model.head, buffers.logits), tuning);
  });
  const double rows = static_cast<double>(buffers.hidden_in.rows);
  std::printf(
      "chain %-9s rows %.0f ring %3d tile %2d blocks %d%s%s: %.3f ms, %.0f tokens/s, %.2f "
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
  const Queue queue{nullptr, &capabilities};
  const Buffers one(queue, format, 1);
  if (what != "shapes") {
    for (const DecodeTuning& tuning : tunings) {
      run_chain(name, capabilities, model, one, tuning, true, false);
      if (&tuning != tunings.data()) continue;
      run_chain(name, capabilities, model, one, tuning, true, true);
      run_chain(name, capabilities, model, one, tuning, false, false);
    }
    for (const int64_t rows : {2, 4, 8}) {
      run_chain(name, capabilities, model, Buffers(queue, format, rows), tunings[0], true, false);
    }
  }
  if (what != "chain") {
    for (const int64_t rows : {1, 2, 4, 8}) run_shapes(name, capabilities, model, Buffers(queue, format, rows));
  }
}

int run(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "all";
  const Capabilities capabilities = testing::test_capabilities();
  std::vector<DecodeTuning> tunings = {{}};
  for (const int64_t tile : {8, 16, 20}) tunings.push_back({104 * 1024, tile * 1024, 1});
  tunings.push_back({96 * 1024, 28 * 1024, 1});
  tunings.push_back({48 * 1024, 10 * 1024, 2});
  {
    Weights q4(DType::q4_k, int64_t{38} << 27), q6(DType::q6_k, int64_t{16} << 27);
    run_type("Q4_K_M", capabilities, Model(q4, q6), ActivationFormat::q8, what, tunings);
  }
  {
    Weights q8(DType::q8_0, int64_t{66} << 27);
    run_type("Q8_0", capabilities, Model(q8, q8), ActivationFormat::q8, what, tunings);
  }
  Weights bf16(DType::bf16, int64_t{124} << 27);
  run_type("BF16", capabilities, Model(bf16, bf16), ActivationFormat::f32, what, tunings);
  check_status(cudaDeviceSynchronize(), "bench");
  return 0;
}

}  // namespace
}  // namespace minfer::cuda

int main(int argc, char** argv) {
  return minfer::cuda::run(argc, argv);
}
