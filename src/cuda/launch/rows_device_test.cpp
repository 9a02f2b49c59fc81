// The kernels on rows against plain loops in double precision; q8 rows bit for bit. Needs a card.
// Outputs are poisoned before each launch.
#include "cuda/launch/rows.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "base/error.hpp"
#include "cuda/launch/test_device.hpp"

namespace minfer::cuda {
namespace {

constexpr double kF32Tolerance = 1e-6;   // relative L2
constexpr double kBf16Tolerance = 4e-3;  // one rounding to 8 bits
constexpr double kQ8Tolerance = 1.2e-2;  // one rounding to 1/127 of a block's largest

double tolerance(ActivationFormat format) {
  if (format == ActivationFormat::f32) return kF32Tolerance;
  return format == ActivationFormat::bf16 ? kBf16Tolerance : kQ8Tolerance;
}

constexpr ActivationFormat kFormats[] = {ActivationFormat::f32, ActivationFormat::bf16, ActivationFormat::q8};

struct Shape {
  int64_t rows;
  int64_t width;
};
constexpr Shape kShapes[] = {{1, 4096}, {3, 4096}, {700, 4096}, {2, 1},     {5, 31},    {7, 33},
                             {1, 576},  {9, 1030}, {2, 12288},  {1, 40004}, {600, 128}, {1, 20000}};

struct Q8Reference {
  std::vector<int8_t> quants;
  std::vector<float> scales;  // d, d * sum
};

Q8Reference q8_reference(const float* x, int64_t width) {
  Q8Reference row;
  row.quants.assign(static_cast<size_t>(q8_quants_bytes(width)), 0);
  for (int64_t block = 0; block < q8_blocks(width); ++block) {
    float largest = 0;
    bool finite = true;
    const int64_t end = std::min(width, (block + 1) * kQ8Block);
    for (int64_t i = block * kQ8Block; i < end; ++i) {
      finite = finite && std::isfinite(x[i]);
      largest = std::max(largest, std::fabs(x[i]));
    }
    const float d = largest / 127.0F;
    int32_t sum = 0;
    if (finite && d >= std::numeric_limits<float>::min()) {
      for (int64_t i = block * kQ8Block; i < end; ++i) {
        const auto quant = static_cast<int32_t>(std::nearbyint(x[i] / d));
        row.quants[static_cast<size_t>(i)] = static_cast<int8_t>(quant);
        sum += quant;
      }
      row.scales.insert(row.scales.end(), {d, d * static_cast<float>(sum)});
    } else {
      const float nothing = finite ? 0.0F : std::numeric_limits<float>::quiet_NaN();
      row.scales.insert(row.scales.end(), {nothing, nothing});
    }
  }
  return row;
}

void expect_q8(const std::vector<std::byte>& bytes, const std::vector<float>& x, int64_t rows, int64_t width) {
  for (int64_t r = 0; r < rows; ++r) {
    const Q8Reference expected = q8_reference(x.data() + r * width, width);
    const std::byte* row = bytes.data() + r * row_stride(ActivationFormat::q8, width);
    ASSERT_EQ(std::memcmp(row, expected.quants.data(), expected.quants.size()), 0) << "quants of row " << r;
    const auto* scales = reinterpret_cast<const float*>(row + q8_quants_bytes(width));
    for (size_t i = 0; i < expected.scales.size(); ++i) {
      if (std::isnan(expected.scales[i])) {
        ASSERT_TRUE(std::isnan(scales[i])) << r << " " << i;
      } else {
        ASSERT_EQ(scales[i], expected.scales[i]) << r << " " << i;
      }
    }
  }
}

TEST(RowsDevice, ConvertGivesTheSameNumbersAsTheHost) {
  const TestQueue queue(true);
  for (const Shape& shape : kShapes) {
    std::vector<float> x = random_floats(shape.rows * shape.width, 3.0F, 1);
    if (shape.width > 4000) {
      std::fill_n(x.begin() + 64, 32, 0.0F);
      x[130] = std::numeric_limits<float>::infinity();
      x[200] = std::numeric_limits<float>::quiet_NaN();
      std::fill_n(x.begin() + 256, 32, 1e-41F);
      x[330] = -1e30F;
    }
    const TestRows in(ActivationFormat::f32, shape.rows, shape.width, x);
    const TestRows q8(ActivationFormat::q8, shape.rows, shape.width);
    const TestRows bf16(ActivationFormat::bf16, shape.rows, shape.width);
    launch_convert(*queue, in.view(), q8.view());
    launch_convert(*queue, in.view(), bf16.view());
    queue.finish();
    expect_q8(q8.bytes(), x, shape.rows, shape.width);
    const std::vector<float> rounded = bf16.values();
    for (size_t i = 0; i < x.size(); ++i) {
      const float expected = tensor::bfloat16_to_float(tensor::float_to_bfloat16(x[i]));
      ASSERT_TRUE(rounded[i] == expected || (std::isnan(rounded[i]) && std::isnan(expected))) << i;
    }
  }
}

std::vector<double> rms_norm_reference(const std::vector<float>& x, const std::vector<float>& weight, float eps) {
  std::vector<double> out(x.size());
  const size_t group = weight.size();
  for (size_t start = 0; start < x.size(); start += group) {
    double sum = 0;
    for (size_t i = 0; i < group; ++i) sum += static_cast<double>(x[start + i]) * x[start + i];
    const double factor = 1.0 / std::sqrt(sum / static_cast<double>(group) + eps);
    for (size_t i = 0; i < group; ++i) out[start + i] = x[start + i] * factor * weight[i];
  }
  return out;
}

TEST(RowsDevice, RmsNormInEveryFormat) {
  const TestQueue queue(true);
  for (const Shape& shape : kShapes) {
    const std::vector<float> x = random_floats(shape.rows * shape.width, 2.0F, 2);
    const std::vector<float> weight = random_floats(shape.width, 1.0F, 3);
    const std::vector<double> expected = rms_norm_reference(x, weight, 1e-5F);
    const TestRows in(ActivationFormat::f32, shape.rows, shape.width, x);
    const TestArray weights(weight);
    for (const ActivationFormat format : kFormats) {
      const TestRows out(format, shape.rows, shape.width);
      launch_rms_norm(*queue, {in.view(), weights.as<float>(), shape.width, 1e-5F, out.view()});
      queue.finish();
      EXPECT_LT(relative_error(out.values(), expected), tolerance(format))
          << shape.rows << " x " << shape.width << " format " << static_cast<int>(format);
    }
  }
}

TEST(RowsDevice, RmsNormOfGroupsInPlace) {
  const TestQueue queue(true);
  for (const int64_t group : {1, 3, 30, 64, 80, 128, 129, 256, 512, 600, 1025}) {
    for (const int64_t rows : {1, 5, 300}) {
      const int64_t width = 7 * group;
      const std::vector<float> x = random_floats(rows * width, 0.5F, 4);
      const std::vector<float> weight = random_floats(group, 1.0F, 5);
      const TestRows in(ActivationFormat::f32, rows, width, x);
      const TestArray weights(weight);
      launch_rms_norm(*queue, {in.view(), weights.as<float>(), group, 1e-6F, in.view()});
      queue.finish();
      EXPECT_LT(relative_error(in.values(), rms_norm_reference(x, weight, 1e-6F)), kF32Tolerance)
          << rows << " rows, group " << group;
    }
  }
}

// Group g of a row has the weights at g * group of as many as `weight` has, or all the same.
std::vector<double> layer_norm_reference(const std::vector<float>& x, const std::vector<float>& weight,
                                         const std::vector<float>& bias, size_t group, float eps) {
  std::vector<double> out(x.size());
  for (size_t start = 0; start < x.size(); start += group) {
    double mean = 0, variance = 0;
    for (size_t i = 0; i < group; ++i) mean += static_cast<double>(x[start + i]) / static_cast<double>(group);
    for (size_t i = 0; i < group; ++i) variance += std::pow(x[start + i] - mean, 2) / static_cast<double>(group);
    for (size_t i = 0; i < group; ++i) {
      const size_t own = (start + i) % weight.size();
      out[start + i] = (x[start + i] - mean) / std::sqrt(variance + eps) * weight[own] + (bias.empty() ? 0 : bias[own]);
    }
  }
  return out;
}

TEST(RowsDevice, LayerNormInEveryFormat) {
  const TestQueue queue(true);
  for (const Shape& shape : kShapes) {
    std::vector<float> x = random_floats(shape.rows * shape.width, 2.0F, 12);
    for (float& value : x) value += 5.0F;
    const std::vector<float> weight = random_floats(shape.width, 1.0F, 13);
    const std::vector<float> bias = random_floats(shape.width, 1.0F, 14);
    const auto expected = layer_norm_reference(x, weight, bias, static_cast<size_t>(shape.width), 1e-5F);
    const TestRows in(ActivationFormat::f32, shape.rows, shape.width, x);
    const TestArray weights(weight), biases(bias);
    for (const ActivationFormat format : kFormats) {
      const TestRows out(format, shape.rows, shape.width);
      launch_layer_norm(*queue,
                        {in.view(), weights.as<float>(), biases.as<float>(), shape.width, false, 1e-5F, out.view()});
      queue.finish();
      EXPECT_LT(relative_error(out.values(), expected), tolerance(format))
          << shape.rows << " x " << shape.width << " format " << static_cast<int>(format);
    }
  }
}

TEST(RowsDevice, LayerNormOfGroupsInPlace) {
  const TestQueue queue(true);
  for (const int64_t group : {1, 3, 30, 64, 80, 129, 512, 1025}) {
    for (const bool own : {false, true}) {
      const int64_t rows = 5, width = 7 * group;
      const std::vector<float> x = random_floats(rows * width, 0.5F, 15);
      const std::vector<float> weight = random_floats(own ? width : group, 1.0F, 16);
      const TestRows in(ActivationFormat::f32, rows, width, x);
      const TestArray weights(weight);
      launch_layer_norm(*queue, {in.view(), weights.as<float>(), nullptr, group, own, 1e-3F, in.view()});
      queue.finish();
      const auto expected = layer_norm_reference(x, weight, {}, static_cast<size_t>(group), 1e-3F);
      const std::vector<float> got = in.values();
      for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-5) << group << " " << own << " " << i;
    }
  }
}

double activate(graph::Activation activation, double x) {
  if (activation == graph::Activation::silu) return x / (1.0 + std::exp(-x));
  if (activation == graph::Activation::gelu_erf) return 0.5 * x * std::erfc(-x * 0.70710678118654752440);
  return 0.5 * x * (1.0 + std::tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

TEST(RowsDevice, GluInEveryFormat) {
  const TestQueue queue(true);
  for (const Shape& shape : kShapes) {
    const std::vector<float> gate = random_floats(shape.rows * shape.width, 3.0F, 6);
    const std::vector<float> up = random_floats(shape.rows * shape.width, 2.0F, 7);
    const TestRows gates(ActivationFormat::f32, shape.rows, shape.width, gate);
    const TestRows ups(ActivationFormat::f32, shape.rows, shape.width, up);
    using graph::Activation;
    for (const auto activation : {Activation::silu, Activation::gelu_tanh, Activation::swiglu_oai}) {
      std::vector<double> expected(gate.size());
      for (size_t i = 0; i < gate.size(); ++i) expected[i] = gated_reference(activation, gate[i], up[i]);
      for (const ActivationFormat format : kFormats) {
        const TestRows out(format, shape.rows, shape.width);
        launch_glu(*queue, {gates.view(), ups.view(), activation, out.view()});
        queue.finish();
        EXPECT_LT(relative_error(out.values(), expected), tolerance(format))
            << shape.rows << " x " << shape.width << " format " << static_cast<int>(format);
      }
    }
  }
}

TEST(RowsDevice, ActivateInEveryFormat) {
  const TestQueue queue(true);
  for (const Shape& shape : kShapes) {
    const std::vector<float> x = random_floats(shape.rows * shape.width, 3.0F, 17);
    const TestRows in(ActivationFormat::f32, shape.rows, shape.width, x);
    for (const auto activation : {graph::Activation::silu, graph::Activation::gelu_tanh, graph::Activation::gelu_erf}) {
      std::vector<double> expected(x.size());
      for (size_t i = 0; i < x.size(); ++i) expected[i] = activate(activation, x[i]);
      for (const ActivationFormat format : kFormats) {
        const TestRows out(format, shape.rows, shape.width);
        launch_activate(*queue, in.view(), activation, out.view());
        queue.finish();
        EXPECT_LT(relative_error(out.values(), expected), tolerance(format))
            << shape.rows << " x " << shape.width << " format " << static_cast<int>(format);
      }
    }
  }
}

TEST(RowsDevice, ScaleAndItsCapInPlace) {
  const TestQueue queue(true);
  for (const Shape& shape : kShapes) {
    const std::vector<float> x = random_floats(shape.rows * shape.width, 60.0F, 18);
    for (const float cap : {0.0F, 30.0F}) {
      std::vector<double> expected(x.size());
      for (size_t i = 0; i < x.size(); ++i) expected[i] = cap == 0 ? 0.75 * x[i] : cap * std::tanh(0.75 * x[i] / cap);
      const TestRows in(ActivationFormat::f32, shape.rows, shape.width, x);
      launch_scale(*queue, in.view(), 0.75F, cap, in.view());
      queue.finish();
      EXPECT_LT(relative_error(in.values(), expected), kF32Tolerance) << shape.rows << " x " << shape.width;
    }
  }
}

TEST(RowsDevice, AdapterScaleIsOfEachRowsToken) {
  const TestQueue queue(true);
  for (const Shape& shape : kShapes) {
    std::vector<float> x = random_floats(shape.rows * shape.width, 1.0F, 19);
    std::vector<float> scales = random_floats(shape.rows + 5, 2.0F, 20);
    std::vector<int32_t> tokens;
    for (int64_t row = 0; row < shape.rows; ++row)
      tokens.push_back(static_cast<int32_t>((row * 7 + 3) % (shape.rows + 5)));
    scales[static_cast<size_t>(tokens[0])] = scales[0] = 0.0F;
    x[0] = INFINITY;  // nothing of it is nothing
    const TestRows in(ActivationFormat::f32, shape.rows, shape.width, x);
    const TestArray there(scales), of_rows(tokens);
    for (const bool given : {true, false}) {
      const TestRows out(ActivationFormat::f32, shape.rows, shape.width);
      launch_adapter_scale(*queue,
                           {in.view(), there.as<float>(), given ? of_rows.as<int32_t>() : nullptr, 0.5F, out.view()});
      queue.finish();
      const std::vector<float> actual = out.values();
      for (size_t i = 0; i < x.size(); ++i) {
        const size_t row = i / static_cast<size_t>(shape.width);
        const float scale = scales[given ? static_cast<size_t>(tokens[row]) : row] * 0.5F;
        ASSERT_EQ(actual[i], scale == 0.0F ? 0.0F : x[i] * scale) << shape.rows << " x " << shape.width << " at " << i;
      }
    }
  }
}

TEST(RowsDevice, AddIsExactAndMayBeInPlace) {
  const TestQueue queue(true);
  for (const Shape& shape : kShapes) {
    const std::vector<float> a = random_floats(shape.rows * shape.width, 1.0F, 8);
    const std::vector<float> b = random_floats(shape.rows * shape.width, 1.0F, 9);
    const TestRows first(ActivationFormat::f32, shape.rows, shape.width, a);
    const TestRows second(ActivationFormat::f32, shape.rows, shape.width, b);
    launch_add(*queue, first.view(), second.view(), first.view());
    queue.finish();
    const std::vector<float> sum = first.values();
    for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(sum[i], a[i] + b[i]) << i;
  }
}

TEST(RowsDevice, JoinedHeadsAreSlicesOfBothInputs) {
  const TestQueue queue(true);
  // Offsets, strides and sizes of one head; a stride of 0 is a part that all heads share.
  for (const auto& [heads, first, second] : {std::tuple<int64_t, HeadSlice, HeadSlice>{3, {4, 12, 8}, {0, 12, 4}},
                                             {5, {17, 0, 3}, {1, 7, 6}},
                                             {1, {0, 0, 33}, {0, 0, 0}}}) {
    const int64_t rows = 6, a_width = 40, b_width = 36, size = first.size + second.size;
    const std::vector<float> a = random_floats(rows * a_width, 1.0F, 30), b = random_floats(rows * b_width, 1.0F, 31);
    const TestRows a_there(ActivationFormat::f32, rows, a_width, a), b_there(ActivationFormat::f32, rows, b_width, b);
    const TestRows out(ActivationFormat::f32, rows, heads * size);
    launch_join_heads(*queue, {a_there.view(), b_there.view(), first, second, out.view()});
    queue.finish();
    std::vector<float> expected;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t head = 0; head < heads; ++head) {
        for (int64_t i = 0; i < first.size; ++i) {
          expected.push_back(a[static_cast<size_t>(row * a_width + first.offset + head * first.stride + i)]);
        }
        for (int64_t i = 0; i < second.size; ++i) {
          expected.push_back(b[static_cast<size_t>(row * b_width + second.offset + head * second.stride + i)]);
        }
      }
    }
    EXPECT_EQ(out.values(), expected);
  }
}

TEST(RowsDevice, GatherRowsGivesZerosBeyondTheInput) {
  const TestQueue queue(true);
  for (const int64_t width : {1, 33, 1024, 1030}) {
    const std::vector<float> x = random_floats(5 * width, 1.0F, 10);
    const std::vector<int32_t> from = {4, 0, -1, 2, 5, 2};
    const TestRows in(ActivationFormat::f32, 5, width, x);
    const TestArray rows(from);
    const TestRows out(ActivationFormat::f32, 6, width);
    launch_gather_rows(*queue, in.view(), rows.as<int32_t>(), out.view());
    queue.finish();
    const std::vector<float> values = out.values();
    for (int64_t r = 0; r < 6; ++r) {
      const int32_t source = from[static_cast<size_t>(r)];
      for (int64_t c = 0; c < width; ++c) {
        const float expected = source < 0 || source > 4 ? 0.0F : x[static_cast<size_t>(source * width + c)];
        ASSERT_EQ(values[static_cast<size_t>(r * width + c)], expected);
      }
    }
  }
}

TEST(RowsDevice, RopeAnglesInDoublePrecision) {
  const TestQueue queue(true);
  const std::vector<int32_t> positions = {0, 1, 17, 131071, 999999};
  std::vector<float> frequencies;
  for (int i = 0; i < 37; ++i) frequencies.push_back(static_cast<float>(std::pow(10000.0, -2.0 * i / 74)));
  const TestArray device_positions(positions);
  const TestArray device_frequencies(frequencies);
  const TestRows out(ActivationFormat::f32, 5, 74);
  launch_rope_angles(*queue, {device_positions.as<int32_t>(), device_frequencies.as<float>(), 1.25F, out.view()});
  queue.finish();
  const std::vector<float> values = out.values();
  for (size_t r = 0; r < positions.size(); ++r) {
    for (size_t i = 0; i < frequencies.size(); ++i) {
      const double angle = static_cast<double>(positions[r]) * static_cast<double>(frequencies[i]);
      ASSERT_NEAR(values[r * 74 + 2 * i], 1.25 * std::cos(angle), 2e-7);
      ASSERT_NEAR(values[r * 74 + 2 * i + 1], 1.25 * std::sin(angle), 2e-7);
    }
  }
}

TEST(RowsDevice, RopeAnglesWithATemperature) {
  const TestQueue queue(true);
  const TestArray positions(std::vector<int32_t>{0, 99, 100, 250});
  const TestArray frequencies(std::vector<float>{0.0F});
  const TestRows out(ActivationFormat::f32, 4, 2);
  RopeAnglesArgs args{positions.as<int32_t>(), frequencies.as<float>(), 2.0F, out.view()};
  args.temperature = 0.5F;
  args.temperature_length = 100;
  launch_rope_angles(*queue, args);
  queue.finish();
  const double expected[] = {2.0, 2.0, 2.0 + std::log(2.0), 2.0 + std::log(3.0)};
  const std::vector<float> values = out.values();
  for (size_t row = 0; row < 4; ++row) EXPECT_NEAR(values[2 * row], expected[row], 1e-6) << row;
}

TEST(RowsDevice, AnArmedFaultIsAnErrorOfItsSite) {
  TestQueue queue(false);
  const TestRows x(ActivationFormat::f32, 1, 64, random_floats(64, 1.0F, 11));
  queue.faults().arm("rows/add");
  EXPECT_THROW(launch_add(*queue, x.view(), x.view(), x.view()), Error);
  launch_add(*queue, x.view(), x.view(), x.view());
  queue.faults().arm("rows/convert");
  EXPECT_THROW(launch_convert(*queue, x.view(), x.view()), Error);
  launch_convert(*queue, x.view(), x.view());
  queue.finish();
}

}  // namespace
}  // namespace minfer::cuda
