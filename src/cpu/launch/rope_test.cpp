// Angles against long double, rotation in both styles against its definition on every available instruction set, and
// the fused preparation of heads against the two steps apart, bit for bit.
#include "cpu/launch/rope.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace minfer::cpu {
namespace {

std::vector<float> random_values(size_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(generator);
  return values;
}

template <class Launch>
void run(int threads, Launch launch) {
  ThreadPool pool(threads);
  pool.run([&](Worker& worker) { launch(worker); });
}

TEST(RopeAngles, AreExactToFloatRoundingAtLargePositions) {
  const std::vector<int32_t> positions = {0, 1, 77, 131071, 1000000, 2147483647};
  const std::vector<float> frequencies = {1.0f, 0.31622776f, 1e-3f, 1.7e-6f};
  const float magnitude = 1.25f;
  std::vector<float> angles(positions.size() * frequencies.size() * 2);
  run(2, [&](Worker& worker) {
    launch_rope_angles(worker, {.positions = positions.data(),
                                .rows = 6,
                                .inverse_frequencies = frequencies.data(),
                                .pairs = 4,
                                .magnitude = magnitude,
                                .angles = angles.data()});
  });
  for (size_t row = 0; row < positions.size(); ++row) {
    for (size_t pair = 0; pair < 4; ++pair) {
      const long double angle = static_cast<long double>(positions[row]) * frequencies[pair];
      const float* got = angles.data() + (row * 4 + pair) * 2;
      EXPECT_NEAR(got[0], static_cast<double>(magnitude * std::cos(angle)), 1e-7) << positions[row] << " " << pair;
      EXPECT_NEAR(got[1], static_cast<double>(magnitude * std::sin(angle)), 1e-7) << positions[row] << " " << pair;
    }
  }
  EXPECT_EQ(angles[0], 1.25f);
  EXPECT_EQ(angles[1], 0.0f);
}

TEST(RopeAngles, ATemperatureGrowsWithThePosition) {
  const std::vector<int32_t> positions = {0, 99, 100, 250};
  const float frequency = 0.0f;
  std::vector<float> angles(8);
  run(1, [&](Worker& worker) {
    launch_rope_angles(worker, {.positions = positions.data(),
                                .rows = 4,
                                .inverse_frequencies = &frequency,
                                .pairs = 1,
                                .magnitude = 2.0f,
                                .angles = angles.data(),
                                .temperature = 0.5f,
                                .temperature_length = 100});
  });
  const double expected[] = {2.0, 2.0, 2.0 + std::log(2.0), 2.0 + std::log(3.0)};
  for (size_t row = 0; row < 4; ++row) EXPECT_NEAR(angles[2 * row], expected[row], 1e-6) << row;
}

struct Shape {
  int64_t rows, heads, head_dim, rotated;
};
constexpr Shape kShapes[] = {{1, 1, 2, 2},   {3, 2, 10, 6},    {2, 3, 64, 64},   {4, 9, 64, 32},  {2, 2, 80, 80},
                             {3, 2, 96, 24}, {2, 2, 128, 128}, {2, 1, 256, 256}, {7, 14, 64, 64}, {2, 2, 100, 100}};

class Rope : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!isa_available(GetParam())) GTEST_SKIP() << "this machine lacks " << isa_name(GetParam());
  }
};

// Everything one case needs; rows are strided, memory is one float off alignment.
struct Case {
  explicit Case(const Shape& shape_in) : shape(shape_in), stride(shape.heads * shape.head_dim + 5) {
    x = random_values(static_cast<size_t>(shape.rows * stride + 1), 1);
    weight = random_values(static_cast<size_t>(shape.head_dim), 2);
    const std::vector<float> turns = random_values(static_cast<size_t>(shape.rows * shape.rotated / 2), 3);
    for (const float turn : turns) {
      angles.push_back(std::cos(turn));
      angles.push_back(std::sin(turn));
    }
  }
  PrepareHeadsArgs args(const std::vector<float>& from, std::vector<float>& to, bool norm, RopeStyle style) const {
    return {.x = from.data() + 1,
            .x_stride = stride,
            .rows = shape.rows,
            .heads = shape.heads,
            .head_dim = shape.head_dim,
            .weight = norm ? weight.data() : nullptr,
            .eps = 1e-6f,
            .angles = angles.data(),
            .rotated = shape.rotated,
            .style = style,
            .out = to.data() + 1,
            .out_stride = stride};
  }
  Shape shape;
  int64_t stride;
  std::vector<float> x, weight, angles;
};

TEST_P(Rope, BothStylesAreTheDefinition) {
  for (const Shape& shape : kShapes) {
    for (const RopeStyle style : {RopeStyle::halves, RopeStyle::pairs}) {
      const Case test(shape);
      std::vector<float> got(test.x.size(), -7.0f);
      run(2, [&](Worker& worker) { launch_prepare_heads(GetParam(), worker, test.args(test.x, got, false, style)); });
      std::vector<float> want(test.x.size(), -7.0f);
      for (int64_t i = 0; i < shape.rows * shape.heads; ++i) {
        const int64_t row = i / shape.heads;
        const int64_t head = 1 + row * test.stride + i % shape.heads * shape.head_dim;
        for (int64_t j = 0; j < shape.head_dim; ++j) want[head + j] = test.x[head + j];
        for (int64_t pair = 0; pair < shape.rotated / 2; ++pair) {
          const int64_t a = head + (style == RopeStyle::halves ? pair : 2 * pair);
          const int64_t b = style == RopeStyle::halves ? a + shape.rotated / 2 : a + 1;
          const float* angle = test.angles.data() + row * shape.rotated + 2 * pair;
          want[a] = test.x[a] * angle[0] - test.x[b] * angle[1];
          want[b] = test.x[a] * angle[1] + test.x[b] * angle[0];
        }
      }
      for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-6) << shape.head_dim << " at " << i;
    }
  }
}

TEST_P(Rope, FusedIsTheSequenceInPlaceOrNotOnAnyThreadCount) {
  for (const Shape& shape : kShapes) {
    for (const RopeStyle style : {RopeStyle::halves, RopeStyle::pairs}) {
      const Case test(shape);
      std::vector<float> apart = test.x;
      run(1, [&](Worker& worker) {
        PrepareHeadsArgs norm = test.args(test.x, apart, true, style);
        norm.angles = nullptr;
        launch_prepare_heads(GetParam(), worker, norm);
        launch_prepare_heads(GetParam(), worker, test.args(apart, apart, false, style));
      });
      for (const int threads : {1, 2, 3}) {
        std::vector<float> fused = test.x;
        std::vector<float> in_place = test.x;
        run(threads, [&](Worker& worker) {
          launch_prepare_heads(GetParam(), worker, test.args(test.x, fused, true, style));
          launch_prepare_heads(GetParam(), worker, test.args(in_place, in_place, true, style));
        });
        ASSERT_EQ(fused, apart) << shape.head_dim << " on " << threads;
        ASSERT_EQ(in_place, apart) << shape.head_dim << " on " << threads;
      }
    }
  }
}

TEST_P(Rope, PreparationIsScalarsWithin1e5) {
  for (const Shape& shape : kShapes) {
    const Case test(shape);
    std::vector<float> want = test.x;
    std::vector<float> got = test.x;
    run(1, [&](Worker& worker) {
      launch_prepare_heads(Isa::scalar, worker, test.args(test.x, want, true, RopeStyle::halves));
      launch_prepare_heads(GetParam(), worker, test.args(test.x, got, true, RopeStyle::halves));
    });
    for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-5) << shape.head_dim << " at " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, Rope, testing::ValuesIn(kAllIsas),
                         [](const auto& test) { return std::string(isa_name(test.param)); });

}  // namespace
}  // namespace minfer::cpu
