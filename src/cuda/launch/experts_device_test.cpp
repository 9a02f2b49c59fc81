// Mixtures of experts on the card: routes against a stable sort and double precision; products of every type, by single
// entries and by tiles, with odd shapes, biases and every output format, against sums in double precision over the same
// quantized inputs; weighted sums.
#include "cuda/launch/experts.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <numeric>

#include "cuda/kernels/linear/test_data.hpp"
#include "cuda/launch/test_device.hpp"

namespace minfer::cuda {
namespace {

using graph::Gating;
using tensor::DType;

constexpr double kTolerance = 2e-6;
// Of bf16 outputs, and of q8 ones, whose blocks keep 7 bits of their greatest.
constexpr double kBfloat16Tolerance = 3e-3;
constexpr double kQ8Tolerance = 1e-2;

double tolerance_of(ActivationFormat format) {
  return format == ActivationFormat::f32    ? kTolerance
         : format == ActivationFormat::bf16 ? kBfloat16Tolerance
                                            : kQ8Tolerance;
}

struct Routed {
  Routed(int64_t rows, int64_t experts, int64_t used)
      : memory(routes_bytes(rows, experts, used)),
        routes(routes_at(memory.data(), rows, experts, used)),
        weights(ActivationFormat::f32, rows, used) {}

  std::vector<int32_t> read(const int32_t* data, int64_t count) const {
    std::vector<int32_t> values(static_cast<size_t>(count));
    check_status(cudaMemcpy(values.data(), data, static_cast<size_t>(count) * 4, cudaMemcpyDeviceToHost), "test/read");
    return values;
  }
  std::vector<int32_t> expert() const { return read(routes.expert, routes.entries()); }
  std::vector<int32_t> source() const { return read(routes.source, routes.entries()); }
  std::vector<int32_t> place() const { return read(routes.place, routes.entries()); }

  TestArray memory;
  Routes routes;
  TestRows weights;
};

void run_route(const TestQueue& queue, const std::vector<float>& logits, const graph::RouteAttributes& choice,
               const Routed& routed, const float* biases = nullptr) {
  const Routes& routes = routed.routes;
  const TestRows rows(ActivationFormat::f32, routes.rows, routes.experts, logits);
  launch_route(*queue, {rows.view(), biases, choice, routes, routed.weights.view()});
  queue.finish();
}

// Each entry is one row's, in its place, and those of an expert lie together in slices.
void check_entries(const Routed& routed, const std::vector<int32_t>& chosen) {
  const Routes& routes = routed.routes;
  const auto expert = routed.expert(), source = routed.source(), place = routed.place();
  std::vector<int> seen(static_cast<size_t>(routes.entries()));
  for (int64_t i = 0; i < routes.entries(); ++i) {
    const int32_t at = place[static_cast<size_t>(i)];
    ASSERT_TRUE(at >= 0 && at < routes.entries());
    ++seen[static_cast<size_t>(at)];
    ASSERT_EQ(expert[static_cast<size_t>(at)], chosen[static_cast<size_t>(i)]);
    ASSERT_EQ(source[static_cast<size_t>(at)], i / routes.used);
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), routes.entries());
  if (!routes.grouped()) return;
  const int32_t count = routed.read(routes.slices, 1)[0];
  ASSERT_LE(count, routes.slice_capacity());
  const auto slices = routed.read(reinterpret_cast<const int32_t*>(routes.slice), int64_t{3} * count);
  int32_t next = 0;
  for (int32_t s = 0; s < count; ++s) {
    const int32_t* slice = slices.data() + 3 * s;
    EXPECT_EQ(slice[1], next);
    EXPECT_TRUE(slice[2] > 0 && slice[2] <= expert_tile_tokens(routes.rows, routes.experts, routes.used));
    for (int32_t entry = next; entry < next + slice[2]; ++entry) {
      ASSERT_EQ(expert[static_cast<size_t>(entry)], slice[0]);
    }
    next += slice[2];
  }
  EXPECT_EQ(next, routes.entries());
}

TEST(ExpertsDevice, RoutesGoToTheLargestLogits) {
  const TestQueue queue(true);
  uint32_t seed = 1;
  for (const auto& [rows, experts, used] : {std::tuple<int64_t, int64_t, int64_t>{1, 64, 8},
                                            {8, 7, 7},
                                            {9, 60, 4},
                                            {300, 128, 8},
                                            {33, 600, 6},
                                            {17, 160, 3},
                                            {40, 1, 1}}) {
    for (const Gating gating : {Gating::softmax, Gating::softmax_chosen, Gating::sigmoid}) {
      SCOPED_TRACE(::testing::Message() << rows << " rows, " << used << " of " << experts);
      std::vector<float> logits = random_floats(rows * experts, 1.5F, seed++);
      for (size_t i = 0; i < logits.size(); i += 3) logits[i] = std::round(logits[i] * 4) / 4;  // ties
      const bool normalised = seed % 2 == 0;
      const Routed routed(rows, experts, used);
      run_route(queue, logits, {used, gating, normalised, 1.5F}, routed);
      std::vector<int32_t> chosen;
      std::vector<double> weights;
      for (int64_t row = 0; row < rows; ++row) {
        const float* own = logits.data() + row * experts;
        std::vector<int32_t> order(static_cast<size_t>(experts));
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return own[a] > own[b]; });
        chosen.insert(chosen.end(), order.begin(), order.begin() + used);
        double all = 0, of_chosen = 0, sum = 0;
        for (int64_t e = 0; e < experts; ++e) all += std::exp(double{own[e]});
        for (int64_t i = 0; i < used; ++i) of_chosen += std::exp(double{own[order[static_cast<size_t>(i)]]});
        for (int64_t i = 0; i < used; ++i) {
          const double power = std::exp(double{own[order[static_cast<size_t>(i)]]});
          weights.push_back(gating == Gating::softmax          ? power / all
                            : gating == Gating::softmax_chosen ? power / of_chosen
                                                               : power / (1 + power));
          sum += weights.back();
        }
        for (auto weight = weights.end() - used; weight != weights.end(); ++weight) {
          *weight *= 1.5 / (normalised ? sum : 1.0);
        }
      }
      check_entries(routed, chosen);
      EXPECT_LE(relative_error(routed.weights.values(), weights), kTolerance);
    }
  }
}

TEST(ExpertsDevice, NanIsChosenLastAndEveryExpertOnce) {
  const TestQueue queue(false);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Routed routed(1, 5, 4);
  run_route(queue, {nan, 1, nan, -1, 1}, {4, Gating::softmax, false, 1.0F}, routed);
  EXPECT_EQ(routed.expert(), (std::vector<int32_t>{1, 4, 3, 0}));
}

// The experts of a row by graph::RouteAttributes, the best first.
std::vector<int32_t> reference_choice(const std::vector<double>& scores, const graph::RouteAttributes& choice) {
  const auto groups = static_cast<size_t>(choice.groups), size = scores.size() / groups;
  std::vector<double> group_scores;
  for (size_t g = 0; g < groups; ++g) {
    std::vector<double> own(scores.begin() + static_cast<std::ptrdiff_t>(g * size),
                            scores.begin() + static_cast<std::ptrdiff_t>((g + 1) * size));
    std::sort(own.rbegin(), own.rend());
    const bool two = choice.group_score == graph::GroupScore::two_largest && size > 1;
    group_scores.push_back(own[0] + (two ? own[1] : 0));
  }
  const auto best = [](const std::vector<double>& values, std::vector<int32_t> of, int64_t count) {
    std::stable_sort(of.begin(), of.end(), [&](int32_t a, int32_t b) {
      return values[static_cast<size_t>(a)] > values[static_cast<size_t>(b)];
    });
    of.resize(static_cast<size_t>(count));
    return of;
  };
  std::vector<int32_t> all_groups(groups), experts;
  std::iota(all_groups.begin(), all_groups.end(), 0);
  const auto kept = best(group_scores, all_groups, choice.groups_used);
  for (size_t e = 0; e < scores.size(); ++e) {
    if (std::count(kept.begin(), kept.end(), static_cast<int32_t>(e / size)) > 0) {
      experts.push_back(static_cast<int32_t>(e));
    }
  }
  return best(scores, experts, choice.used);
}

TEST(ExpertsDevice, OnlyTheBestGroupsAreChosenFromAndABiasChangesTheChoice) {
  const TestQueue queue(true);
  using graph::GroupScore;
  uint32_t seed = 50;
  for (const auto& [rows, experts, groups, kept] : {std::tuple<int64_t, int64_t, int64_t, int64_t>{7, 64, 8, 3},
                                                    {40, 160, 8, 3},
                                                    {33, 256, 8, 4},
                                                    {5, 12, 4, 2},
                                                    {12, 96, 32, 7},
                                                    {9, 256, 1, 1}}) {
    for (const GroupScore score : {GroupScore::largest, GroupScore::two_largest}) {
      SCOPED_TRACE(::testing::Message() << rows << " rows, " << experts << " experts, " << kept << " of " << groups);
      const std::vector<float> logits = random_floats(rows * experts, 1.5F, seed++);
      const std::vector<float> biases = random_floats(experts, 0.2F, seed++);
      const TestArray biases_there(biases);
      const bool biased = score == GroupScore::two_largest;
      const graph::RouteAttributes choice{4, Gating::sigmoid, true, 2.5F, groups, kept, score};
      const Routed routed(rows, experts, 4);
      run_route(queue, logits, choice, routed, biased ? biases_there.as<float>() : nullptr);
      std::vector<int32_t> chosen;
      std::vector<double> weights;
      for (int64_t row = 0; row < rows; ++row) {
        std::vector<double> scores, sigmoids;
        for (int64_t e = 0; e < experts; ++e) {
          const double logit = logits[static_cast<size_t>(row * experts + e)];
          sigmoids.push_back(1 / (1 + std::exp(-logit)));
          scores.push_back(biased ? sigmoids.back() + biases[static_cast<size_t>(e)] : logit);
        }
        const auto own = reference_choice(scores, choice);
        chosen.insert(chosen.end(), own.begin(), own.end());
        double sum = 0;
        for (const int32_t e : own) sum += sigmoids[static_cast<size_t>(e)];
        for (const int32_t e : own) weights.push_back(2.5 * sigmoids[static_cast<size_t>(e)] / sum);
      }
      check_entries(routed, chosen);
      EXPECT_LE(relative_error(routed.weights.values(), weights), kTolerance);
    }
  }
}

// All experts' matrices, packed, their values and biases.
struct Experts {
  Experts(const TestQueue& queue, DType dtype, int64_t count, int64_t rows, int64_t cols, uint32_t seed)
      : panels(count * expert_stride(dtype, rows, cols)),
        bias_values(random_floats(count * rows, 0.5F, seed + 1)),
        bias(bias_values) {
    std::mt19937 random(seed);
    const std::vector<std::byte> file = testing::random_rows(dtype, count * rows, cols, random);
    values = testing::decode_rows(dtype, file, count * rows, cols);
    for (int64_t e = 0; e < count; ++e) {
      const int64_t bytes = rows * tensor::row_bytes(dtype, cols);
      const TestArray source(std::vector<std::byte>(file.begin() + e * bytes, file.begin() + (e + 1) * bytes));
      const PanelMatrix one{dtype, panels.data() + e * expert_stride(dtype, rows, cols), rows, cols};
      launch_pack(*queue, one, source.data(), 0, rows);
      queue.finish();
    }
    matrix = {{dtype, panels.data(), rows, cols}, nullptr};
  }
  ExpertMatrix with_bias() const { return {matrix.first, bias.as<float>()}; }
  double product(int64_t expert, int64_t row, const float* x, bool has_bias) const {
    const int64_t at = expert * matrix.first.rows + row, cols = matrix.first.cols;
    double sum = has_bias ? bias_values[static_cast<size_t>(at)] : 0;
    for (int64_t i = 0; i < cols; ++i) sum += double{values[static_cast<size_t>(at * cols + i)]} * x[i];
    return sum;
  }

  TestArray panels;
  std::vector<float> bias_values;
  TestArray bias;
  std::vector<float> values;
  ExpertMatrix matrix;
};

// Rows as a type reads them, and their values.
struct Input {
  Input(DType dtype, int64_t rows, int64_t cols, uint32_t seed) : values(random_floats(rows * cols, 1.0F, seed)) {
    std::vector<std::byte> bytes;
    const ActivationFormat format = expert_format(dtype);
    if (format == ActivationFormat::q8) {
      bytes = testing::quantize_rows(values, cols);
      values = testing::dequantize_rows(bytes, rows, cols);
    } else {
      const int64_t stride = row_stride(format, cols);
      bytes.assign(static_cast<size_t>(rows * stride), std::byte{0xFF});
      for (int64_t r = 0; r < rows; ++r) {
        std::memcpy(bytes.data() + r * stride, values.data() + r * cols, static_cast<size_t>(cols * 4));
      }
    }
    data = std::make_unique<TestArray>(bytes);
    view = {format, data->data(), rows, cols};
  }
  std::vector<float> values;
  std::unique_ptr<TestArray> data;
  Rows view;
};

constexpr int64_t kExperts = 6, kUsed = 2;

int64_t columns_of(DType dtype, int64_t odd) {
  return tensor::dtype_info(dtype).block_elements == 256 ? 512 : odd;
}

TEST(ExpertsDevice, ProductsOfEveryType) {
  const TestQueue queue(true);
  for (const testing::LinearType& type : testing::kLinearTypes) {
    const int64_t out_rows = 150, cols = columns_of(type.dtype, 416);
    const Experts experts(queue, type.dtype, kExperts, out_rows, cols, 3);
    for (const int64_t rows : {1, 3, 8, 9, 70, 140}) {
      const bool by_entry = rows % 2 == 0, has_bias = rows != 3;
      SCOPED_TRACE(::testing::Message() << tensor::dtype_info(type.dtype).name << ", " << rows << " rows");
      const Routed routed(rows, kExperts, kUsed);
      run_route(queue, random_floats(rows * kExperts, 1.0F, 7), {routed.routes.used, Gating::softmax, true, 1.0F},
                routed);
      const Routes& routes = routed.routes;
      const Input x(type.dtype, by_entry ? routes.entries() : rows, cols, 5);
      const TestRows out(ActivationFormat::f32, routes.entries(), out_rows);
      launch_expert_linear(*queue,
                           {routes, x.view, by_entry, has_bias ? experts.with_bias() : experts.matrix, out.view()});
      queue.finish();
      const auto expert = routed.expert(), source = routed.source();
      std::vector<double> expected;
      for (int64_t entry = 0; entry < routes.entries(); ++entry) {
        const int64_t row = by_entry ? entry : source[static_cast<size_t>(entry)];
        for (int64_t o = 0; o < out_rows; ++o) {
          expected.push_back(
              experts.product(expert[static_cast<size_t>(entry)], o, x.values.data() + row * cols, has_bias));
        }
      }
      EXPECT_LE(relative_error(out.values(), expected), kTolerance);
    }
  }
}

void check_glu(const TestQueue& queue, const Experts& gate, const Experts& up, int64_t rows, ActivationFormat format,
               graph::Activation activation) {
  const int64_t out_rows = gate.matrix.first.rows, cols = gate.matrix.first.cols;
  const Routed routed(rows, kExperts, kUsed);
  run_route(queue, random_floats(rows * kExperts, 1.0F, 7), {routed.routes.used, Gating::softmax, true, 1.0F}, routed);
  const Routes& routes = routed.routes;
  const Input x(gate.matrix.first.dtype, rows, cols, 5);
  const TestRows out(format, routes.entries(), out_rows);
  launch_expert_glu(*queue, {routes, x.view, false, gate.with_bias(), up.matrix, activation, out.view()});
  queue.finish();
  const auto expert = routed.expert(), source = routed.source();
  std::vector<double> expected;
  for (int64_t entry = 0; entry < routes.entries(); ++entry) {
    const float* row = x.values.data() + source[static_cast<size_t>(entry)] * cols;
    for (int64_t o = 0; o < out_rows; ++o) {
      const double g = gate.product(expert[static_cast<size_t>(entry)], o, row, true);
      const double u = up.product(expert[static_cast<size_t>(entry)], o, row, false);
      expected.push_back(gated_reference(activation, g, u));
    }
  }
  EXPECT_LE(relative_error(out.values(), expected), 3 * tolerance_of(format));
}

TEST(ExpertsDevice, GatedProductsOfEveryTypeAndFormat) {
  const TestQueue queue(true);
  for (const testing::LinearType& type : testing::kLinearTypes) {
    const int64_t out_rows = 104, cols = columns_of(type.dtype, 288);
    const Experts gate(queue, type.dtype, kExperts, out_rows, cols, 3),
        up(queue, type.dtype, kExperts, out_rows, cols, 13);
    for (const int64_t rows : {1, 8, 9, 100}) {
      SCOPED_TRACE(::testing::Message() << tensor::dtype_info(type.dtype).name << ", " << rows << " rows");
      using graph::Activation;
      const Activation activation = rows == 9   ? Activation::gelu_tanh
                                    : rows == 1 ? Activation::silu
                                                : Activation::swiglu_oai;
      for (const ActivationFormat format : {ActivationFormat::f32, ActivationFormat::q8, ActivationFormat::bf16}) {
        check_glu(queue, gate, up, rows, format, activation);
      }
    }
  }
}

TEST(ExpertsDevice, GatedProductsOfTwoTypes) {
  const TestQueue queue(false);
  const Experts gate(queue, DType::q4_k, kExperts, 72, 256, 3), up(queue, DType::q6_k, kExperts, 72, 256, 13);
  for (const int64_t rows : {2, 30}) check_glu(queue, gate, up, rows, ActivationFormat::q8, graph::Activation::silu);
}

TEST(ExpertsDevice, SumsAreWeighted) {
  const TestQueue queue(true);
  constexpr int64_t kWidth = 301;
  for (const int64_t rows : {1, 50}) {
    for (const bool by_row : {false, true}) {
      const int64_t used = by_row ? 1 : 3, count = by_row ? 1 : 8;
      const Routed routed(rows, count, used);
      run_route(queue, random_floats(rows * count, 1.0F, 7),
                {routed.routes.used, by_row ? Gating::sigmoid : Gating::softmax, false, 1.0F}, routed);
      const auto y_values = random_floats(rows * used * kWidth, 1.0F, 8);
      const TestRows y(ActivationFormat::f32, rows * used, kWidth, y_values);
      const auto residual = random_floats(rows * kWidth, 1.0F, 9);
      const TestRows out(ActivationFormat::f32, rows, kWidth, residual);
      launch_expert_sum(*queue, {routed.routes, y.view(), by_row, routed.weights.view(),
                                 reinterpret_cast<const float*>(out.view().data), out.view()});
      queue.finish();
      const auto weights = routed.weights.values();
      const auto place = routed.place();
      std::vector<double> expected(residual.begin(), residual.end());
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t i = row * used; i < (row + 1) * used; ++i) {
          const int64_t entry = by_row ? row : place[static_cast<size_t>(i)];
          for (int64_t c = 0; c < kWidth; ++c) {
            expected[static_cast<size_t>(row * kWidth + c)] +=
                double{weights[static_cast<size_t>(i)]} * y_values[static_cast<size_t>(entry * kWidth + c)];
          }
        }
      }
      EXPECT_LE(relative_error(out.values(), expected), kTolerance);
    }
  }
}

}  // namespace
}  // namespace minfer::cuda
