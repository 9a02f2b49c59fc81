// Accuracy of the vector functions against double precision, over floats of every exponent and both signs (every
// 997th), in units in the last place of the exact result; and their values at the special points.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "cpu/kernels/vector_math_probe.hpp"
#include "cpu/runtime/isa.hpp"

namespace minfer::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

MathProbe probe_of(Isa isa) {
  return isa == Isa::avx2 ? avx2::math_probe() : avx512::math_probe();
}

class VectorMath : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!isa_available(GetParam())) GTEST_SKIP() << "this machine lacks " << isa_name(GetParam());
    probe = probe_of(GetParam());
  }
  MathProbe probe{};
};

std::vector<float> floats_between(float low, float high) {
  std::vector<float> values;
  for (uint32_t bits = 0; bits < 0x7F800000u; bits += 997) {
    for (const uint32_t sign : {0u, 0x80000000u}) {
      const float value = std::bit_cast<float>(bits | sign);
      if (value >= low && value <= high) values.push_back(value);
    }
  }
  values.resize((values.size() + 15) / 16 * 16, std::clamp(1.0f, low, high));
  return values;
}

// Distance of `got` from `exact` in units in the last place of the float nearest to `exact`.
double distance_ulp(float got, double exact) {
  const float nearest = static_cast<float>(exact);
  if (std::isinf(nearest) || std::isinf(got)) return got == nearest ? 0.0 : 1e9;
  int exponent = 0;
  std::frexp(exact, &exponent);
  return std::fabs(got - exact) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

double worst_ulp(MathProbe::Function function, double (*exact)(double), float low, float high) {
  const std::vector<float> x = floats_between(low, high);
  std::vector<float> got(x.size());
  function(x.data(), static_cast<int64_t>(x.size()), got.data());
  double worst = 0.0;
  for (size_t i = 0; i < x.size(); ++i) worst = std::max(worst, distance_ulp(got[i], exact(x[i])));
  return worst;
}

std::vector<float> at_special_points(MathProbe::Function function) {
  std::vector<float> x = {kNan, kInf, -kInf, 0.0f, -0.0f, 1e-40f, -1e-40f, 3e38f};
  x.resize(16);
  std::vector<float> out(16);
  function(x.data(), 16, out.data());
  return out;
}

double exact_sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}
double exact_silu(double x) {
  return x * exact_sigmoid(x);
}
double exact_gelu(double x) {
  return x * exact_sigmoid(2.0 * std::sqrt(2.0 / 3.14159265358979323846) * (x + 0.044715 * x * x * x));
}

double exact_gelu_erf(double x) {
  return x * 0.5 * std::erfc(-x * 0.70710678118654752440);
}

TEST_P(VectorMath, Exp) {
  EXPECT_LE(worst_ulp(probe.exp, [](double x) { return std::exp(x); }, -3e38f, 3e38f), 1.0);
  const std::vector<float> special = at_special_points(probe.exp);
  EXPECT_TRUE(std::isnan(special[0]));
  EXPECT_EQ(special[1], kInf);
  EXPECT_EQ(special[2], 0.0f);
  EXPECT_EQ(special[3], 1.0f);
  EXPECT_EQ(special[4], 1.0f);
}

TEST_P(VectorMath, Tanh) {
  EXPECT_LE(worst_ulp(probe.tanh, [](double x) { return std::tanh(x); }, -3e38f, 3e38f), 2.0);
  const std::vector<float> special = at_special_points(probe.tanh);
  EXPECT_TRUE(std::isnan(special[0]));
  EXPECT_EQ(special[1], 1.0f);
  EXPECT_EQ(special[2], -1.0f);
  EXPECT_TRUE(std::signbit(special[4])) << "tanh(-0) is -0";
  EXPECT_EQ(special[5], 1e-40f);
}

TEST_P(VectorMath, SigmoidAndSilu) {
  EXPECT_LE(worst_ulp(probe.sigmoid, exact_sigmoid, -87.0f, 3e38f), 3.0);
  EXPECT_LE(worst_ulp(probe.silu, exact_silu, -80.0f, 3e38f), 3.0);
  EXPECT_EQ(at_special_points(probe.sigmoid)[1], 1.0f);
  EXPECT_EQ(at_special_points(probe.sigmoid)[2], 0.0f);
  EXPECT_EQ(at_special_points(probe.silu)[1], kInf);
  EXPECT_EQ(at_special_points(probe.silu)[3], 0.0f);
  EXPECT_TRUE(std::isnan(at_special_points(probe.silu)[0]));
}

// The worst relative error over 1 + x^2.
double worst_gelu(MathProbe::Function gelu, double (*exact_of)(double)) {
  const std::vector<float> x = floats_between(-10.0f, 3e38f);
  std::vector<float> got(x.size());
  gelu(x.data(), static_cast<int64_t>(x.size()), got.data());
  double worst = 0.0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = exact_of(x[i]);
    const double error = std::fabs(got[i] - exact) - 1e-44;  // a subnormal result has no relative precision
    if (exact != 0.0) worst = std::max(worst, error / std::fabs(exact) / (1.0 + double{x[i]} * x[i]));
  }
  return worst;
}

TEST_P(VectorMath, GeluErf) {
  EXPECT_LE(worst_gelu(probe.gelu_erf, exact_gelu_erf), 4.5e-7);
  EXPECT_EQ(at_special_points(probe.gelu_erf)[1], kInf);
  EXPECT_TRUE(std::isnan(at_special_points(probe.gelu_erf)[0]));
}

TEST_P(VectorMath, GeluTanh) {
  EXPECT_LE(worst_gelu(probe.gelu_tanh, exact_gelu), 2.5e-7);
  EXPECT_EQ(at_special_points(probe.gelu_tanh)[1], kInf);
  EXPECT_TRUE(std::isnan(at_special_points(probe.gelu_tanh)[0]));
}

INSTANTIATE_TEST_SUITE_P(Isas, VectorMath, testing::Values(Isa::avx2, Isa::avx512),
                         [](const auto& test) { return std::string(isa_name(test.param)); });

}  // namespace
}  // namespace minfer::cpu
