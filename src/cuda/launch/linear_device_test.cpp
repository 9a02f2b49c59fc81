// The decode family on the card, against sums in double precision over the same quantized inputs: every type, 1 to 8
// rows, odd shapes, several segments, biases, residuals, gated outputs in every format; and that a row's bits depend on
// nothing but its weights and its token.
#include "cuda/launch/linear.hpp"

#include <memory>

#include <gtest/gtest.h>

#include "cuda/kernels/linear/device_test_support.hpp"
#include "cuda/kernels/linear/test_data.hpp"
#include "cuda/launch/linear_decode.hpp"

namespace minfer::cuda {
namespace {

using tensor::DType;
using testing::TestBuffer;

// Integer sums are exact; what is left are f32 roundings.
constexpr double kTolerance = 2e-6;
// Of bf16 outputs, and of q8 ones, whose blocks keep 7 bits of their greatest.
constexpr double kBfloat16Tolerance = 3e-3;
constexpr double kQ8Tolerance = 1e-2;

const Capabilities& capabilities() {
  static const Capabilities found = testing::test_capabilities();
  return found;
}

// A matrix in panels, and its values.
struct Weight {
  Weight(DType dtype, int64_t rows, int64_t cols, uint32_t seed)
      : panels(static_cast<size_t>(panel_matrix_bytes(dtype, rows, cols))) {
    std::mt19937 random(seed);
    const std::vector<std::byte> file = testing::random_rows(dtype, rows, cols, random);
    values = testing::decode_rows(dtype, file, rows, cols);
    const TestBuffer<std::byte> source(file);
    matrix = {dtype, panels.data(), rows, cols};
    const Queue queue{nullptr, &capabilities()};
    launch_pack(queue, matrix, source.data(), 0, rows);
    check_status(cudaDeviceSynchronize(), "test");
  }
  TestBuffer<std::byte> panels;
  std::vector<float> values;
  PanelMatrix matrix;
};

std::vector<float> random_floats(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// Activations as a type reads them, and their values.
struct Input {
  Input(DType dtype, int64_t row_count, int64_t cols, uint32_t seed) {
    values = random_floats(static_cast<size_t>(row_count * cols), seed);
    rows.format = activation_format(dtype, row_count);
    rows.rows = row_count;
    rows.width = cols;
    std::vector<std::byte> bytes;
    if (rows.format == ActivationFormat::q8) {
      bytes = testing::quantize_rows(values, cols);
      values = testing::dequantize_rows(bytes, row_count, cols);
    } else {
      const int64_t stride = row_stride(ActivationFormat::f32, cols);
      bytes.assign(static_cast<size_t>(row_count * stride), std::byte{0xFF});
      for (int64_t r = 0; r < row_count; ++r) {
        std::memcpy(bytes.data() + r * stride, &values[static_cast<size_t>(r * cols)], static_cast<size_t>(cols * 4));
      }
    }
    data = std::make_unique<TestBuffer<std::byte>>(bytes);
    rows.data = data->data();
  }
  std::unique_ptr<TestBuffer<std::byte>> data;
  std::vector<float> values;
  Rows rows;
};

// [rows][weight rows], in double precision.
std::vector<double> product(const Weight& weight, const Input& input, const std::vector<float>& bias = {}) {
  const int64_t rows = input.rows.rows, cols = weight.matrix.cols, count = weight.matrix.rows;
  std::vector<double> out(static_cast<size_t>(rows * count));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t o = 0; o < count; ++o) {
      double sum = bias.empty() ? 0 : bias[static_cast<size_t>(o)];
      for (int64_t i = 0; i < cols; ++i) {
        sum +=
            double{weight.values[static_cast<size_t>(o * cols + i)]} * input.values[static_cast<size_t>(r * cols + i)];
      }
      out[static_cast<size_t>(r * count + o)] = sum;
    }
  }
  return out;
}

// f32 outputs, NaN before the launch.
struct Output {
  Output(ActivationFormat format, int64_t row_count, int64_t width)
      : data(static_cast<size_t>(row_count * row_stride(format, width))) {
    rows = {format, data.data(), row_count, width};
  }
  std::vector<float> read() const {
    check_status(cudaDeviceSynchronize(), "test");
    const std::vector<std::byte> bytes = data.read();
    if (rows.format == ActivationFormat::q8) return testing::dequantize_rows(bytes, rows.rows, rows.width);
    std::vector<float> values(static_cast<size_t>(rows.rows * rows.width));
    for (int64_t r = 0; r < rows.rows; ++r) {
      for (int64_t i = 0; i < rows.width; ++i) {
        const std::byte* row = bytes.data() + r * row_stride(rows.format, rows.width);
        float& value = values[static_cast<size_t>(r * rows.width + i)];
        if (rows.format == ActivationFormat::f32) {
          std::memcpy(&value, row + i * 4, 4);
        } else {
          uint16_t bits = 0;
          std::memcpy(&bits, row + i * 2, 2);
          value = tensor::bfloat16_to_float(bits);
        }
      }
    }
    return values;
  }
  TestBuffer<std::byte> data;
  Rows rows;
};

void expect_close(const std::vector<float>& values, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(values.size(), expected.size());
  double error = 0, norm = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_FALSE(std::isnan(values[i])) << "at " << i << " of " << values.size();
    error += (values[i] - expected[i]) * (values[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  EXPECT_LE(std::sqrt(error / norm), tolerance);
}

Queue queue_of(bool chained) {
  return {nullptr, &capabilities(), nullptr, chained && capabilities().tier >= Tier::hopper};
}

std::vector<float> run_linear(const Weight& weight, const Input& input, const DecodeTuning& tuning = {}) {
  const Output out(ActivationFormat::f32, input.rows.rows, weight.matrix.rows);
  LinearArgs args;
  args.x = input.rows;
  args.segments = 1;
  args.segment[0] = {weight.matrix, nullptr, out.rows};
  launch_linear_decode(queue_of(true), args, tuning);
  return out.read();
}

TEST(LinearDevice, EveryTypeAndRowCount) {
  for (const testing::LinearType& type : testing::kLinearTypes) {
    if (!decode_pairs(type.dtype, type.dtype)) continue;
    const bool super = tensor::dtype_info(type.dtype).block_elements == 256;
    for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{1061, super ? 1280 : 1184}, {37, super ? 256 : 96}}) {
      const Weight weight(type.dtype, rows, cols, 3);
      for (int64_t tokens = 1; tokens <= 8; ++tokens) {
        SCOPED_TRACE(::testing::Message() << tensor::dtype_info(type.dtype).name << " " << cols << ", " << tokens);
        const Input input(type.dtype, tokens, cols, 5);
        expect_close(run_linear(weight, input), product(weight, input), kTolerance);
      }
    }
  }
}

// Many panels a block: several groups of slots. And wide rows: more than a pass where they don't fit.
TEST(LinearDevice, ManyRowsAndWideRows) {
  for (const DType dtype : {DType::q4_k, DType::q6_k, DType::q8_0, DType::bf16}) {
    SCOPED_TRACE(tensor::dtype_info(dtype).name);
    const Weight tall(dtype, 50009, 256, 3);
    const Input narrow(dtype, 3, 256, 5);
    expect_close(run_linear(tall, narrow), product(tall, narrow), kTolerance);
    const Weight parts(dtype, 1061, 12288, 3);
    const Input some(dtype, 2, 12288, 5);
    expect_close(run_linear(parts, some), product(parts, some), kTolerance);
    const Weight broad(dtype, 24, 28672, 3);
    const Input wide(dtype, 7, 28672, 5);
    expect_close(run_linear(broad, wide), product(broad, wide), 2 * kTolerance);
  }
}

TEST(LinearDevice, PlainColumnsOfAnyNumber) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    if (!decode_pairs(dtype, dtype)) continue;
    for (const int64_t cols : {int64_t{1}, int64_t{77}, int64_t{301}}) {
      SCOPED_TRACE(::testing::Message() << tensor::dtype_info(dtype).name << " " << cols);
      const Weight weight(dtype, 19, cols, 3);
      const Input input(dtype, 2, cols, 5);
      expect_close(run_linear(weight, input), product(weight, input), kTolerance);
    }
  }
}

// The norm's input as a product multiplies it: x * w, of quantized types in blocks of 8 bits; and what is left to do.
struct NormedInput {
  NormedInput(DType dtype, int64_t row_count, int64_t cols, uint32_t seed)
      : input(DType::f32, row_count, cols, seed), weight(random_floats(static_cast<size_t>(cols), seed + 1)) {
    for (int64_t r = 0; r < row_count; ++r) {
      double squares = 0;
      for (int64_t i = 0; i < cols; ++i) {
        float& x = input.values[static_cast<size_t>(r * cols + i)];
        squares += double{x} * x;
        x *= weight[static_cast<size_t>(i)];
      }
      factors.push_back(1 / std::sqrt(squares / static_cast<double>(cols) + kEps));
    }
    if (activation_format(dtype, row_count) == ActivationFormat::q8) {
      input.values = testing::dequantize_rows(testing::quantize_rows(input.values, cols), row_count, cols);
    }
  }
  static constexpr float kEps = 1e-3F;
  Input input;
  std::vector<float> weight;
  std::vector<double> factors;
};

TEST(LinearDevice, NormsOfItsInput) {
  // One of many quants may be rounded the other way.
  constexpr double kQuantsTolerance = 5e-4;
  for (const DType dtype : {DType::q4_k, DType::q8_0, DType::bf16, DType::f16}) {
    const bool plain = panel_bytes(dtype, 512) >= 8 * 2 * 512;
    for (const int64_t cols : {int64_t{256}, int64_t{plain ? 1001 : 1536}, int64_t{4096}, int64_t{8192}}) {
      const Weight weight(dtype, 203, cols, 3);
      for (const int64_t tokens : {1, 2}) {
        SCOPED_TRACE(::testing::Message() << tensor::dtype_info(dtype).name << " " << cols << ", " << tokens);
        const NormedInput normed(dtype, tokens, cols, 5);
        const TestBuffer<float> norm(normed.weight);
        const Output out(ActivationFormat::f32, tokens, weight.matrix.rows);
        LinearArgs args;
        args.x = normed.input.rows;
        args.segments = 1;
        args.segment[0] = {weight.matrix, nullptr, out.rows};
        args.norm = {norm.data(), NormedInput::kEps};
        launch_linear(queue_of(true), args, {});
        std::vector<double> expected = product(weight, normed.input);
        for (size_t i = 0; i < expected.size(); ++i) {
          expected[i] *= normed.factors[i / static_cast<size_t>(weight.matrix.rows)];
        }
        expect_close(out.read(), expected, plain ? kTolerance : kQuantsTolerance);
      }
    }
  }
}

TEST(LinearDevice, SegmentsOfSeveralTypesWithBiases) {
  const int64_t cols = 1024, tokens = 3;
  const Weight q(DType::q4_k, 1000, cols, 1), k(DType::q8_0, 203, cols, 2), v(DType::q6_k, 77, cols, 3),
      last(DType::q4_k, 8, cols, 4);
  const Input input(DType::q4_k, tokens, cols, 5);
  const Weight* weights[] = {&q, &k, &v, &last};
  LinearArgs args;
  args.x = input.rows;
  args.segments = 4;
  std::vector<std::unique_ptr<Output>> out;
  std::vector<std::unique_ptr<TestBuffer<float>>> biases;
  std::vector<std::vector<float>> bias_values;
  for (int s = 0; s < 4; ++s) {
    const int64_t rows = weights[s]->matrix.rows;
    out.push_back(std::make_unique<Output>(ActivationFormat::f32, tokens, rows));
    bias_values.push_back(random_floats(static_cast<size_t>(rows), 17));
    biases.push_back(std::make_unique<TestBuffer<float>>(bias_values.back()));
    args.segment[s] = {weights[s]->matrix, s == 3 ? nullptr : biases.back()->data(), out.back()->rows};
    if (s == 3) bias_values.back().clear();
  }
  launch_linear(queue_of(true), args, {});
  for (size_t s = 0; s < 4; ++s) {
    SCOPED_TRACE(s);
    expect_close(out[s]->read(), product(*weights[s], input, bias_values[s]), kTolerance);
  }
}

TEST(LinearDevice, ResidualMayBeTheOutput) {
  const int64_t cols = 512, rows = 333, tokens = 5;
  const Weight weight(DType::q4_k, rows, cols, 1);
  const Input input(DType::q4_k, tokens, cols, 5);
  const Output out(ActivationFormat::f32, tokens, rows);
  const int64_t stride = row_stride(ActivationFormat::f32, rows) / 4;
  const std::vector<float> residual = random_floats(static_cast<size_t>(tokens * stride), 23);
  check_status(cudaMemcpy(out.rows.data, residual.data(), residual.size() * 4, cudaMemcpyHostToDevice), "test");
  LinearArgs args;
  args.x = input.rows;
  args.segments = 1;
  args.segment[0] = {weight.matrix, nullptr, out.rows};
  args.residual = reinterpret_cast<const float*>(out.rows.data);
  launch_linear(queue_of(true), args, {});
  std::vector<double> expected = product(weight, input);
  for (int64_t r = 0; r < tokens; ++r) {
    for (int64_t i = 0; i < rows; ++i) {
      expected[static_cast<size_t>(r * rows + i)] += residual[static_cast<size_t>(r * stride + i)];
    }
  }
  expect_close(out.read(), expected, kTolerance);
}

double activated(graph::Activation activation, double x) {
  if (activation == graph::Activation::silu) return x / (1 + std::exp(-x));
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

void expect_glu(DType gate_type, DType up_type, int64_t rows, int64_t cols, int64_t tokens, ActivationFormat format,
                graph::Activation activation, bool biased) {
  SCOPED_TRACE(::testing::Message() << tensor::dtype_info(gate_type).name << " " << rows << "x" << cols << ", "
                                    << tokens << ", format " << static_cast<int>(format));
  const Weight gate(gate_type, rows, cols, 1), up(up_type, rows, cols, 2);
  const Input input(gate_type, tokens, cols, 5);
  const std::vector<float> gate_bias = random_floats(static_cast<size_t>(rows), 7);
  const std::vector<float> up_bias = random_floats(static_cast<size_t>(rows), 8);
  const TestBuffer<float> gate_bias_data(gate_bias), up_bias_data(up_bias);
  const Output out(format, tokens, rows);
  LinearGluArgs args;
  args.x = input.rows;
  args.gate = gate.matrix;
  args.up = up.matrix;
  if (biased) args.gate_bias = gate_bias_data.data();
  if (biased) args.up_bias = up_bias_data.data();
  args.activation = activation;
  args.out = out.rows;
  launch_linear_glu(queue_of(true), args, {});
  std::vector<double> expected = product(gate, input, biased ? gate_bias : std::vector<float>{});
  const std::vector<double> factor = product(up, input, biased ? up_bias : std::vector<float>{});
  for (size_t i = 0; i < expected.size(); ++i) expected[i] = activated(activation, expected[i]) * factor[i];
  expect_close(out.read(), expected,
               format == ActivationFormat::f32    ? 2 * kTolerance
               : format == ActivationFormat::bf16 ? kBfloat16Tolerance
                                                  : kQ8Tolerance);
}

TEST(LinearDevice, GluInEveryFormat) {
  using graph::Activation;
  for (const auto format : {ActivationFormat::f32, ActivationFormat::bf16, ActivationFormat::q8}) {
    for (const int64_t tokens : {1, 3, 8}) {
      expect_glu(DType::q4_k, DType::q4_k, 1000, 512, tokens, format, Activation::silu, true);
      expect_glu(DType::q4_k, DType::q6_k, 5000, 512, tokens, format, Activation::gelu_tanh, false);
      expect_glu(DType::q8_0, DType::q8_0, 100, 576, tokens, format, Activation::silu, false);
      expect_glu(DType::bf16, DType::bf16, 345, 576, tokens, format, Activation::silu, true);
    }
  }
}

// A q8 row is the bits that quantizing the f32 output gives.
TEST(LinearDevice, GluQ8IsTheQuantizedOutput) {
  const int64_t rows = 1000, cols = 512, tokens = 2;
  const Weight gate(DType::q4_k, rows, cols, 1), up(DType::q4_k, rows, cols, 2);
  const Input input(DType::q4_k, tokens, cols, 5);
  const Output f32(ActivationFormat::f32, tokens, rows), q8(ActivationFormat::q8, tokens, rows);
  LinearGluArgs args{input.rows, gate.matrix, up.matrix, nullptr, nullptr, graph::Activation::silu, f32.rows, {}};
  launch_linear_glu(queue_of(true), args, {});
  args.out = q8.rows;
  launch_linear_glu(queue_of(true), args, {});
  const std::vector<std::byte> expected = testing::quantize_rows(f32.read(), rows);
  const std::vector<std::byte> found = q8.data.read();
  EXPECT_EQ(std::memcmp(found.data(), expected.data(), expected.size()), 0);
}

// Same bits for a token alone and among others, for any cut, and when run again.
TEST(LinearDevice, BitsDependOnTheTokenAlone) {
  const DecodeTuning tunings[] = {{}, {48 * 1024, 17 * 1024, 2}, {64 * 1024, 28 * 1024, 1}};
  for (const testing::LinearType& type : testing::kLinearTypes) {
    if (!decode_pairs(type.dtype, type.dtype)) continue;
    SCOPED_TRACE(tensor::dtype_info(type.dtype).name);
    const int64_t rows = 3001, cols = tensor::dtype_info(type.dtype).block_elements == 256 ? 1536 : 1440;
    const Weight weight(type.dtype, rows, cols, 3);
    const Input all(type.dtype, 8, cols, 5);
    const std::vector<float> expected = run_linear(weight, all);
    for (int64_t tokens = 1; tokens <= 8; ++tokens) {
      Input some(type.dtype, 1, cols, 5);
      some.rows = all.rows;
      some.rows.rows = tokens;
      for (const DecodeTuning& tuning : tunings) {
        const std::vector<float> found = run_linear(weight, some, tuning);
        EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * 4), 0) << tokens;
      }
    }
  }
}

// A chain of launches in a graph gives what launches that wait for each other give.
TEST(LinearDevice, ChainsInAGraph) {
  const int64_t width = 1024;
  const Weight gate(DType::q4_k, width, width, 1), up(DType::q4_k, width, width, 2), down(DType::q6_k, width, width, 3);
  const Input input(DType::q4_k, 1, width, 5);
  const auto run = [&](const Queue& queue, const Output& hidden, const Output& out) {
    LinearGluArgs glu{input.rows, gate.matrix, up.matrix, nullptr, nullptr, graph::Activation::silu, hidden.rows, {}};
    LinearArgs linear;
    linear.x = hidden.rows;
    linear.segments = 1;
    linear.segment[0] = {down.matrix, nullptr, out.rows};
    for (int i = 0; i < 20; ++i) {
      launch_linear_glu(queue, glu, {});
      launch_linear(queue, linear, {});
      linear.residual = reinterpret_cast<const float*>(out.rows.data);
    }
  };
  const Output hidden(ActivationFormat::q8, 1, width), plain(ActivationFormat::f32, 1, width),
      chained(ActivationFormat::f32, 1, width);
  run(queue_of(false), hidden, plain);
  const std::vector<float> expected = plain.read();
  cudaStream_t stream = nullptr;
  check_status(cudaStreamCreate(&stream), "test");
  Queue queue = queue_of(true);
  queue.stream = stream;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  check_status(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "test");
  run(queue, hidden, chained);
  check_status(cudaStreamEndCapture(stream, &graph), "test");
  check_status(cudaGraphInstantiate(&executable, graph, 0), "test");
  for (int repeat = 0; repeat < 10; ++repeat) {
    check_status(cudaGraphLaunch(executable, stream), "test");
    EXPECT_EQ(chained.read(), expected);
  }
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

}  // namespace
}  // namespace minfer::cuda
