// Prefill products against sums in double precision over the file's floats: every type, odd shapes, several slices,
// pairs of segments, biases, residuals, the gated form; eager and in a captured graph. Embeddings too, as they read the
// same panels.
#include "cuda/launch/gemm.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "base/error.hpp"
#include "cuda/kernels/gemm/slices.hpp"
#include "cuda/kernels/linear/test_data.hpp"
#include "cuda/launch/rows.hpp"
#include "cuda/launch/test_device.hpp"

namespace minfer::cuda {
namespace {

using tensor::DType;

constexpr double kBf16Tolerance = 3e-3;  // relative L2: weights rounded to bf16
constexpr double kTf32Tolerance = 1e-3;
constexpr double kGluTolerance = 5e-3;      // and products, and the output
constexpr double kGluQ8Tolerance = 1.5e-2;  // an output of 8 bits

double tolerance(DType dtype) {
  return gemm_is_tf32(dtype) ? kTf32Tolerance : kBf16Tolerance;
}

// A weight in panels, and the file's floats.
struct Weight {
  Weight(const Queue& queue, DType dtype, int64_t rows, int64_t cols, uint32_t seed)
      : panels(static_cast<size_t>(panel_matrix_bytes(dtype, rows, cols))), view{dtype, panels.data(), rows, cols} {
    std::mt19937 random(seed);
    const std::vector<std::byte> file = testing::random_rows(dtype, rows, cols, random);
    const testing::TestBuffer<std::byte> source(file);
    check_status(cudaDeviceSynchronize(), "test/upload");
    launch_pack(queue, view, source.data(), 0, rows);
    check_status(cudaStreamSynchronize(queue.stream), "test/pack");
    values = testing::decode_rows(dtype, file, rows, cols);
  }
  testing::TestBuffer<std::byte> panels;
  PanelMatrix view;
  std::vector<float> values;
};

// x, random and as the device has it (rounded to its format).
struct Input {
  Input(DType dtype, int64_t rows, int64_t cols, uint32_t seed)
      : device(gemm_is_tf32(dtype) ? ActivationFormat::f32 : ActivationFormat::bf16, rows, cols,
               random_floats(rows * cols, 1.0F, seed)),
        values(device.values()) {}
  TestRows device;
  std::vector<float> values;
};

struct Context {
  Context() : workspace(kGemmWorkspaceBytes), gemm(workspace.data()) {}
  LinearScratch with(const TestArray& scratch) { return {scratch.data(), scratch.bytes(), &gemm}; }
  TestArray workspace;
  GemmContext gemm;
};

double dot(const float* a, const float* b, int64_t count) {
  double sums[4] = {};
  for (int64_t i = 0; i < count; ++i) sums[i % 4] += static_cast<double>(a[i]) * b[i];
  return sums[0] + sums[1] + sums[2] + sums[3];
}

// Every `step`th column of x weight^T + bias.
std::vector<double> product(const Input& x, const Weight& weight, const std::vector<float>& bias, int64_t step) {
  const int64_t cols = weight.view.cols;
  std::vector<double> out;
  for (int64_t r = 0; r < x.device.view().rows; ++r) {
    for (int64_t n = 0; n < weight.view.rows; n += step) {
      const double sum = dot(x.values.data() + r * cols, weight.values.data() + n * cols, cols);
      out.push_back(sum + (bias.empty() ? 0.0F : bias[static_cast<size_t>(n)]));
    }
  }
  return out;
}

std::vector<float> columns(const std::vector<float>& values, int64_t width, int64_t step) {
  std::vector<float> some;
  for (size_t row = 0; row < values.size(); row += static_cast<size_t>(width)) {
    for (int64_t n = 0; n < width; n += step) some.push_back(values[row + static_cast<size_t>(n)]);
  }
  return some;
}

int64_t odd_cols(DType dtype) {
  const int32_t block = tensor::dtype_info(dtype).block_elements;
  return block == 1 ? 771 : block == 32 ? 544 : 768;
}

TEST(GemmDevice, EveryTypeWithBiasAndResidual) {
  const TestQueue queue(true);
  Context context;
  for (const testing::LinearType& type : testing::kLinearTypes) {
    SCOPED_TRACE(tensor::dtype_info(type.dtype).name);
    const int64_t rows = 133;
    const int64_t out_cols = 269;
    const int64_t cols = odd_cols(type.dtype);
    const Weight weight(*queue, type.dtype, out_cols, cols, 21);
    const Input x(type.dtype, rows, cols, 22);
    const std::vector<float> bias = random_floats(out_cols, 5.0F, 23);
    const std::vector<float> residual = random_floats(rows * out_cols, 5.0F, 24);
    const TestArray device_bias(bias);
    const TestRows device_residual(ActivationFormat::f32, rows, out_cols, residual);
    const TestRows out(ActivationFormat::f32, rows, out_cols);
    const TestArray scratch(gemm_scratch_bytes(type.dtype, rows, out_cols, cols));
    LinearArgs args;
    args.x = x.device.view();
    args.segments = 1;
    args.segment[0] = {weight.view, device_bias.as<float>(), out.view()};
    args.residual = device_residual.array().as<float>();
    launch_gemm_linear(*queue, args, context.with(scratch));
    queue.finish();
    std::vector<double> expected = product(x, weight, bias, 1);
    for (size_t i = 0; i < expected.size(); ++i) expected[i] += residual[i];
    EXPECT_LT(relative_error(out.values(), expected), tolerance(type.dtype));
  }
}

TEST(GemmDevice, SegmentsOfMixedTypes) {
  const TestQueue queue(true);
  Context context;
  for (const bool biased : {false, true}) {
    const int64_t rows = 200;
    const int64_t cols = 512;
    const Weight q(*queue, DType::q4_k, 512, cols, 31);
    const Weight k(*queue, DType::q4_k, 136, cols, 32);
    const Weight v(*queue, DType::q6_k, 136, cols, 33);
    const Weight* weights[3] = {&q, &k, &v};
    const Input x(DType::q4_k, rows, cols, 34);
    const TestArray scratch(gemm_scratch_bytes(DType::q4_k, rows, 512, cols));
    const TestArray outputs(rows * (512 + 136 + 136) * 4);
    const std::vector<float> bias = random_floats(784, 5.0F, 35);
    const TestArray device_bias(bias);
    LinearArgs args;
    args.x = x.device.view();
    args.segments = 3;
    int64_t first = 0;
    for (int i = 0; i < 3; ++i) {
      args.segment[i].weight = weights[i]->view;
      args.segment[i].bias = biased ? device_bias.as<float>() + first : nullptr;
      args.segment[i].out = {ActivationFormat::f32, outputs.data() + first * rows * 4, rows, weights[i]->view.rows};
      first += weights[i]->view.rows;
    }
    launch_gemm_linear(*queue, args, context.with(scratch));
    queue.finish();
    const std::vector<float> all = outputs.download<float>();
    first = 0;
    for (const Weight* weight : weights) {
      const int64_t width = weight->view.rows;
      const std::vector<float> out(all.begin() + first * rows, all.begin() + (first + width) * rows);
      const std::vector<float> added =
          biased ? std::vector<float>(bias.begin() + first, bias.begin() + first + width) : std::vector<float>();
      EXPECT_LT(relative_error(out, product(x, *weight, added, 1)), kBf16Tolerance) << width << " biased " << biased;
      first += width;
    }
  }
}

TEST(GemmDevice, ManySlicesAddToTheirOutputInPlace) {
  const TestQueue queue(true);
  Context context;
  const int64_t rows = 150;
  const int64_t cols = 4096;
  const int64_t out_cols = 26633;
  const int64_t step = 61;
  const Weight weight(*queue, DType::q4_k, out_cols, cols, 41);
  const Input x(DType::q4_k, rows, cols, 42);
  const std::vector<float> bias = random_floats(out_cols, 5.0F, 43);
  const std::vector<float> residual = random_floats(rows * out_cols, 5.0F, 44);
  const TestArray device_bias(bias);
  const TestRows out(ActivationFormat::f32, rows, out_cols, residual);
  const TestArray scratch(gemm_scratch_bytes(DType::q4_k, rows, out_cols, cols));
  ASSERT_LT(max_slice_rows(DType::q4_k, cols), out_cols);
  LinearArgs args;
  args.x = x.device.view();
  args.segments = 1;
  args.segment[0] = {weight.view, device_bias.as<float>(), out.view()};
  args.residual = out.array().as<float>();
  launch_gemm_linear(*queue, args, context.with(scratch));
  queue.finish();
  std::vector<double> expected = product(x, weight, bias, step);
  const std::vector<float> before = columns(residual, out_cols, step);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += before[i];
  const std::vector<float> values = out.values();
  EXPECT_LT(relative_error(columns(values, out_cols, step), expected), kBf16Tolerance);
  for (const float value : values) ASSERT_FALSE(std::isnan(value));
}

double activate(graph::Activation activation, double x) {
  if (activation == graph::Activation::silu) return x / (1.0 + std::exp(-x));
  return 0.5 * x * (1.0 + std::tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

struct GluCase {
  DType gate, up;
  int64_t rows, out_cols, cols, step;
  graph::Activation activation;
  bool biased;
};

TEST(GemmDevice, GatedFormInEveryFormat) {
  const TestQueue queue(true);
  Context context;
  constexpr GluCase kCases[] = {
      {DType::q4_k, DType::q4_k, 133, 301, 512, 1, graph::Activation::silu, false},
      {DType::q4_k, DType::q6_k, 129, 37, 768, 1, graph::Activation::gelu_tanh, true},
      {DType::bf16, DType::bf16, 140, 264, 771, 1, graph::Activation::gelu_tanh, false},
      {DType::f16, DType::f16, 129, 70, 771, 1, graph::Activation::silu, true},
      {DType::q8_0, DType::q8_0, 2100, 40, 96, 1, graph::Activation::silu, true},
      {DType::q6_k, DType::q6_k, 131, 17001, 4096, 197, graph::Activation::silu, false},
  };
  for (const GluCase& glu : kCases) {
    SCOPED_TRACE(std::to_string(glu.out_cols));
    // Weights are small, so that gates are of the activation's interesting size.
    const Weight gate(*queue, glu.gate, glu.out_cols, glu.cols, 51);
    const Weight up(*queue, glu.up, glu.out_cols, glu.cols, 52);
    const Input x(glu.gate, glu.rows, glu.cols, 53);
    const std::vector<float> gate_bias = glu.biased ? random_floats(glu.out_cols, 1.0F, 54) : std::vector<float>();
    const std::vector<float> up_bias = glu.biased ? random_floats(glu.out_cols, 1.0F, 55) : std::vector<float>();
    const TestArray device_gate_bias(gate_bias);
    const TestArray device_up_bias(up_bias);
    const TestArray scratch(gemm_glu_scratch_bytes(glu.gate, glu.rows, glu.out_cols, glu.cols));
    std::vector<double> expected = product(x, gate, gate_bias, glu.step);
    const std::vector<double> ups = product(x, up, up_bias, glu.step);
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = activate(glu.activation, expected[i]) * ups[i];
    for (const ActivationFormat format : {ActivationFormat::f32, ActivationFormat::bf16, ActivationFormat::q8}) {
      const TestRows out(format, glu.rows, glu.out_cols);
      LinearGluArgs args;
      args.x = x.device.view();
      args.gate = gate.view;
      args.up = up.view;
      if (glu.biased) {
        args.gate_bias = device_gate_bias.as<float>();
        args.up_bias = device_up_bias.as<float>();
      }
      args.activation = glu.activation;
      args.out = out.view();
      launch_gemm_linear_glu(*queue, args, context.with(scratch));
      queue.finish();
      const double error = relative_error(columns(out.values(), glu.out_cols, glu.step), expected);
      EXPECT_LT(error, format == ActivationFormat::q8 ? kGluQ8Tolerance : kGluTolerance)
          << "format " << static_cast<int>(format);
    }
  }
}

// Runs `work` in a graph twice.
void replay(const Queue& queue, const std::function<void()>& work) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  check_status(cudaStreamBeginCapture(queue.stream, cudaStreamCaptureModeThreadLocal), "test/capture");
  work();
  check_status(cudaStreamEndCapture(queue.stream, &graph), "test/capture");
  check_status(cudaGraphInstantiate(&executable, graph, 0), "test/instantiate");
  for (int i = 0; i < 2; ++i) check_status(cudaGraphLaunch(executable, queue.stream), "test/replay");
  check_status(cudaStreamSynchronize(queue.stream), "test/replay");
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
}

TEST(GemmDevice, ACapturedChainGivesTheSameBits) {
  const TestQueue queue(true);
  const int64_t rows = 300;
  const int64_t width = 1024;
  const int64_t hidden = 1536;
  const Weight gate(*queue, DType::q4_k, hidden, width, 61);
  const Weight up(*queue, DType::q4_k, hidden, width, 62);
  const Weight down(*queue, DType::q6_k, width, hidden, 63);
  const TestRows x(ActivationFormat::f32, rows, width, random_floats(rows * width, 1.0F, 64));
  const TestArray norm(random_floats(width, 1.0F, 65));
  const TestArray scratch(gemm_glu_scratch_bytes(DType::q4_k, rows, hidden, width) +
                          gemm_scratch_bytes(DType::q6_k, rows, width, hidden));
  const TestRows normed(ActivationFormat::bf16, rows, width);
  const TestRows inner(ActivationFormat::bf16, rows, hidden);
  const TestRows eager(ActivationFormat::f32, rows, width);
  const TestRows captured(ActivationFormat::f32, rows, width);
  const auto layer = [&](Context& context, const TestRows& out) {
    launch_rms_norm(*queue, {x.view(), norm.as<float>(), width, 1e-5F, normed.view()});
    LinearGluArgs glu;
    glu.x = normed.view();
    glu.gate = gate.view;
    glu.up = up.view;
    glu.out = inner.view();
    launch_gemm_linear_glu(*queue, glu, context.with(scratch));
    LinearArgs args;
    args.x = inner.view();
    args.segments = 1;
    args.segment[0] = {down.view, nullptr, out.view()};
    args.residual = x.array().as<float>();
    launch_gemm_linear(*queue, args, context.with(scratch));
  };
  // The graph first: no algorithm has been chosen yet.
  Context fresh;
  replay(*queue, [&] { layer(fresh, captured); });
  Context context;
  layer(context, eager);
  queue.finish();
  EXPECT_EQ(captured.bytes(), eager.bytes());
  for (const float value : eager.values()) ASSERT_FALSE(std::isnan(value));
}

TEST(GemmDevice, AnArmedFaultIsAnErrorOfItsSite) {
  TestQueue queue(false);
  Context context;
  const Weight weight(*queue, DType::q8_0, 64, 64, 71);
  const Input x(DType::q8_0, 130, 64, 72);
  const TestRows out(ActivationFormat::bf16, 130, 64);
  const TestArray scratch(gemm_glu_scratch_bytes(DType::q8_0, 130, 64, 64));
  LinearGluArgs args;
  args.x = x.device.view();
  args.gate = weight.view;
  args.up = weight.view;
  args.out = out.view();
  for (const char* site : {"gemm/decode", "gemm/matmul", "gemm/glu"}) {
    queue.faults().arm(site);
    EXPECT_THROW(launch_gemm_linear_glu(*queue, args, context.with(scratch)), Error) << site;
  }
  launch_gemm_linear_glu(*queue, args, context.with(scratch));
  queue.finish();
}

TEST(RowsDevice, EmbedEveryTypeExactly) {
  const TestQueue queue(true);
  for (const testing::LinearType& type : testing::kLinearTypes) {
    SCOPED_TRACE(tensor::dtype_info(type.dtype).name);
    const int64_t cols = odd_cols(type.dtype);
    const Weight table(*queue, type.dtype, 101, cols, 81);
    const std::vector<int32_t> ids = {0, 100, 57, 101, -1, 8};
    const TestArray device_ids(ids);
    const TestRows out(ActivationFormat::f32, 6, cols);
    launch_embed(*queue, {table.view, device_ids.as<int32_t>(), 2.5F, out.view()});
    queue.finish();
    const std::vector<float> values = out.values();
    for (size_t r = 0; r < ids.size(); ++r) {
      const bool there = ids[r] >= 0 && ids[r] < 101;
      for (int64_t c = 0; c < cols; ++c) {
        const float expected = there ? 2.5F * table.values[static_cast<size_t>(ids[r] * cols + c)] : 0.0F;
        ASSERT_EQ(values[r * static_cast<size_t>(cols) + static_cast<size_t>(c)], expected) << r << " " << c;
      }
    }
  }
}

}  // namespace
}  // namespace minfer::cuda
