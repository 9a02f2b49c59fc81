// The row operations on every available instruction set against the scalar kernels: odd lengths, strides, misaligned
// memory, extreme values; nothing written outside the rows; bit identity over thread counts and batches; and the 8-bit
// form against its definition.
#include "cpu/launch/rows.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "cpu/launch/activation.hpp"

namespace minfer::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kLengths[] = {1, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 96, 100, 896, 1536, 2080, 5000, 8960};
constexpr int64_t kRows = 5;
constexpr float kGuard = -12345.0f;

// [rows][n] at a stride, `offset` floats past an allocation's start, with guard values around every row.
struct Matrix {
  Matrix(int64_t rows_in, int64_t n_in, int64_t offset = 1) : rows(rows_in), n(n_in), stride(n_in + 3), start(offset) {
    values.assign(static_cast<size_t>(start + rows * stride + 1), kGuard);
  }
  float* row(int64_t r) { return values.data() + start + r * stride; }
  float* data() { return row(0); }

  int64_t rows;
  int64_t n;
  int64_t stride;
  int64_t start;
  std::vector<float> values;
};

Matrix random_matrix(int64_t rows, int64_t n, uint32_t seed, float spread = 3.0f) {
  Matrix matrix(rows, n);
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0f, spread);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < n; ++i) matrix.row(r)[i] = normal(generator);
  }
  return matrix;
}

void expect_close(Matrix& got, Matrix& want, double relative, double absolute) {
  for (int64_t r = 0; r < want.rows; ++r) {
    for (int64_t i = 0; i < want.n; ++i) {
      const double tolerance = relative * std::fabs(want.row(r)[i]) + absolute;
      ASSERT_NEAR(got.row(r)[i], want.row(r)[i], tolerance) << "n " << want.n << " row " << r << " element " << i;
    }
    for (int64_t i = want.n; i < want.stride; ++i) ASSERT_EQ(got.row(r)[i], kGuard) << "written past row " << r;
  }
  ASSERT_EQ(got.values[0], kGuard) << "written before the first row";
}

using Launch = std::function<void(Worker&)>;
void run(int threads, const Launch& launch) {
  ThreadPool pool(threads);
  pool.run([&](Worker& worker) { launch(worker); });
}

class Rows : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!isa_available(GetParam())) GTEST_SKIP() << "this machine lacks " << isa_name(GetParam());
  }

  // `operation(isa, worker, out)` for every length against scalar, and on 1, 2 and 3 threads bit for bit.
  void compare(const std::function<void(Isa, Worker&, Matrix&)>& operation, int64_t n, double relative,
               double absolute) {
    Matrix want(kRows, n);
    run(1, [&](Worker& worker) { operation(Isa::scalar, worker, want); });
    Matrix one(kRows, n);
    run(1, [&](Worker& worker) { operation(GetParam(), worker, one); });
    expect_close(one, want, relative, absolute);
    for (const int threads : {2, 3}) {
      Matrix more(kRows, n);
      run(threads, [&](Worker& worker) { operation(GetParam(), worker, more); });
      ASSERT_EQ(std::memcmp(more.values.data(), one.values.data(), one.values.size() * sizeof(float)), 0)
          << threads << " threads, n " << n;
    }
  }
};

TEST_P(Rows, RmsNormIsScalarsWithin1e5) {
  for (const int64_t n : kLengths) {
    Matrix x = random_matrix(kRows, n, 1);
    Matrix weight = random_matrix(1, n, 2);
    compare(
        [&](Isa isa, Worker& worker, Matrix& out) {
          launch_rms_norm(isa, worker,
                          {.x = x.data(),
                           .x_stride = x.stride,
                           .rows = kRows,
                           .n = n,
                           .weight = weight.data(),
                           .eps = 1e-6f,
                           .out = out.data(),
                           .out_stride = out.stride});
        },
        n, 1e-5, 0.0);
  }
}

TEST_P(Rows, RmsNormOfKnownValues) {
  const std::vector<float> x = {3.0f, -4.0f, 0.0f, 0.0f};  // mean square 6.25
  const std::vector<float> weight = {1.0f, 2.0f, 3.0f, 4.0f};
  std::vector<float> out(4);
  run(1, [&](Worker& worker) {
    launch_rms_norm(GetParam(), worker,
                    {.x = x.data(),
                     .x_stride = 4,
                     .rows = 1,
                     .n = 4,
                     .weight = weight.data(),
                     .eps = 0.0f,
                     .out = out.data(),
                     .out_stride = 4});
  });
  EXPECT_NEAR(out[0], 1.2f, 1e-6);
  EXPECT_NEAR(out[1], -3.2f, 1e-6);
  EXPECT_EQ(out[2], 0.0f);
}

TEST_P(Rows, LayerNormIsScalarsWithin1e5) {
  for (const int64_t n : kLengths) {
    Matrix x = random_matrix(kRows, n, 21);
    for (int64_t r = 0; r < kRows; ++r) x.row(r)[0] += 40.0f;  // a mean to be taken away
    Matrix weight = random_matrix(1, n, 22);
    Matrix bias = random_matrix(1, n, 23);
    for (const float* added : {static_cast<const float*>(nullptr), static_cast<const float*>(bias.data())}) {
      compare(
          [&](Isa isa, Worker& worker, Matrix& out) {
            launch_layer_norm(isa, worker,
                              {.x = x.data(),
                               .x_stride = x.stride,
                               .rows = kRows,
                               .n = n,
                               .group = n,
                               .weight = weight.data(),
                               .bias = added,
                               .own_weights = false,
                               .eps = 1e-5f,
                               .out = out.data(),
                               .out_stride = out.stride});
          },
          n, 1e-5, 1e-5);
    }
  }
}

TEST_P(Rows, LayerNormOfGroupsWithSharedAndOwnWeights) {
  const std::vector<float> x = {1.0f, 3.0f, 5.0f, 9.0f};  // groups (1, 3) and (5, 9): means 2 and 7, variances 1 and 4
  const std::vector<float> weight = {2.0f, 3.0f, 4.0f, 5.0f};
  const std::vector<float> bias = {0.5f, 0.25f, -1.0f, 1.0f};
  const auto normed = [&](bool own) {
    std::vector<float> out(4);
    run(2, [&](Worker& worker) {
      launch_layer_norm(GetParam(), worker,
                        {.x = x.data(),
                         .x_stride = 4,
                         .rows = 1,
                         .n = 4,
                         .group = 2,
                         .weight = weight.data(),
                         .bias = bias.data(),
                         .own_weights = own,
                         .eps = 0.0f,
                         .out = out.data(),
                         .out_stride = 4});
    });
    return out;
  };
  EXPECT_EQ(normed(false), (std::vector<float>{-1.5f, 3.25f, -1.5f, 3.25f}));
  EXPECT_EQ(normed(true), (std::vector<float>{-1.5f, 3.25f, -5.0f, 6.0f}));
}

TEST_P(Rows, ARowDoesNotDependOnItsBatchNorOnItsAlignment) {
  const int64_t n = 896;
  Matrix x = random_matrix(kRows, n, 3);
  Matrix weight = random_matrix(1, n, 4);
  Matrix batch(kRows, n);
  const auto norm = [&](const float* from, int64_t rows, float* to) {
    run(2, [&](Worker& worker) {
      launch_rms_norm(GetParam(), worker,
                      {.x = from,
                       .x_stride = x.stride,
                       .rows = rows,
                       .n = n,
                       .weight = weight.data(),
                       .eps = 1e-5f,
                       .out = to,
                       .out_stride = batch.stride});
    });
  };
  norm(x.data(), kRows, batch.data());
  for (int64_t r = 0; r < kRows; ++r) {
    alignas(64) float copy[896];
    std::memcpy(copy, x.row(r), sizeof(copy));
    Matrix alone(1, n, r);
    norm(copy, 1, alone.data());
    EXPECT_EQ(std::memcmp(alone.data(), batch.row(r), sizeof(copy)), 0) << "row " << r;
  }
}

TEST_P(Rows, AddScaleAndBiasAreExact) {
  for (const int64_t n : kLengths) {
    Matrix a = random_matrix(kRows, n, 5);
    Matrix b = random_matrix(kRows, n, 6);
    for (const int64_t b_stride : {b.stride, int64_t{0}}) {
      compare(
          [&](Isa isa, Worker& worker, Matrix& out) {
            launch_add(isa, worker,
                       {.a = a.data(),
                        .a_stride = a.stride,
                        .b = b.data(),
                        .b_stride = b_stride,
                        .rows = kRows,
                        .n = n,
                        .out = out.data(),
                        .out_stride = out.stride});
          },
          n, 0.0, 0.0);
    }
  }
}

TEST_P(Rows, InPlaceIsTheSame) {
  const int64_t n = 2081;
  Matrix a = random_matrix(kRows, n, 7);
  Matrix b = random_matrix(kRows, n, 8);
  Matrix want(kRows, n);
  const auto add = [&](float* out) {
    run(2, [&](Worker& worker) {
      launch_add(GetParam(), worker,
                 {.a = a.data(),
                  .a_stride = a.stride,
                  .b = b.data(),
                  .b_stride = b.stride,
                  .rows = kRows,
                  .n = n,
                  .out = out,
                  .out_stride = want.stride});
    });
  };
  add(want.data());
  add(a.data());
  expect_close(a, want, 0.0, 0.0);
}

TEST_P(Rows, ScaleIsScalarsWithin1e6) {
  for (const float cap : {0.0f, 30.0f}) {
    for (const int64_t n : kLengths) {
      Matrix x = random_matrix(kRows, n, 9, 60.0f);
      compare(
          [&](Isa isa, Worker& worker, Matrix& out) {
            launch_scale(isa, worker,
                         {.x = x.data(),
                          .x_stride = x.stride,
                          .rows = kRows,
                          .n = n,
                          .factor = 0.75f,
                          .cap = cap,
                          .out = out.data(),
                          .out_stride = out.stride});
          },
          n, 1e-6, 0.0);
    }
  }
}

TEST_P(Rows, ScaleOfKnownValues) {
  const std::vector<float> x = {8.0f, -1.0f};
  std::vector<float> out(2);
  const auto scaled = [&](float cap) {
    run(1, [&](Worker& worker) {
      launch_scale(GetParam(), worker,
                   {.x = x.data(),
                    .x_stride = 2,
                    .rows = 1,
                    .n = 2,
                    .factor = 0.5f,
                    .cap = cap,
                    .out = out.data(),
                    .out_stride = 2});
    });
    return out;
  };
  EXPECT_EQ(scaled(0.0f), (std::vector<float>{4.0f, -0.5f}));
  EXPECT_NEAR(scaled(2.0f)[0], 1.9280552f, 1e-6);
  EXPECT_NEAR(scaled(2.0f)[1], -0.4898373f, 1e-6);
}

TEST_P(Rows, ActivationsAreScalarsWithin1e5) {
  for (const Activation activation : {Activation::silu, Activation::gelu_tanh, Activation::gelu_erf}) {
    for (const int64_t n : kLengths) {
      Matrix x = random_matrix(kRows, n, 24);
      compare(
          [&](Isa isa, Worker& worker, Matrix& out) {
            launch_activate(isa, worker,
                            {.activation = activation,
                             .x = x.data(),
                             .x_stride = x.stride,
                             .rows = kRows,
                             .n = n,
                             .out = out.data(),
                             .out_stride = out.stride});
          },
          n, 1e-5, 1e-20);
    }
  }
}

TEST_P(Rows, ActivationsOfKnownValues) {
  const std::vector<float> x = {1.0f, -2.0f, 100.0f, -100.0f};
  const std::vector<std::pair<Activation, std::vector<double>>> cases = {
      {Activation::silu, {0.7310585786300049, -0.2384058440442351, 100.0, 0.0}},
      {Activation::gelu_tanh, {0.8411919906082768, -0.04540230591222809, 100.0, 0.0}},
      {Activation::gelu_erf, {0.8413447460685429, -0.04550026389635842, 100.0, 0.0}}};
  for (const auto& [activation, want] : cases) {
    std::vector<float> out(4);
    row_kernels(GetParam()).activate(activation, x.data(), 4, out.data(), Q8Out{});
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(out[i], want[i], 1e-6) << i;
  }
}

TEST_P(Rows, GatedActivationsAreScalarsWithin1e5) {
  for (const Activation activation : {Activation::silu, Activation::gelu_tanh, Activation::swiglu_oai}) {
    for (const int64_t n : kLengths) {
      Matrix gate = random_matrix(kRows, n, 10);
      Matrix up = random_matrix(kRows, n, 11);
      compare(
          [&](Isa isa, Worker& worker, Matrix& out) {
            launch_gated(isa, worker,
                         {.activation = activation,
                          .gate = gate.data(),
                          .gate_stride = gate.stride,
                          .up = up.data(),
                          .up_stride = up.stride,
                          .rows = kRows,
                          .n = n,
                          .out = out.data(),
                          .out_stride = out.stride});
          },
          n, 1e-5, 1e-20);
    }
  }
}

TEST_P(Rows, GatedActivationsOfKnownValues) {
  const std::vector<float> gate = {1.0f, -2.0f, 100.0f, -100.0f};
  const std::vector<float> up = {2.0f, 1.0f, 1.0f, 1.0f};
  const std::vector<std::pair<Activation, std::vector<double>>> cases = {
      {Activation::silu, {2 * 0.7310585786300049, -0.2384058440442351, 100.0, 0.0}},
      {Activation::gelu_tanh, {2 * 0.8411919906082768, -0.04540230591222809, 100.0, 0.0}},
      // The gate of 100 is cut to 7.
      {Activation::swiglu_oai, {2.537387297798464, -0.12868275371158372, 13.999906256606636, 0.0}}};
  for (const auto& [activation, want] : cases) {
    std::vector<float> out(4);
    row_kernels(GetParam()).gated(activation, gate.data(), up.data(), 4, out.data(), Q8Out{});
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(out[i], want[i], 1e-6) << i;
  }
}

// The 8-bit rows of x by their definition.
std::vector<std::byte> defined_q8(Matrix& x) {
  std::vector<std::byte> out(static_cast<size_t>(q8_row_bytes(x.n) * x.rows));
  for (int64_t r = 0; r < x.rows; ++r) {
    std::byte* base = out.data() + r * q8_row_bytes(x.n);
    for (int64_t b = 0; b < x.n / 32; ++b) {
      const float* block = x.row(r) + b * 32;
      float largest = 0.0f;
      for (int i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(block[i]));
      const float scale = largest / 127.0f;
      int sum = 0;
      for (int i = 0; i < 32; ++i) {
        const int quant = largest == 0.0f ? 0 : static_cast<int>(std::nearbyint(block[i] / scale));
        reinterpret_cast<int8_t*>(base)[b * 32 + i] = static_cast<int8_t>(quant);
        sum += quant;
      }
      float* scales = reinterpret_cast<float*>(base + q8_quants_bytes(x.n));
      scales[b] = scale;
      scales[x.n / 32 + b] = scale * static_cast<float>(sum);
    }
  }
  return out;
}

// Quants with padding, scales and sums; the few bytes that round a row up to 64 are nobody's.
void expect_same_q8(const std::byte* got, const std::byte* want, int64_t rows, int64_t n) {
  const size_t used = static_cast<size_t>(q8_quants_bytes(n) + 2 * (n / 32) * 4);
  for (int64_t r = 0; r < rows; ++r) {
    ASSERT_EQ(std::memcmp(got + r * q8_row_bytes(n), want + r * q8_row_bytes(n), used), 0) << "n " << n << " row " << r;
  }
}

TEST_P(Rows, QuantizeIsItsDefinitionBitForBit) {
  for (const int64_t n : {32, 64, 96, 896, 1536, 2080, 8960}) {
    Matrix x = random_matrix(kRows, n, 12);
    std::fill_n(x.row(1), 32, 0.0f);
    for (int i = 0; i < 32; ++i) x.row(2)[i] = static_cast<float>(i) - 15.5f;  // with 127 as the largest: ties
    x.row(2)[31] = 127.0f;
    std::fill_n(x.row(3), 32, -std::numeric_limits<float>::max());
    const std::vector<std::byte> want = defined_q8(x);
    for (const int threads : {1, 2, 3}) {
      std::vector<std::byte> got(want.size(), std::byte{0xAA});
      run(threads, [&](Worker& worker) {
        launch_quantize(GetParam(), worker,
                        {.x = x.data(), .x_stride = x.stride, .rows = kRows, .n = n, .q8 = got.data()});
      });
      expect_same_q8(got.data(), want.data(), kRows, n);
    }
  }
}

TEST_P(Rows, QuantizeTiesToEven) {
  Matrix x(1, 32);
  for (int i = 0; i < 32; ++i) x.row(0)[i] = static_cast<float>(i) - 15.5f;
  x.row(0)[31] = 127.0f;
  std::vector<std::byte> q8(static_cast<size_t>(q8_row_bytes(32)));
  run(1, [&](Worker& worker) {
    launch_quantize(GetParam(), worker, {.x = x.data(), .x_stride = 32, .rows = 1, .n = 32, .q8 = q8.data()});
  });
  const Q8Row row = q8_row(q8.data(), 0, 32);
  EXPECT_EQ(row.scales[0], 1.0f);
  EXPECT_EQ(row.quants[0], -16);  // -15.5
  EXPECT_EQ(row.quants[1], -14);  // -14.5
  EXPECT_EQ(row.quants[16], 0);   // 0.5
  EXPECT_EQ(row.quants[17], 2);   // 1.5
  EXPECT_EQ(row.quants[31], 127);
}

TEST_P(Rows, QuantizeOfNonFiniteAndTinyBlocks) {
  const int64_t n = 160;
  Matrix x = random_matrix(1, n, 13);
  x.row(0)[3] = kNan;
  x.row(0)[32 + 31] = -kInf;
  std::fill_n(x.row(0) + 64, 32, 1e-40f);    // its scale would be subnormal
  std::fill_n(x.row(0) + 96, 32, 1.6e-36f);  // its scale is just normal
  std::vector<std::byte> q8(static_cast<size_t>(q8_row_bytes(n)));
  run(1, [&](Worker& worker) {
    launch_quantize(GetParam(), worker, {.x = x.data(), .x_stride = n, .rows = 1, .n = n, .q8 = q8.data()});
  });
  const Q8Row row = q8_row(q8.data(), 0, n);
  for (const int block : {0, 1}) {
    EXPECT_TRUE(std::isnan(row.scales[block]) && std::isnan(row.sums[block])) << block;
    for (int i = 0; i < 32; ++i) EXPECT_EQ(row.quants[block * 32 + i], 0);
  }
  EXPECT_EQ(row.scales[2], 0.0f);
  EXPECT_EQ(row.sums[2], 0.0f);
  EXPECT_EQ(row.quants[64], 0);
  EXPECT_EQ(row.quants[96], 127);
  EXPECT_GT(row.scales[4], 0.0f) << "the finite block after them is untouched by it";
}

TEST_P(Rows, FusedQuantizationIsTheSequenceBitForBit) {
  for (const int64_t n : {32, 64, 96, 896, 1536, 2080, 8960}) {
    Matrix x = random_matrix(kRows, n, 14);
    Matrix up = random_matrix(kRows, n, 15);
    Matrix out(kRows, n);
    Matrix with_both(kRows, n);
    const size_t bytes = static_cast<size_t>(q8_row_bytes(n) * kRows);
    std::vector<std::byte> want(bytes), both(bytes), only(bytes);
    const auto check_three = [&](const std::function<void(Worker&, float*, std::byte*)>& operation) {
      run(2, [&](Worker& worker) {
        operation(worker, out.data(), nullptr);
        launch_quantize(GetParam(), worker,
                        {.x = out.data(), .x_stride = out.stride, .rows = kRows, .n = n, .q8 = want.data()});
        operation(worker, with_both.data(), both.data());
        operation(worker, nullptr, only.data());
      });
      expect_same_q8(both.data(), want.data(), kRows, n);
      expect_same_q8(only.data(), want.data(), kRows, n);
      ASSERT_EQ(out.values, with_both.values);
    };
    check_three([&](Worker& worker, float* to, std::byte* q8) {
      launch_rms_norm(GetParam(), worker,
                      {.x = x.data(),
                       .x_stride = x.stride,
                       .rows = kRows,
                       .n = n,
                       .weight = up.data(),
                       .eps = 1e-6f,
                       .out = to,
                       .out_stride = out.stride,
                       .q8 = q8});
    });
    check_three([&](Worker& worker, float* to, std::byte* q8) {
      launch_layer_norm(GetParam(), worker,
                        {.x = x.data(),
                         .x_stride = x.stride,
                         .rows = kRows,
                         .n = n,
                         .group = n,
                         .weight = up.data(),
                         .bias = up.data(),
                         .own_weights = false,
                         .eps = 1e-6f,
                         .out = to,
                         .out_stride = out.stride,
                         .q8 = q8});
    });
    check_three([&](Worker& worker, float* to, std::byte* q8) {
      launch_activate(GetParam(), worker,
                      {.activation = Activation::gelu_erf,
                       .x = x.data(),
                       .x_stride = x.stride,
                       .rows = kRows,
                       .n = n,
                       .out = to,
                       .out_stride = out.stride,
                       .q8 = q8});
    });
    check_three([&](Worker& worker, float* to, std::byte* q8) {
      launch_gated(GetParam(), worker,
                   {.activation = Activation::gelu_tanh,
                    .gate = x.data(),
                    .gate_stride = x.stride,
                    .up = up.data(),
                    .up_stride = up.stride,
                    .rows = kRows,
                    .n = n,
                    .out = to,
                    .out_stride = out.stride,
                    .q8 = q8});
    });
  }
}

TEST_P(Rows, ArgmaxFindsTheFirstOfTheLargest) {
  const auto argmax = [](const std::vector<float>& x) {
    return row_kernels(GetParam()).argmax(x.data(), static_cast<int64_t>(x.size()));
  };
  for (const int64_t n : kLengths) {
    Matrix x = random_matrix(kRows, n, 16);
    int32_t want[kRows], got[kRows];
    for (int64_t r = 0; r < kRows; ++r) x.row(r)[n * r / kRows] = r % 2 == 0 ? 50.0f : kInf;
    x.row(4)[n - 1] = 50.0f;  // the largest twice
    const auto launch = [&](Isa isa, int32_t* indices) {
      run(2, [&](Worker& worker) {
        launch_argmax(isa, worker, {.x = x.data(), .x_stride = x.stride, .rows = kRows, .n = n, .indices = indices});
      });
    };
    launch(Isa::scalar, want);
    launch(GetParam(), got);
    for (int64_t r = 0; r < kRows; ++r) {
      EXPECT_EQ(want[r], n * r / kRows);
      EXPECT_EQ(got[r], want[r]) << "n " << n << " row " << r;
    }
  }
  for (const size_t n : {1, 8, 16, 20, 33}) {
    EXPECT_EQ(argmax(std::vector<float>(n, kNan)), -1);
    EXPECT_EQ(argmax(std::vector<float>(n, -kInf)), 0);
    EXPECT_EQ(argmax(std::vector<float>(n, 2.0f)), 0);
    std::vector<float> mixed(n, kNan);
    mixed.back() = -kInf;
    EXPECT_EQ(argmax(mixed), static_cast<int64_t>(n) - 1);
  }
}

TEST_P(Rows, BrokenConditionsAreInternalErrors) {
  std::vector<float> x(64);
  std::vector<std::byte> q8(static_cast<size_t>(q8_row_bytes(64)));
  const QuantizeArgs odd{.x = x.data(), .x_stride = 33, .rows = 1, .n = 33, .q8 = q8.data()};
  for (const int threads : {1, 2}) {
    try {
      run(threads, [&](Worker& worker) { launch_quantize(GetParam(), worker, odd); });
      FAIL() << "33 elements were accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::internal);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, Rows, testing::ValuesIn(kAllIsas),
                         [](const auto& test) { return std::string(isa_name(test.param)); });

}  // namespace
}  // namespace minfer::cpu
