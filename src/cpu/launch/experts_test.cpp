// Mixtures of experts: routing against double precision, with ties and NaN; the grouping's invariants; products of
// entries against plain products of each entry alone, bit for bit, for each instruction set, whatever the threads.
#include "cpu/launch/experts.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "cpu/launch/linear_test_data.hpp"
#include "cpu/runtime/memory.hpp"

namespace minfer::cpu {
namespace {

using graph::Gating;
using tensor::DType;
using testing::kLinearTypes;
using testing::LinearType;
using testing::random_rows;

std::vector<Isa> available_isas() {
  std::vector<Isa> isas;
  for (const Isa isa : kAllIsas) {
    if (isa_available(isa)) isas.push_back(isa);
  }
  return isas;
}

std::vector<float> random_floats(int64_t count, std::mt19937& random) {
  std::normal_distribution<float> normal(0.0F, 1.0F);
  std::vector<float> x(static_cast<size_t>(count));
  for (float& value : x) value = normal(random);
  return x;
}

struct Routed {
  std::vector<std::byte> memory;
  Routes routes;
  std::vector<float> weights;
};

Routed route(ThreadPool& pool, const std::vector<float>& logits, int64_t experts, const graph::RouteAttributes& choice,
             const float* biases = nullptr) {
  const int64_t used = choice.used;
  const int64_t rows = static_cast<int64_t>(logits.size()) / experts;
  Routed routed;
  routed.memory.resize(static_cast<size_t>(routes_bytes(rows, used)), std::byte{0xFF});
  routed.routes = routes_at(routed.memory.data(), rows, used);
  routed.weights.resize(static_cast<size_t>(rows * used), -77.0F);
  pool.run([&](Worker& worker) {
    launch_route(worker, {logits.data(), experts, biases, choice, routed.routes, routed.weights.data()});
  });
  return routed;
}
Routed route(ThreadPool& pool, const std::vector<float>& logits, int64_t experts, int64_t used, Gating gating,
             bool normalised, float scale = 1.0F) {
  return route(pool, logits, experts, {used, gating, normalised, scale});
}

// What the weights are, in double precision.
std::vector<double> expected_weights(const float* logits, int64_t experts, const int32_t* chosen, int64_t used,
                                     Gating gating, bool normalised, double scale) {
  std::vector<double> weights;
  double all = 0;
  for (int64_t e = 0; e < experts; ++e) all += std::exp(double{logits[e]});
  double of_chosen = 0;
  for (int64_t i = 0; i < used; ++i) of_chosen += std::exp(double{logits[chosen[i]]});
  for (int64_t i = 0; i < used; ++i) {
    const double power = std::exp(double{logits[chosen[i]]});
    weights.push_back(gating == Gating::softmax          ? power / all
                      : gating == Gating::softmax_chosen ? power / of_chosen
                                                         : power / (1 + power));
  }
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight *= scale / (normalised ? sum : 1.0);
  return weights;
}

TEST(Experts, RoutesGoToTheLargestLogitsWithTheirWeights) {
  std::mt19937 random(1);
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    for (const auto& [rows, experts, used] : {std::tuple{1, 64, 8}, {5, 7, 7}, {37, 128, 3}, {40, 1, 1}}) {
      const auto logits = random_floats(rows * experts, random);
      for (const Gating gating : {Gating::softmax, Gating::softmax_chosen, Gating::sigmoid}) {
        for (const bool normalised : {false, true}) {
          const Routed routed = route(pool, logits, experts, used, gating, normalised, 2.5F);
          for (int64_t row = 0; row < rows; ++row) {
            const float* own = logits.data() + row * experts;
            std::vector<int32_t> best(static_cast<size_t>(experts));
            std::iota(best.begin(), best.end(), 0);
            std::stable_sort(best.begin(), best.end(), [&](int32_t a, int32_t b) { return own[a] > own[b]; });
            const int32_t* chosen = routed.routes.chosen + row * used;
            const auto weights = expected_weights(own, experts, chosen, used, gating, normalised, 2.5);
            for (int64_t i = 0; i < used; ++i) {
              EXPECT_EQ(chosen[i], best[static_cast<size_t>(i)]);
              const double expected = weights[static_cast<size_t>(i)];
              EXPECT_NEAR(routed.weights[static_cast<size_t>(row * used + i)], expected, 2e-6 * expected);
            }
          }
        }
      }
    }
  }
}

TEST(Experts, EqualLogitsGoToTheFirstAndNanIsChosenLast) {
  ThreadPool pool(1);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Routed ties = route(pool, {1, 2, 2, 2, 0, 2, 2, 1}, 4, 3, Gating::softmax, false);
  const std::vector<int32_t> chosen(ties.routes.chosen, ties.routes.chosen + 6);
  EXPECT_EQ(chosen, (std::vector<int32_t>{1, 2, 3, 1, 2, 3}));
  const Routed odd = route(pool, {nan, 1, nan, -1}, 4, 3, Gating::softmax, false);
  EXPECT_EQ(odd.routes.chosen[0], 1);
  EXPECT_EQ(odd.routes.chosen[1], 3);
  EXPECT_EQ(odd.routes.chosen[2], 0);
  EXPECT_TRUE(std::isnan(odd.weights[0]));
}

TEST(Experts, OnlyTheBestGroupsAreChosenFrom) {
  ThreadPool pool(1);
  using graph::GroupScore;
  // Four groups of two; of the last the second is the third largest of all.
  const std::vector<float> logits = {5, -9, 4, 3.5F, 1, 2, -3, 4.5F};
  const auto chosen = [&](const graph::RouteAttributes& choice, const float* biases = nullptr) {
    const Routed routed = route(pool, logits, 8, choice, biases);
    return std::vector<int32_t>(routed.routes.chosen, routed.routes.chosen + choice.used);
  };
  graph::RouteAttributes choice{3, Gating::softmax, false, 1.0F, 4, 2, GroupScore::largest};
  EXPECT_EQ(chosen(choice), (std::vector<int32_t>{0, 7, 6}));
  choice.group_score = GroupScore::two_largest;  // sums -4, 7.5, 3, 1.5
  EXPECT_EQ(chosen(choice), (std::vector<int32_t>{2, 3, 5}));
  choice = {2, Gating::sigmoid, false, 2.0F, 1, 1, GroupScore::largest};
  EXPECT_EQ(chosen(choice), (std::vector<int32_t>{0, 7}));
  // A bias changes who is chosen, and no weight.
  const std::vector<float> biases = {0, 0, 0, 0, 0.5F, 0, 0.99F, 0};
  EXPECT_EQ(chosen(choice, biases.data()), (std::vector<int32_t>{4, 6}));
  const Routed routed = route(pool, logits, 8, choice, biases.data());
  EXPECT_NEAR(routed.weights[0], 2 / (1 + std::exp(-1.0)), 1e-6);
  EXPECT_NEAR(routed.weights[1], 2 / (1 + std::exp(3.0)), 1e-6);
}

TEST(Experts, EntriesOfAnExpertLieTogetherInTheOrderOfTheirRows) {
  std::mt19937 random(2);
  ThreadPool pool(2);
  for (const int64_t rows : {1, 9, 50}) {
    constexpr int64_t kExperts = 16, kUsed = 4;
    const auto logits = random_floats(rows * kExperts, random);
    const Routes routes = route(pool, logits, kExperts, kUsed, Gating::softmax, true).routes;
    const Routed routed = route(pool, logits, kExperts, kUsed, Gating::softmax, true);
    const Routes& r = routed.routes;
    int64_t seen = 0;
    for (int32_t g = 0; g < *r.groups; ++g) {
      ASSERT_LT(r.first_entry[g], r.first_entry[g + 1]);
      if (g > 0) {
        EXPECT_LT(r.expert[g - 1], r.expert[g]);
      }
      for (int32_t entry = r.first_entry[g]; entry < r.first_entry[g + 1]; ++entry, ++seen) {
        const int32_t row = r.source[entry];
        if (entry > r.first_entry[g]) {
          EXPECT_LT(r.source[entry - 1], row);
        }
        int64_t found = 0;
        for (int64_t i = row * kUsed; i < (row + 1) * kUsed; ++i) {
          found += r.chosen[i] == r.expert[g] && r.entry[i] == entry;
        }
        EXPECT_EQ(found, 1);
      }
    }
    EXPECT_EQ(seen, rows * kUsed);
    EXPECT_EQ(routes.entries(), rows * kUsed);
  }
}

// The experts' matrices, packed one by one.
struct Packed {
  HugeBuffer memory;
  LinearWeight first;
  std::vector<float> bias;

  ExpertWeights weights(bool with_bias) const { return {first, with_bias ? bias.data() : nullptr}; }
  LinearWeight matrix(int64_t expert) const {
    LinearWeight one = first;
    one.data += expert * expert_stride(first);
    return one;
  }
};

Packed make_experts(Isa isa, const LinearType& type, int64_t experts, int64_t rows, int64_t k, std::mt19937& random) {
  const Layout layout = *linear_layout(isa, type.dtype);
  const int64_t bytes = panel_matrix_bytes(type.dtype, layout, rows, k);
  Packed packed{HugeBuffer(static_cast<size_t>(experts * bytes), "test weights"), {}, {}};
  for (int64_t e = 0; e < experts; ++e) {
    const auto source = random_rows(type, rows, k, random);
    pack_panels(type.dtype, layout, rows, k, source.data(), packed.memory.data() + e * bytes);
  }
  packed.first = {type.dtype, layout, rows, k, packed.memory.data()};
  packed.bias = random_floats(experts * rows, random);
  return packed;
}

struct Inputs {
  std::vector<float> f32;
  testing::Q8Rows q8;
  int64_t k;

  Inputs(int64_t rows, int64_t width, std::mt19937& random)
      : f32(random_floats(rows * width, random)), q8(testing::quantize_rows(f32, width)), k(width) {}
  ActivationRows rows(Isa isa, DType dtype, int64_t first, int64_t count) const {
    if (linear_reads_q8(isa, dtype)) return {count, nullptr, 0, q8.data + first * q8_row_bytes(k)};
    return {count, f32.data() + first * k, k, nullptr};
  }
};

void expect_same(const float* actual, const float* expected, int64_t count) {
  EXPECT_EQ(std::memcmp(actual, expected, static_cast<size_t>(count) * sizeof(float)), 0);
}

class ExpertProducts : public ::testing::TestWithParam<std::tuple<Isa, LinearType>> {
 protected:
  static constexpr int64_t kExperts = 5, kUsed = 3, kWidth = 256;
  Isa isa() const { return std::get<0>(GetParam()); }
  const LinearType& type() const { return std::get<1>(GetParam()); }
  DType dtype() const { return type().dtype; }
};

TEST_P(ExpertProducts, AreThoseOfEachEntryAlone) {
  std::mt19937 random(3);
  // Rows that are no whole panels: an expert's matrix has padding of its own.
  constexpr int64_t kRows = 24;
  const Packed packed = make_experts(isa(), type(), kExperts, kRows, kWidth, random);
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    for (const int64_t rows : {1, 2, 20, 90}) {
      const Routed routed = route(pool, random_floats(rows * kExperts, random), kExperts, kUsed, Gating::softmax, true);
      const Routes& r = routed.routes;
      const int64_t entries = r.entries();
      for (const bool by_entry : {false, true}) {
        const Inputs x(by_entry ? entries : rows, kWidth, random);
        const ExpertInput input{x.rows(isa(), dtype(), 0, by_entry ? entries : rows), kWidth, by_entry};
        std::vector<std::byte> scratch(static_cast<size_t>(gather_bytes(kWidth * 4 + 64, entries) + 64));
        const size_t skip = (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
        std::vector<float> out(static_cast<size_t>(entries * kRows), -77.0F);
        pool.run([&](Worker& worker) {
          launch_expert_linear(isa(), worker, r, input, packed.weights(by_entry), out.data(),
                               std::span(scratch).subspan(skip));
        });
        for (int32_t g = 0; g < *r.groups; ++g) {
          for (int32_t entry = r.first_entry[g]; entry < r.first_entry[g + 1]; ++entry) {
            std::vector<float> alone(kRows);
            const LinearTask task{packed.matrix(r.expert[g]),
                                  by_entry ? packed.bias.data() + r.expert[g] * kRows : nullptr, nullptr, alone.data(),
                                  kRows};
            pool.run([&](Worker& worker) {
              launch_linear(isa(), worker, x.rows(isa(), dtype(), by_entry ? entry : r.source[entry], 1), {&task, 1});
            });
            expect_same(out.data() + entry * kRows, alone.data(), kRows);
          }
        }
      }
    }
  }
}

TEST_P(ExpertProducts, GatedAreThoseOfEachEntryAlone) {
  std::mt19937 random(4);
  constexpr int64_t kRows = 96;
  const Packed gate = make_experts(isa(), type(), kExperts, kRows, kWidth, random);
  const Packed up = make_experts(isa(), type(), kExperts, kRows, kWidth, random);
  ThreadPool pool(2);
  for (const int64_t rows : {1, 3, 70}) {
    const Routed routed = route(pool, random_floats(rows * kExperts, random), kExperts, kUsed, Gating::softmax, true);
    const Routes& r = routed.routes;
    const int64_t entries = r.entries(), row_bytes = q8_row_bytes(kRows);
    const Inputs x(rows, kWidth, random);
    const ExpertInput input{x.rows(isa(), dtype(), 0, rows), kWidth, false};
    const HugeBuffer scratch(static_cast<size_t>(gather_bytes(kWidth * 4 + 64, entries)), "scratch");
    for (const bool q8 : {false, true}) {
      if (q8 && isa() == Isa::scalar) continue;
      const int64_t bytes = q8 ? row_bytes : kRows * 4;
      HugeBuffer out(static_cast<size_t>(entries * bytes), "out"), alone(static_cast<size_t>(bytes), "alone");
      ExpertGlu args{graph::Activation::silu, gate.weights(true), up.weights(false)};
      if (q8) {
        args.q8 = out.data();
      } else {
        args.out = reinterpret_cast<float*>(out.data());
      }
      pool.run([&](Worker& worker) {
        launch_expert_glu(isa(), worker, r, input, args,
                          {const_cast<std::byte*>(scratch.data()), scratch.size_bytes()});
      });
      for (int32_t g = 0; g < *r.groups; ++g) {
        for (int32_t entry = r.first_entry[g]; entry < r.first_entry[g + 1]; ++entry) {
          GatedLinear one{graph::Activation::silu, gate.matrix(r.expert[g]), up.matrix(r.expert[g])};
          one.gate_bias = gate.bias.data() + r.expert[g] * kRows;
          if (q8) {
            one.q8 = alone.data();
          } else {
            one.out = reinterpret_cast<float*>(alone.data());
            one.out_stride = kRows;
          }
          pool.run([&](Worker& worker) {
            launch_linear_gated(isa(), worker, x.rows(isa(), dtype(), r.source[entry], 1), one);
          });
          EXPECT_EQ(std::memcmp(out.data() + entry * bytes, alone.data(), static_cast<size_t>(bytes)), 0);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ExpertProducts,
                         ::testing::Combine(::testing::ValuesIn(available_isas()), ::testing::ValuesIn(kLinearTypes)),
                         [](const auto& row) {
                           return std::string(isa_name(std::get<0>(row.param))) + "_" +
                                  std::string(tensor::dtype_info(std::get<1>(row.param).dtype).name);
                         });

TEST(Experts, SumsAreWeightedAndInTheRowsOrder) {
  std::mt19937 random(5);
  constexpr int64_t kExperts = 8, kUsed = 3, kWidth = 2500;
  ThreadPool pool(2);
  for (const int64_t rows : {1, 6}) {
    const Routed routed = route(pool, random_floats(rows * kExperts, random), kExperts, kUsed, Gating::softmax, true);
    const auto y = random_floats(rows * kUsed * kWidth, random);
    const auto residual = random_floats(rows * kWidth, random);
    for (const bool added : {false, true}) {
      std::vector<float> out = residual;
      pool.run([&](Worker& worker) {
        launch_expert_sum(worker, routed.routes,
                          {y.data(), false, routed.weights.data(), added ? out.data() : nullptr, kWidth, out.data()});
      });
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t c = 0; c < kWidth; ++c) {
          double expected = added ? residual[static_cast<size_t>(row * kWidth + c)] : 0;
          for (int64_t i = row * kUsed; i < (row + 1) * kUsed; ++i) {
            expected += double{routed.weights[static_cast<size_t>(i)]} *
                        y[static_cast<size_t>(routed.routes.entry[i] * kWidth + c)];
          }
          ASSERT_NEAR(out[static_cast<size_t>(row * kWidth + c)], expected, 2e-6);
        }
      }
    }
  }
}

}  // namespace
}  // namespace minfer::cpu
