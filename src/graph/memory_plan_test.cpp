// The memory plan: values that live together never overlap, checked by brute force on random graphs; residuals are
// reused.
#include "graph/memory_plan.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "base/error.hpp"
#include "graph/builder.hpp"

namespace minfer::graph {
namespace {

constexpr int64_t kWidth = 64;

int64_t bytes_of(const ValueType& type, int64_t rows) {
  return rows * type.width * 4;
}

// The node range in which a value must keep its bytes.
struct Life {
  int64_t first, last;
};

std::vector<Life> lives(const Graph& graph) {
  const int64_t end = static_cast<int64_t>(graph.nodes.size());
  std::vector<Life> result(graph.values.size(), {-1, -1});
  for (int64_t n = 0; n < end; ++n) {
    for (const ValueId v : graph.nodes[static_cast<size_t>(n)].outputs) result[static_cast<size_t>(v)] = {n, n};
    for (const ValueId v : graph.nodes[static_cast<size_t>(n)].inputs) result[static_cast<size_t>(v)].last = n;
  }
  for (const ValueId v : graph.inputs) result[static_cast<size_t>(v)].last = end;
  result[static_cast<size_t>(graph.logits)].last = end;
  return result;
}

bool is_allowed_alias(const Graph& graph, size_t a, size_t b) {
  for (const Node& node : graph.nodes) {
    if (node.op == Op::linear && node.inputs.size() == 2 && static_cast<size_t>(node.outputs[0]) == b &&
        static_cast<size_t>(node.inputs[1]) == a) {
      return true;
    }
  }
  return false;
}

void expect_no_overlap(const Graph& graph, const MemoryPlan& plan) {
  const auto life = lives(graph);
  for (size_t a = 0; a < graph.values.size(); ++a) {
    for (size_t b = a + 1; b < graph.values.size(); ++b) {
      if (plan.offsets[a] < 0 || plan.offsets[b] < 0) continue;
      if (life[a].last < life[b].first || life[b].last < life[a].first || is_allowed_alias(graph, a, b)) continue;
      const auto end = [&](size_t v) {
        return plan.offsets[v] + bytes_of(graph.values[v].type, row_count(graph.values[v].type.rows, graph.shape));
      };
      EXPECT_TRUE(end(a) <= plan.offsets[b] || end(b) <= plan.offsets[a]) << "values " << a << " and " << b;
    }
  }
}

const std::vector<WeightShape> kRandomWeights = {
    {"table", 100, kWidth}, {"square", kWidth, kWidth}, {"norm", 1, kWidth}, {"wide", 5 * kWidth, kWidth}};

// A graph of 40 nodes at random, some on the step's outputs; equal but for its shape for equal seeds.
Graph random_graph(uint32_t seed, const StepShape& shape) {
  std::mt19937 random(seed);
  Builder b(kRandomWeights, shape);
  std::vector<ValueId> values = {b.embed(b.input(Input::token_ids), b.weight("table"), 1.0F)};
  std::vector<ValueId> outputs;
  const auto any = [&](const std::vector<ValueId>& from) { return from[random() % from.size()]; };
  for (int i = 0; i < 40; ++i) {
    switch (random() % 6) {
      case 0: {
        const ValueId x = any(values), y = any(values);
        values.push_back(b.add(x, y));
        break;
      }
      case 1:
        values.push_back(b.rms_norm(any(values), b.weight("norm"), 1e-5F, kWidth));
        break;
      case 2:
        values.push_back(b.linear(any(values), b.weight("square")));
        break;
      case 3:
        outputs.push_back(b.linear(b.gather_rows(any(values), b.input(Input::output_rows)), b.weight("square")));
        break;
      case 4:
        if (!outputs.empty()) b.linear(any(outputs), b.weight("wide"));
        break;
      default: {
        const ValueId x = any(values), residual = any(values);
        values.push_back(b.add_node(Op::linear, {x, residual}, {b.weight("square"), kNoWeight}, {}, "residual")[0]);
      }
    }
  }
  return b.finish(b.linear(b.gather_rows(values.back(), b.input(Input::output_rows)), b.weight("square")));
}

TEST(MemoryPlan, RandomGraphsNeverOverlap) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    const Graph graph = random_graph(seed, {4, 2});
    const MemoryPlan plan = plan_memory(graph, bytes_of);
    expect_no_overlap(graph, plan);
    for (const int64_t offset : plan.offsets) EXPECT_EQ(offset < 0 ? 0 : offset % MemoryPlan::kAlignment, 0);
  }
}

TEST(MemoryPlan, SmallerStepsStayWithinTheLargest) {
  int larger_alone = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const MemoryPlan largest = plan_memory(random_graph(seed, {16, 16}), bytes_of);
    for (const StepShape& shape : {StepShape{16, 8}, {16, 1}, {15, 15}, {12, 8}, {1, 1}}) {
      const Graph graph = random_graph(seed, shape);
      larger_alone += plan_memory(graph, bytes_of).arena_bytes > largest.arena_bytes;
      const MemoryPlan plan = plan_memory_within(graph, bytes_of, largest);
      EXPECT_LE(plan.arena_bytes, largest.arena_bytes);
      expect_no_overlap(graph, plan);
    }
  }
  EXPECT_GT(larger_alone, 0) << "no graph needed the largest step's offsets";
}

TEST(MemoryPlan, AChainNeedsTwoBuffersAndResidualsAreOverwritten) {
  const std::vector<WeightShape> weights = {{"table", 100, kWidth}, {"square", kWidth, kWidth}};
  Builder b(weights, {16, 16});
  ValueId x = b.embed(b.input(Input::token_ids), b.weight("table"), 1.0F);
  for (int i = 0; i < 10; ++i) {
    const ValueId y = b.linear(x, b.weight("square"));
    x = b.add_node(Op::linear, {y, x}, {b.weight("square"), kNoWeight}, {}, "residual")[0];
  }
  const Graph graph = b.finish(b.gather_rows(x, b.input(Input::output_rows)));
  const MemoryPlan plan = plan_memory(graph, bytes_of);
  const int64_t value_bytes = 16 * kWidth * 4;
  EXPECT_EQ(plan.arena_bytes, 2 * value_bytes + 3 * 64);  // two values and the three inputs
}

TEST(MemoryPlan, SizesBeyond64BitsAreRefused) {
  const std::vector<WeightShape> weights = {{"table", 100, kWidth}};
  Builder b(weights, {4, 4});
  const ValueId x = b.embed(b.input(Input::token_ids), b.weight("table"), 1.0F);
  const Graph graph = b.finish(b.gather_rows(b.add(x, x), b.input(Input::output_rows)));
  const auto huge = [](const ValueType&, int64_t) { return int64_t{1} << 62; };
  EXPECT_THROW(plan_memory(graph, huge), Error);
  MemoryUse use;
  use.weights_bytes = use.kv_bytes = int64_t{1} << 62;
  EXPECT_THROW(static_cast<void>(use.total_bytes()), Error);
  use.kv_bytes -= 1;
  EXPECT_EQ(use.total_bytes(), std::numeric_limits<int64_t>::max());
}

}  // namespace
}  // namespace minfer::graph
