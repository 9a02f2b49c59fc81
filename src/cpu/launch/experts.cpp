// Choosing experts, grouping entries, and the experts' products by way of launch/linear. See experts.hpp.
#include "cpu/launch/experts.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.hpp"
#include "cpu/launch/activation.hpp"
#include "cpu/launch/panel.hpp"
#include "graph/ir.hpp"

namespace minfer::cpu {
namespace {

constexpr int64_t kRouteRows = 16;      // rows a chunk of routing
constexpr int64_t kGatherRows = 16;     // entries a chunk of gathering
constexpr int64_t kSumElements = 2048;  // elements a chunk of a sum

// Whether `a` is better; a NaN is below all.
bool is_better(float a, float b) {
  return a > b || (std::isnan(b) && !std::isnan(a));
}

// The `used` best of scores, the best first, the first of equal ones first; of those that `may_be` chosen.
template <class MayBe>
void choose(const float* scores, int64_t count, int64_t used, MayBe may_be, int32_t* chosen) {
  int64_t found = 0;
  for (int64_t e = 0; e < count; ++e) {
    if (!may_be(e)) continue;
    if (found == used && !is_better(scores[e], scores[chosen[found - 1]])) continue;
    int64_t at = found < used ? found++ : found - 1;
    for (; at > 0 && is_better(scores[e], scores[chosen[at - 1]]); --at) chosen[at] = chosen[at - 1];
    chosen[at] = static_cast<int32_t>(e);
  }
}

float group_score(const float* scores, int64_t count, graph::GroupScore kind) {
  const int64_t taken = kind == graph::GroupScore::two_largest ? std::min<int64_t>(count, 2) : 1;
  int32_t best[2];
  choose(scores, count, taken, [](int64_t) { return true; }, best);
  return taken == 2 ? scores[best[0]] + scores[best[1]] : scores[best[0]];
}

// Which groups a row may go to.
void choose_groups(const RouteArgs& args, const float* scores, bool (&kept)[graph::kMaxExpertGroups]) {
  const int64_t groups = args.choice.groups, size = args.experts / groups;
  float group_scores[graph::kMaxExpertGroups];
  for (int64_t g = 0; g < groups; ++g) {
    group_scores[g] = group_score(scores + g * size, size, args.choice.group_score);
    kept[g] = false;
  }
  int32_t best[graph::kMaxExpertGroups];
  choose(group_scores, groups, args.choice.groups_used, [](int64_t) { return true; }, best);
  for (int64_t i = 0; i < args.choice.groups_used; ++i) kept[best[i]] = true;
}

// The experts of one row.
void choose_experts(const RouteArgs& args, const float* logits, int32_t* chosen) {
  float biased[graph::kMaxExperts];
  const float* scores = logits;
  if (args.biases != nullptr) {
    for (int64_t e = 0; e < args.experts; ++e) biased[e] = 1.0F / (1.0F + std::exp(-logits[e])) + args.biases[e];
    scores = biased;
  }
  if (args.choice.groups == 1) {
    return choose(scores, args.experts, args.choice.used, [](int64_t) { return true; }, chosen);
  }
  bool kept[graph::kMaxExpertGroups];
  choose_groups(args, scores, kept);
  const int64_t size = args.experts / args.choice.groups;
  choose(scores, args.experts, args.choice.used, [&](int64_t e) { return kept[e / size]; }, chosen);
}

void weigh(const RouteArgs& args, const float* logits, const int32_t* chosen, float* weights) {
  const int64_t used = args.choice.used;
  if (args.choice.gating == graph::Gating::sigmoid) {
    for (int64_t i = 0; i < used; ++i) weights[i] = 1.0F / (1.0F + std::exp(-logits[chosen[i]]));
  } else {
    const float largest = logits[chosen[0]];
    float sum = 0;
    for (int64_t i = 0; i < used; ++i) weights[i] = std::exp(logits[chosen[i]] - largest);
    if (args.choice.gating == graph::Gating::softmax) {
      for (int64_t e = 0; e < args.experts; ++e) sum += std::exp(logits[e] - largest);
    } else {
      for (int64_t i = 0; i < used; ++i) sum += weights[i];
    }
    for (int64_t i = 0; i < used; ++i) weights[i] /= sum;
  }
  float sum = 0;
  for (int64_t i = 0; i < used; ++i) sum += weights[i];
  const float divisor = args.choice.normalised ? sum : 1.0F;
  for (int64_t i = 0; i < used; ++i) weights[i] = weights[i] / divisor * args.choice.scale;
}

// Entries in the order of their experts, of an expert in that of their rows.
void group_entries(const Routes& routes, int64_t experts) {
  int32_t next[graph::kMaxExperts];  // the expert's count, then where its next entry goes
  std::fill_n(next, experts, 0);
  for (int64_t i = 0; i < routes.entries(); ++i) ++next[routes.chosen[i]];
  int32_t groups = 0, first = 0;
  for (int64_t e = 0; e < experts; ++e) {
    const int32_t count = next[e];
    if (count == 0) continue;
    routes.expert[groups] = static_cast<int32_t>(e);
    routes.first_entry[groups++] = first;
    next[e] = first;
    first += count;
  }
  routes.first_entry[groups] = first;
  *routes.groups = groups;
  for (int64_t i = 0; i < routes.entries(); ++i) {
    const int32_t entry = next[routes.chosen[i]]++;
    routes.entry[i] = entry;
    routes.source[entry] = static_cast<int32_t>(i / routes.used);
  }
}

int64_t input_row_bytes(const ExpertInput& input) {
  return input.x.q8 != nullptr ? q8_row_bytes(input.k) : input.x.f32_stride * static_cast<int64_t>(sizeof(float));
}

// The input's rows by entry. A single row is every group's.
ActivationRows rows_by_entry(Worker& worker, const Routes& routes, const ExpertInput& input,
                             std::span<std::byte> scratch) {
  if (input.by_entry || routes.rows == 1) return input.x;
  const int64_t bytes = input_row_bytes(input);
  check(gather_bytes(bytes, routes.entries()) <= static_cast<int64_t>(scratch.size()), "experts: too little scratch");
  const auto* from = input.x.q8 != nullptr ? input.x.q8 : reinterpret_cast<const std::byte*>(input.x.f32);
  worker.parallel_for(routes.entries(), kGatherRows, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(scratch.data() + i * bytes, from + routes.source[i] * bytes, static_cast<size_t>(bytes));
    }
  });
  ActivationRows gathered = input.x;
  gathered.rows = routes.entries();
  if (input.x.q8 != nullptr) {
    gathered.q8 = scratch.data();
  } else {
    gathered.f32 = reinterpret_cast<const float*>(scratch.data());
  }
  return gathered;
}

// A group's rows of what rows_by_entry gave.
ActivationRows group_rows(const Routes& routes, const ExpertInput& input, const ActivationRows& rows, int64_t group) {
  ActivationRows part = rows;
  const int64_t first = routes.first_entry[group];
  part.rows = routes.first_entry[group + 1] - first;
  if (!input.by_entry && routes.rows == 1) return part;
  if (part.q8 != nullptr) part.q8 += first * q8_row_bytes(input.k);
  if (part.f32 != nullptr) part.f32 += first * part.f32_stride;
  return part;
}

LinearWeight expert_matrix(const ExpertWeights& weights, int64_t expert) {
  LinearWeight matrix = weights.first;
  matrix.data += expert * expert_stride(matrix);
  return matrix;
}

const float* expert_bias(const ExpertWeights& weights, int64_t expert) {
  return weights.bias == nullptr ? nullptr : weights.bias + expert * weights.first.rows;
}

}  // namespace

int64_t routes_bytes(int64_t rows, int64_t used) {
  return (5 * rows * used + 2) * static_cast<int64_t>(sizeof(int32_t));
}

Routes routes_at(std::byte* memory, int64_t rows, int64_t used) {
  auto* at = reinterpret_cast<int32_t*>(memory);
  const int64_t entries = rows * used;
  return {rows, used, at, at + entries, at + 2 * entries, at + 5 * entries + 1, at + 3 * entries, at + 4 * entries};
}

void launch_route(Worker& worker, const RouteArgs& args) {
  const Routes& routes = args.routes;
  check(args.experts <= graph::kMaxExperts && routes.used >= 1 && routes.used <= args.experts &&
            routes.used == args.choice.used && args.choice.groups <= graph::kMaxExpertGroups,
        "launch_route: too many experts, or more than there are are used");
  worker.parallel_for(routes.rows, kRouteRows, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* logits = args.logits + row * args.experts;
      int32_t* chosen = routes.chosen + row * routes.used;
      choose_experts(args, logits, chosen);
      weigh(args, logits, chosen, args.weights + row * routes.used);
    }
    // A step of one chunk needs no second barrier.
    if (end - begin == routes.rows) group_entries(routes, args.experts);
  });
  if (routes.rows <= kRouteRows) return;
  if (worker.index() == 0) group_entries(routes, args.experts);
  worker.barrier();
}

int64_t expert_stride(const LinearWeight& weight) {
  return panel_matrix_bytes(weight.dtype, weight.layout, weight.rows, weight.k);
}

int64_t gather_bytes(int64_t row_bytes, int64_t entries) {
  return row_bytes * entries;
}

void launch_expert_linear(Isa isa, Worker& worker, const Routes& routes, const ExpertInput& input,
                          const ExpertWeights& weights, float* out, std::span<std::byte> scratch) {
  const ActivationRows rows = rows_by_entry(worker, routes, input, scratch);
  const int64_t n = weights.first.rows;
  launch_linear_parts(isa, worker, *routes.groups, [&](int64_t group) {
    const int64_t expert = routes.expert[group];
    return LinearPart{group_rows(routes, input, rows, group),
                      {expert_matrix(weights, expert), expert_bias(weights, expert), nullptr,
                       out + routes.first_entry[group] * n, n}};
  });
}

void launch_expert_glu(Isa isa, Worker& worker, const Routes& routes, const ExpertInput& input, const ExpertGlu& args,
                       std::span<std::byte> scratch) {
  const ActivationRows rows = rows_by_entry(worker, routes, input, scratch);
  const int64_t n = args.gate.first.rows;
  launch_gated_parts(isa, worker, *routes.groups, [&](int64_t group) {
    const int64_t expert = routes.expert[group], first = routes.first_entry[group];
    GatedLinear glu{};
    glu.activation = args.activation;
    glu.gate = expert_matrix(args.gate, expert);
    glu.up = expert_matrix(args.up, expert);
    glu.gate_bias = expert_bias(args.gate, expert);
    glu.up_bias = expert_bias(args.up, expert);
    glu.out = args.out == nullptr ? nullptr : args.out + first * n;
    glu.out_stride = n;
    glu.q8 = args.q8 == nullptr ? nullptr : args.q8 + first * q8_row_bytes(n);
    return GatedPart{group_rows(routes, input, rows, group), glu};
  });
}

void launch_expert_sum(Worker& worker, const Routes& routes, const ExpertSumArgs& args) {
  check(!args.by_row || routes.used == 1, "launch_expert_sum: rows of several entries");
  const int64_t pieces = (args.n + kSumElements - 1) / kSumElements;
  worker.parallel_for(routes.rows * pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t row = item / pieces, column = item % pieces * kSumElements;
      const int64_t count = std::min(kSumElements, args.n - column);
      float sum[kSumElements];
      std::fill_n(sum, count, 0.0F);
      for (int64_t i = row * routes.used; i < (row + 1) * routes.used; ++i) {
        const float weight = args.weights[i];
        const float* y = args.y + (args.by_row ? row : routes.entry[i]) * args.n + column;
        for (int64_t c = 0; c < count; ++c) sum[c] += weight * y[c];
      }
      float* out = args.out + row * args.n + column;
      const float* residual = args.residual == nullptr ? nullptr : args.residual + row * args.n + column;
      if (residual == nullptr) {
        std::copy_n(sum, count, out);
      } else {
        for (int64_t c = 0; c < count; ++c) out[c] = residual[c] + sum[c];
      }
    }
  });
}

}  // namespace minfer::cpu
