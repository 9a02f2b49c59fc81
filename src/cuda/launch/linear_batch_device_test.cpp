// The small-batch family on the card, against sums in double precision over the same inputs (q8 up to 8 rows, bf16
// beyond): every type, 2 to 192 rows, odd shapes, several segments, biases, residuals, gated outputs in every format;
// and that a row's bits depend on nothing but its weights and its token.
#include "cuda/launch/linear_batch.hpp"

#include <memory>

#include <gtest/gtest.h>

#include "cuda/kernels/linear/test_data.hpp"
#include "cuda/launch/test_device.hpp"

namespace minfer::cuda {
namespace {

using tensor::DType;

constexpr DType kTypes[] = {DType::q4_k, DType::q6_k, DType::q8_0, DType::q5_0,
                            DType::q4_0, DType::q4_1, DType::q5_k, DType::q5_1};

// Of products of q8 rows: integer sums are exact. Of weights rounded to bf16. Of q8 outputs.
constexpr double kQ8Tolerance = 1e-5;
constexpr double kBfloat16Tolerance = 5e-3;
constexpr double kQ8OutputTolerance = 1.2e-2;

double tolerance_of(int64_t tokens, ActivationFormat out = ActivationFormat::f32) {
  if (out == ActivationFormat::q8) return kQ8OutputTolerance;
  return tokens > kDecodeRows || out == ActivationFormat::bf16 ? kBfloat16Tolerance : kQ8Tolerance;
}

// A matrix in panels, and its values.
struct Weight {
  Weight(DType dtype, int64_t rows, int64_t cols, uint32_t seed) : panels(panel_matrix_bytes(dtype, rows, cols)) {
    std::mt19937 random(seed);
    const std::vector<std::byte> file = testing::random_rows(dtype, rows, cols, random);
    values = testing::decode_rows(dtype, file, rows, cols);
    const TestArray source(file);
    matrix = {dtype, panels.data(), rows, cols};
    const TestQueue queue(false);
    launch_pack(*queue, matrix, source.data(), 0, rows);
    queue.finish();
  }
  TestArray panels;
  std::vector<float> values;
  PanelMatrix matrix;
};

// Tokens, in the format of products of `tokens` rows, and their values. first(n): the first n.
struct Input {
  Input(int64_t tokens, int64_t cols, uint32_t seed) : values(random_floats(tokens * cols, 1.0F, seed)) {
    rows = {activation_format(DType::q4_k, tokens), nullptr, tokens, cols};
    if (rows.format == ActivationFormat::q8) {
      const std::vector<std::byte> bytes = testing::quantize_rows(values, cols);
      values = testing::dequantize_rows(bytes, tokens, cols);
      data = std::make_unique<TestArray>(bytes);
    } else {
      std::vector<std::byte> bytes(static_cast<size_t>(tokens * row_stride(rows.format, cols)), std::byte{0xFF});
      for (int64_t r = 0; r < tokens; ++r) {
        for (int64_t c = 0; c < cols; ++c) {
          float& value = values[static_cast<size_t>(r * cols + c)];
          const uint16_t rounded = tensor::float_to_bfloat16(value);
          value = tensor::bfloat16_to_float(rounded);
          std::memcpy(bytes.data() + r * row_stride(rows.format, cols) + c * 2, &rounded, 2);
        }
      }
      data = std::make_unique<TestArray>(bytes);
    }
    rows.data = data->data();
  }
  Rows first(int64_t count) const {
    Rows some = rows;
    some.rows = count;
    return some;
  }
  std::vector<float> values;
  std::unique_ptr<TestArray> data;
  Rows rows;
};

// [tokens][weight rows], in double precision.
std::vector<double> product(const Weight& weight, const Input& input, const std::vector<float>& bias = {}) {
  const int64_t cols = weight.matrix.cols, count = weight.matrix.rows;
  std::vector<double> out(static_cast<size_t>(input.rows.rows * count));
  for (int64_t r = 0; r < input.rows.rows; ++r) {
    const float* x = &input.values[static_cast<size_t>(r * cols)];
    for (int64_t o = 0; o < count; ++o) {
      const float* w = &weight.values[static_cast<size_t>(o * cols)];
      double sums[8] = {};
      for (int64_t i = 0; i < cols; i += 8) {
        for (int64_t j = 0; j < 8; ++j) sums[j] += double{w[i + j]} * x[i + j];
      }
      double sum = bias.empty() ? 0 : bias[static_cast<size_t>(o)];
      for (const double part : sums) sum += part;
      out[static_cast<size_t>(r * count + o)] = sum;
    }
  }
  return out;
}

// The first rows of `expected`.
void expect_close(const std::vector<float>& values, const std::vector<double>& expected, double tolerance) {
  ASSERT_LE(values.size(), expected.size());
  const std::vector<double> first(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(values.size()));
  EXPECT_LE(relative_error(values, first), tolerance);  // false for a NaN
}

std::vector<float> run(const TestQueue& queue, const Weight& weight, const Rows& x) {
  const TestRows out(ActivationFormat::f32, x.rows, weight.matrix.rows);
  LinearArgs args;
  args.x = x;
  args.segments = 1;
  args.segment[0] = {weight.matrix, nullptr, out.view()};
  launch_linear_batch(*queue, args);
  queue.finish();
  return out.values();
}

void expect_all_rows(DType dtype, int64_t rows, int64_t cols, std::initializer_list<int64_t> counts) {
  const TestQueue queue(true);
  const Weight weight(dtype, rows, cols, 3);
  const Input few(8, cols, 5), many(std::max(counts), cols, 7);
  const std::vector<double> few_expected = product(weight, few), many_expected = product(weight, many);
  for (const int64_t count : counts) {
    SCOPED_TRACE(::testing::Message() << tensor::dtype_info(dtype).name << " " << rows << "x" << cols << ", " << count);
    const bool q8 = count <= kDecodeRows;
    expect_close(run(queue, weight, (q8 ? few : many).first(count)), q8 ? few_expected : many_expected,
                 tolerance_of(count));
  }
}

bool super_blocks(DType dtype) {
  return tensor::dtype_info(dtype).block_elements == 256;
}

TEST(BatchDevice, Small) {
  for (const DType dtype : {DType::q4_k, DType::q6_k, DType::q8_0}) {
    expect_all_rows(dtype, 37, super_blocks(dtype) ? 512 : 352, {5, 17});
  }
}

TEST(BatchDevice, EveryTypeAndRowCount) {
  for (const DType dtype : kTypes) {
    const bool super = super_blocks(dtype);
    expect_all_rows(dtype, 1061, super ? 1280 : 1184,
                    {2, 3, 4, 7, 8, 9, 16, 17, 32, 33, 64, 65, 96, 100, 128, 129, 192});
    expect_all_rows(dtype, 37, super ? 256 : 96, {2, 8, 9, 21, 129});
    expect_all_rows(dtype, 576, super ? 768 : 576, {5, 31});
    expect_all_rows(dtype, 896, super ? 4864 : 896, {6, 80});
  }
}

// Several tiles a block, and the splits of wide rows.
TEST(BatchDevice, ManyRowsAndWideRows) {
  for (const DType dtype : {DType::q4_k, DType::q8_0}) {
    expect_all_rows(dtype, 60009, 256, {4, 11, 40});
    expect_all_rows(dtype, 24, 12288, {8, 100});
  }
  expect_all_rows(DType::q6_k, 2048, 4096, {8, 64});
}

TEST(BatchDevice, SegmentsOfSeveralTypesWithBiases) {
  const TestQueue queue(true);
  const int64_t cols = 1024;
  const Weight q(DType::q4_k, 1000, cols, 1), k(DType::q8_0, 203, cols, 2), v(DType::q6_k, 77, cols, 3),
      last(DType::q4_k, 8, cols, 4);
  const Weight* weights[] = {&q, &k, &v, &last};
  for (const int64_t tokens : {5, 40, 150}) {
    const Input input(tokens, cols, 5);
    LinearArgs args;
    args.x = input.rows;
    args.segments = 4;
    std::vector<std::unique_ptr<TestRows>> out;
    std::vector<std::unique_ptr<TestArray>> biases;
    std::vector<std::vector<float>> values;
    for (int s = 0; s < 4; ++s) {
      const int64_t rows = weights[s]->matrix.rows;
      out.push_back(std::make_unique<TestRows>(ActivationFormat::f32, tokens, rows));
      values.push_back(s == 3 ? std::vector<float>{} : random_floats(rows, 1.0F, 17));
      biases.push_back(std::make_unique<TestArray>(values.back()));
      args.segment[s] = {weights[s]->matrix, s == 3 ? nullptr : biases.back()->as<float>(), out.back()->view()};
    }
    launch_linear_batch(*queue, args);
    queue.finish();
    for (size_t s = 0; s < 4; ++s) {
      SCOPED_TRACE(::testing::Message() << s << ", " << tokens);
      expect_close(out[s]->values(), product(*weights[s], input, values[s]), tolerance_of(tokens));
    }
  }
}

TEST(BatchDevice, ResidualMayBeTheOutput) {
  const TestQueue queue(true);
  for (const int64_t rows : {333, 60000}) {
    const int64_t cols = 512;
    const Weight weight(DType::q4_k, rows, cols, 1);
    for (const int64_t tokens : {6, 20, 131}) {
      if (rows > 1000 && tokens > 100) continue;
      SCOPED_TRACE(::testing::Message() << rows << ", " << tokens);
      const Input input(tokens, cols, 5);
      const std::vector<float> residual = random_floats(tokens * rows, 1.0F, 23);
      const TestRows out(ActivationFormat::f32, tokens, rows, residual);
      LinearArgs args;
      args.x = input.rows;
      args.segments = 1;
      args.segment[0] = {weight.matrix, nullptr, out.view()};
      args.residual = out.array().as<float>();
      launch_linear_batch(*queue, args);
      queue.finish();
      std::vector<double> expected = product(weight, input);
      for (size_t i = 0; i < expected.size(); ++i) expected[i] += residual[i];
      expect_close(out.values(), expected, tolerance_of(tokens));
    }
  }
}

double activated(graph::Activation activation, double x) {
  if (activation == graph::Activation::silu) return x / (1 + std::exp(-x));
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

void expect_glu(DType dtype, int64_t rows, int64_t cols, int64_t tokens, ActivationFormat format,
                graph::Activation activation, bool biased) {
  SCOPED_TRACE(::testing::Message() << tensor::dtype_info(dtype).name << " " << rows << "x" << cols << ", " << tokens
                                    << ", format " << static_cast<int>(format));
  const TestQueue queue(true);
  const Weight gate(dtype, rows, cols, 1), up(dtype, rows, cols, 2);
  const Input input(tokens, cols, 5);
  const std::vector<float> gate_bias = random_floats(rows, 1.0F, 7), up_bias = random_floats(rows, 1.0F, 8);
  const TestArray gate_data(gate_bias), up_data(up_bias);
  const TestRows out(format, tokens, rows);
  LinearGluArgs args;
  args.x = input.rows;
  args.gate = gate.matrix;
  args.up = up.matrix;
  if (biased) args.gate_bias = gate_data.as<float>();
  if (biased) args.up_bias = up_data.as<float>();
  args.activation = activation;
  args.out = out.view();
  launch_linear_glu_batch(*queue, args);
  queue.finish();
  std::vector<double> expected = product(gate, input, biased ? gate_bias : std::vector<float>{});
  const std::vector<double> factor = product(up, input, biased ? up_bias : std::vector<float>{});
  for (size_t i = 0; i < expected.size(); ++i) expected[i] = activated(activation, expected[i]) * factor[i];
  expect_close(out.values(), expected, tolerance_of(tokens, format));
}

TEST(BatchDevice, GluInEveryFormat) {
  using graph::Activation;
  for (const auto format : {ActivationFormat::f32, ActivationFormat::bf16, ActivationFormat::q8}) {
    for (const int64_t tokens : {2, 8, 13, 70}) {
      expect_glu(DType::q4_k, 1000, 512, tokens, format, Activation::silu, true);
      expect_glu(DType::q8_0, 345, 576, tokens, format, Activation::gelu_tanh, false);
    }
    expect_glu(DType::q6_k, 9001, 256, 24, format, Activation::silu, false);
    expect_glu(DType::q4_0, 100, 896, 200, format, Activation::silu, true);
  }
}

// Same bits for a token alone among others of other rows, and when run again.
TEST(BatchDevice, BitsDependOnTheTokenAlone) {
  const TestQueue queue(true);
  for (const DType dtype : kTypes) {
    SCOPED_TRACE(tensor::dtype_info(dtype).name);
    const Weight weight(dtype, 3001, super_blocks(dtype) ? 1536 : 1440, 3);
    const auto same = [&](const Input& all, std::initializer_list<int64_t> counts) {
      const std::vector<float> expected = run(queue, weight, all.rows);
      for (const int64_t count : counts) {
        const std::vector<float> found = run(queue, weight, all.first(count));
        EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * 4), 0) << count;
      }
    };
    same(Input(8, weight.matrix.cols, 5), {2, 5, 8});
    same(Input(192, weight.matrix.cols, 5), {9, 16, 31, 33, 80, 128, 150, 192});
  }
}

// A chain of launches in a graph gives what launches that wait for each other give.
TEST(BatchDevice, ChainsInAGraph) {
  const int64_t width = 1024;
  const Weight gate(DType::q4_k, width, width, 1), up(DType::q4_k, width, width, 2), down(DType::q6_k, width, width, 3);
  for (const int64_t tokens : {4, 33}) {
    const Input input(tokens, width, 5);
    const auto chain = [&](const Queue& queue, const TestRows& hidden, const TestRows& out) {
      LinearGluArgs glu{input.rows,    gate.matrix, up.matrix, nullptr, nullptr, graph::Activation::silu,
                        hidden.view(), {}};
      LinearArgs linear;
      linear.x = hidden.view();
      linear.segments = 1;
      linear.segment[0] = {down.matrix, nullptr, out.view()};
      for (int i = 0; i < 20; ++i) {
        launch_linear_glu_batch(queue, glu);
        launch_linear_batch(queue, linear);
        linear.residual = out.array().as<float>();
      }
    };
    const TestRows hidden(input.rows.format, tokens, width), plain(ActivationFormat::f32, tokens, width),
        chained(ActivationFormat::f32, tokens, width);
    const TestQueue one(false), two(true);
    chain(*one, hidden, plain);
    one.finish();
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    check_status(cudaStreamBeginCapture((*two).stream, cudaStreamCaptureModeGlobal), "test");
    chain(*two, hidden, chained);
    check_status(cudaStreamEndCapture((*two).stream, &graph), "test");
    check_status(cudaGraphInstantiate(&executable, graph, 0), "test");
    for (int repeat = 0; repeat < 10; ++repeat) {
      check_status(cudaGraphLaunch(executable, (*two).stream), "test");
      two.finish();
      EXPECT_EQ(chained.values(), plain.values());
    }
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
  }
}

}  // namespace
}  // namespace minfer::cuda
