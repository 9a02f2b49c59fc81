// What prefill costs in its linears alone: those of Qwen3-8B Q4_K_M (36 layers; V and down are Q6_K in every second
// one), as one captured graph a step, at several row counts. Beside the whole: the decoding of the weights alone, the
// products alone (of the same slices, and of whole bf16 matrices), the decoding of each type, and ops on rows.
// Weights are random and rotate among enough layers that none is in the cache. cuda_gemm_bench [rows ...]; 0: the
// decoding of types only
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

#include "cuda/kernels/gemm/decode.hpp"
#include "cuda/kernels/gemm/product.hpp"
#include "cuda/kernels/gemm/slices.hpp"
#include "cuda/kernels/linear/test_data.hpp"
#include "cuda/launch/gemm.hpp"
#include "cuda/launch/rows.hpp"
#include "cuda/launch/test_device.hpp"
#include "cuda_timing.hpp"

namespace minfer::cuda {
namespace {

using tensor::DType;

constexpr int64_t kWidth = 4096;
constexpr int64_t kHidden = 12288;
constexpr int64_t kKvWidth = 1024;
constexpr int kLayers = 36;
constexpr int kSets = 6;  // distinct layers' weights
constexpr int kRepeats = 5;
constexpr int64_t kSourceRows = 512;  // of distinct random weights

struct Weight {
  Weight(const Queue& queue, DType dtype, int64_t rows, int64_t cols, uint32_t seed)
      : panels(panel_matrix_bytes(dtype, rows, cols)), view{dtype, panels.data(), rows, cols} {
    std::mt19937 random(seed);
    const TestArray source(testing::random_rows(dtype, kSourceRows, cols, random));
    for (int64_t first = 0; first < rows; first += kSourceRows) {
      launch_pack(queue, view, source.data(), first, std::min(kSourceRows, rows - first));
    }
    check_status(cudaStreamSynchronize(queue.stream), "bench/pack");
  }
  TestArray panels;
  PanelMatrix view;
};

struct Layer {
  Layer(const Queue& queue, bool fine, uint32_t seed)
      : q(queue, DType::q4_k, kWidth, kWidth, seed),
        k(queue, DType::q4_k, kKvWidth, kWidth, seed + 1),
        v(queue, fine ? DType::q6_k : DType::q4_k, kKvWidth, kWidth, seed + 2),
        o(queue, DType::q4_k, kWidth, kWidth, seed + 3),
        gate(queue, DType::q4_k, kHidden, kWidth, seed + 4),
        up(queue, DType::q4_k, kHidden, kWidth, seed + 5),
        down(queue, fine ? DType::q6_k : DType::q4_k, kWidth, kHidden, seed + 6) {}
  Weight q, k, v, o, gate, up, down;
};

class Bench {
 public:
  Bench() : queue_(true), workspace_(kGemmWorkspaceBytes), gemm_(workspace_.data()) {
    for (uint32_t i = 0; i < kSets; ++i) layers_.push_back(std::make_unique<Layer>(*queue_, i % 2 == 1, 100 * i));
  }

  void decode_types();
  void row_ops(int64_t rows);
  void prefill(int64_t rows);

 private:
  template <class Work>
  double each_layer(Work work) {
    return graph_ms((*queue_).stream, kRepeats, [&] {
      for (int i = 0; i < kLayers; ++i) work(*layers_[static_cast<size_t>(i % kSets)], i % kSets);
    });
  }

  TestQueue queue_;
  TestArray workspace_;
  GemmContext gemm_;
  std::vector<std::unique_ptr<Layer>> layers_;
};

void Bench::decode_types() {
  const int64_t rows = 6144;
  {
    // What the card takes to write as many bytes.
    const TestArray bytes(rows * decoded_row_bytes(DType::q4_k, kWidth));
    const double ms = graph_ms((*queue_).stream, kRepeats, [&] {
      for (int i = 0; i < 60; ++i) {
        check_status(cudaMemsetAsync(bytes.data(), i, static_cast<size_t>(bytes.bytes()), (*queue_).stream),
                     "bench/set");
      }
    });
    std::printf("memset of %lld bytes: %.1f us\n", static_cast<long long>(bytes.bytes()), ms * 1000 / 60);
  }
  for (const DType dtype : {DType::q4_k, DType::q5_k, DType::q6_k, DType::q8_0, DType::q4_0, DType::iq4_xs, DType::q3_k,
                            DType::bf16, DType::f16}) {
    std::vector<std::unique_ptr<Weight>> weights;
    for (uint32_t i = 0; i < 6; ++i) weights.push_back(std::make_unique<Weight>(*queue_, dtype, rows, kWidth, i));
    const TestArray scratch(rows * decoded_row_bytes(dtype, kWidth));
    const double ms = graph_ms((*queue_).stream, kRepeats, [&] {
      for (int i = 0; i < 60; ++i)
        launch_decode(*queue_, {weights[static_cast<size_t>(i % 6)]->view, 0, rows, scratch.data()});
    });
    const double us = ms * 1000 / 60;
    const auto read = static_cast<double>(panel_matrix_bytes(dtype, rows, kWidth));
    const auto written = static_cast<double>(scratch.bytes());
    std::printf("decode %-7s %lld x %lld: %6.1f us, reads %.2f TB/s, writes %.2f TB/s\n",
                std::string(tensor::dtype_info(dtype).name).c_str(), static_cast<long long>(rows),
                static_cast<long long>(kWidth), us, read / us / 1e6, written / us / 1e6);
  }
}

// One norm, conversion and gated activation, each in a chain of its own kind; their bytes may lie in the cache.
void Bench::row_ops(int64_t rows) {
  const TestRows x(ActivationFormat::f32, rows, kWidth, random_floats(rows * kWidth, 1.0F, 1));
  const TestArray weight(random_floats(kWidth, 1.0F, 2));
  const auto format = rows > kDecodeRows ? ActivationFormat::bf16 : ActivationFormat::q8;
  const TestRows out(format, rows, kWidth);
  const TestRows gate(ActivationFormat::f32, rows, kHidden, random_floats(rows * kHidden, 1.0F, 3));
  const TestRows inner(format, rows, kHidden);
  constexpr int kCalls = 40;
  const auto time = [&](const std::function<void()>& call) {
    return 1000 / kCalls * graph_ms((*queue_).stream, kRepeats, [&] {
             for (int i = 0; i < kCalls; ++i) call();
           });
  };
  const double norm =
      time([&] { launch_rms_norm(*queue_, {x.view(), weight.as<float>(), kWidth, 1e-6F, out.view()}); });
  const double convert = time([&] { launch_convert(*queue_, x.view(), out.view()); });
  const double glu =
      time([&] { launch_glu(*queue_, {gate.view(), gate.view(), graph::Activation::silu, inner.view()}); });
  std::printf("rows %lld: rms_norm %.2f us, convert %.2f us, glu of %lld %.2f us\n", static_cast<long long>(rows), norm,
              convert, static_cast<long long>(kHidden), glu);
}

void Bench::prefill(int64_t rows) {
  const TestRows x(ActivationFormat::bf16, rows, kWidth, random_floats(rows * kWidth, 1.0F, 1));
  const TestRows attended(ActivationFormat::bf16, rows, kWidth, random_floats(rows * kWidth, 1.0F, 2));
  const TestRows inner(ActivationFormat::bf16, rows, kHidden, random_floats(rows * kHidden, 1.0F, 3));
  const TestRows inner_f32(ActivationFormat::f32, rows, kHidden);
  const TestRows state(ActivationFormat::f32, rows, kWidth, random_floats(rows * kWidth, 1.0F, 4));
  const TestArray qkv(rows * (kWidth + 2 * kKvWidth) * 4);
  const TestArray scratch(std::max({gemm_glu_scratch_bytes(DType::q4_k, rows, kHidden, kWidth),
                                    gemm_scratch_bytes(DType::q4_k, rows, kWidth, kHidden),
                                    gemm_scratch_bytes(DType::q4_k, rows, kWidth, kWidth)}));
  const LinearScratch with = {scratch.data(), scratch.bytes(), &gemm_};
  const auto out_at = [&](int64_t first, int64_t width) {
    return Rows{ActivationFormat::f32, qkv.data() + first * rows * 4, rows, width};
  };
  const auto run_qkv = [&](const Layer& layer) {
    LinearArgs args;
    args.x = x.view();
    args.segments = 3;
    args.segment[0] = {layer.q.view, nullptr, out_at(0, kWidth)};
    args.segment[1] = {layer.k.view, nullptr, out_at(kWidth, kKvWidth)};
    args.segment[2] = {layer.v.view, nullptr, out_at(kWidth + kKvWidth, kKvWidth)};
    launch_gemm_linear(*queue_, args, with);
  };
  const auto run_added = [&](const Weight& weight, const TestRows& in) {
    LinearArgs args;
    args.x = in.view();
    args.segments = 1;
    args.segment[0] = {weight.view, nullptr, state.view()};
    args.residual = state.array().as<float>();
    launch_gemm_linear(*queue_, args, with);
  };
  const auto run_glu = [&](const Layer& layer, const TestRows& out) {
    LinearGluArgs args;
    args.x = x.view();
    args.gate = layer.gate.view;
    args.up = layer.up.view;
    args.out = out.view();
    launch_gemm_linear_glu(*queue_, args, with);
  };
  const double total = each_layer([&](const Layer& layer, int) {
    run_qkv(layer);
    run_added(layer.o, attended);
    run_glu(layer, inner);
    run_added(layer.down, inner);
  });
  const double qkv_ms = each_layer([&](const Layer& layer, int) { run_qkv(layer); });
  const double o_ms = each_layer([&](const Layer& layer, int) { run_added(layer.o, attended); });
  const double glu_ms = each_layer([&](const Layer& layer, int) { run_glu(layer, inner); });
  const double glu_f32_ms = each_layer([&](const Layer& layer, int) { run_glu(layer, inner_f32); });
  const double down_ms = each_layer([&](const Layer& layer, int) { run_added(layer.down, inner); });

  // The parts: what each does for every slice of a matrix of `weight_rows`.
  const int64_t units = (*queue_).capabilities->multiprocessors;
  const auto slices = [&](int64_t weight_rows, int64_t cols, const std::function<void(int64_t, int64_t)>& slice) {
    const int64_t limit = max_slice_rows(DType::q4_k, cols);
    const int64_t step = slice_rows(rows, weight_rows, limit, units);
    for (int64_t first = 0; first < weight_rows; first += step) slice(first, std::min(step, weight_rows - first));
  };
  const auto decode = [&](const Weight& weight) {
    slices(weight.view.rows, weight.view.cols,
           [&](int64_t first, int64_t count) { launch_decode(*queue_, {weight.view, first, count, scratch.data()}); });
  };
  const double decode_ms = each_layer([&](const Layer& layer, int) {
    for (const Weight* weight : {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
      decode(*weight);
    }
  });
  const auto multiply = [&](const std::byte* weight, int64_t out_cols, const TestRows& in, bool bf16, bool added) {
    GemmProduct product;
    product.shape.bf16_out = bf16;
    product.shape.has_residual = added;
    product.shape.rows = rows;
    product.shape.out_cols = out_cols;
    product.shape.cols = product.shape.weight_stride = product.shape.x_stride = in.view().width;
    product.shape.out_stride = bf16 ? out_cols : kWidth;
    if (!bf16 && !added) product.shape.out_stride = out_cols;
    product.weight = weight;
    product.x = in.view().data;
    product.out = added ? state.view().data : qkv.data();
    if (added) product.residual = state.array().as<float>();
    gemm_.multiply(*queue_, product);
  };
  const TestArray products(rows * 2 * kHidden * 2);
  // Whole matrices in bf16, random, from kSets distinct ones.
  std::vector<std::unique_ptr<TestArray>> plain;
  constexpr int64_t kLayerElements = kWidth * (2 * kWidth + 2 * kKvWidth + 3 * kHidden);
  for (int i = 0; i < kSets; ++i) {
    plain.push_back(std::make_unique<TestArray>(kLayerElements * 2));
    std::byte* to = plain.back()->data();
    const Layer& layer = *layers_[static_cast<size_t>(i)];
    for (const Weight* weight : {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
      launch_decode(*queue_, {weight->view, 0, weight->view.rows, to});
      to += weight->view.rows * weight->view.cols * 2;
    }
  }
  const auto multiply_glu = [&](const std::byte* weight, int64_t out_cols) {
    GemmProduct product;
    product.shape.bf16_out = true;
    product.shape.rows = rows;
    product.shape.out_cols = product.shape.out_stride = out_cols;
    product.shape.cols = product.shape.weight_stride = product.shape.x_stride = kWidth;
    product.weight = weight;
    product.x = x.view().data;
    product.out = products.data();
    gemm_.multiply(*queue_, product);
  };
  const double plain_ms = each_layer([&](const Layer&, int set) {
    const std::byte* at = plain[static_cast<size_t>(set)]->data();
    multiply(at, kWidth + 2 * kKvWidth, x, false, false);
    at += (kWidth + 2 * kKvWidth) * kWidth * 2;
    multiply(at, kWidth, attended, false, true);
    at += kWidth * kWidth * 2;
    multiply_glu(at, 2 * kHidden);
    at += 2 * kHidden * kWidth * 2;
    multiply(at, kWidth, inner, false, true);
  });
  const double sliced_ms = each_layer([&](const Layer&, int) {
    multiply(scratch.data(), kWidth, x, false, false);
    multiply(scratch.data(), 2 * kKvWidth, x, false, false);
    multiply(scratch.data(), kWidth, attended, false, true);
    slices(2 * kHidden, kWidth, [&](int64_t, int64_t count) { multiply_glu(scratch.data(), count); });
    slices(kWidth, kHidden, [&](int64_t, int64_t count) { multiply(scratch.data(), count, inner, false, true); });
  });
  const auto tokens = [&](double ms) { return static_cast<double>(rows) * 1000 / ms; };
  std::printf("rows %lld: %.2f ms, %.0f tokens/s; plain bf16 %.2f ms, %.0f tokens/s\n", static_cast<long long>(rows),
              total, tokens(total), plain_ms, tokens(plain_ms));
  std::printf("  qkv %.2f, o %.2f, gate/up %.2f (f32 out %.2f), down %.2f ms; decoding %.2f, sliced products %.2f ms\n",
              qkv_ms, o_ms, glu_ms, glu_f32_ms, down_ms, decode_ms, sliced_ms);
}

}  // namespace
}  // namespace minfer::cuda

int main(int argc, char** argv) {
  // Lines as they come, also into a pipe that may be cut.
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  minfer::cuda::Bench bench;
  bench.decode_types();
  for (const int64_t count : {1, 16, 2048}) bench.row_ops(count);
  std::vector<int64_t> rows;
  for (int i = 1; i < argc; ++i) rows.push_back(std::stoll(argv[i]));
  if (rows.empty()) rows = {256, 512, 2048};
  for (const int64_t count : rows) {
    if (count > 0) bench.prefill(count);
  }
  return 0;
}
