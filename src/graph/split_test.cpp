// Placement by layers and the cutting of graphs, on a small hand-made model: which values cross, that each part is
// whole, that cheap nodes are made twice, and what is refused. And the prefix of layers that fits a budget.
#include "graph/split.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/error.hpp"
#include "graph/builder.hpp"
#include "graph/memory_plan.hpp"
#include "graph/passes.hpp"
#include "graph/placement.hpp"

namespace minfer::graph {
namespace {

constexpr int64_t kWidth = 64;
constexpr int64_t kHeadSize = 16;
constexpr int64_t kHeads = 4;

std::vector<WeightShape> weights() {
  std::vector<WeightShape> shapes = {{"embedding", 100, kWidth}, {"norm", 1, kWidth}};
  for (int32_t layer = 0; layer < 3; ++layer) {
    for (const char* name : {"q", "k", "v", "o"})
      shapes.push_back({name + std::to_string(layer), kWidth, kWidth, layer});
  }
  return shapes;
}

// Three layers of attention alone; with `skip`, the head also adds the embedding.
Graph model(std::span<const WeightShape> shapes, const StepShape& shape, bool skip = false) {
  Builder b(shapes, shape);
  const ValueId embedded = b.embed(b.input(Input::token_ids), b.weight("embedding"), 1.0F);
  const ValueId angles = b.rope_angles(b.input(Input::positions), {std::vector<float>(kHeadSize / 2, 0.5F), 1.0F});
  ValueId x = embedded;
  for (int32_t layer = 0; layer < 3; ++layer) {
    const auto project = [&](const char* name, ValueId in) {
      return b.linear(in, b.weight(name + std::to_string(layer)));
    };
    const ValueId q = b.rope(project("q", x), angles, {kHeads, kHeadSize, RopeStyle::halves});
    const ValueId k = b.rope(project("k", x), angles, {kHeads, kHeadSize, RopeStyle::halves});
    const ValueId appended = b.kv_append(k, project("v", x), layer);
    const ValueId mixed = b.attention(q, appended, {layer, kHeads, kHeads, kHeadSize, kHeadSize, 0.25F, 0, 0.0F});
    x = b.add(x, project("o", mixed));
  }
  if (skip) x = b.add(x, embedded);
  return b.finish(b.linear(b.gather_rows(x, b.input(Input::output_rows)), b.weight("embedding")));
}

std::map<std::string, int> op_counts(const Graph& graph) {
  std::map<std::string, int> counts;
  for (const Node& node : graph.nodes) ++counts[std::string(op_name(node.op))];
  return counts;
}

std::vector<Part> split_at(const Graph& graph, std::span<const WeightShape> shapes,
                           const std::vector<int64_t>& first_layers) {
  return split(graph, shapes, place(graph, shapes, first_layers), first_layers.size());
}

TEST(Placement, NodesGoWithTheirLayer) {
  const auto shapes = weights();
  const Graph graph = model(shapes, {8, 1});
  const std::vector<int64_t> first_layers = {0, 1};
  std::map<int32_t, int> nodes;
  const auto parts = place(graph, shapes, first_layers);
  for (const int32_t part : parts) ++nodes[part];
  EXPECT_EQ(nodes[0], 2 + 9);
  EXPECT_EQ(nodes[1], 2 * 9 + 2);
  EXPECT_TRUE(std::is_sorted(parts.begin(), parts.end()));
}

TEST(Split, PartsPassTheHiddenStateAndMakeTheirOwnAngles) {
  const auto shapes = weights();
  const auto parts = split_at(model(shapes, {8, 2}), shapes, {0, 1, 2});
  ASSERT_EQ(parts.size(), 3U);
  for (size_t p = 0; p < 3; ++p) {
    const Graph& graph = parts[p].graph;
    const auto counts = op_counts(graph);
    EXPECT_EQ(counts.at("attention"), 1);
    EXPECT_EQ(counts.at("rope_angles"), 1);
    EXPECT_EQ(counts.count("embed"), p == 0 ? 1U : 0U);
    EXPECT_EQ(counts.count("gather_rows"), p == 2 ? 1U : 0U);
    EXPECT_EQ(graph.logits != kNoValue, p == 2);
    EXPECT_EQ(graph.exports.size(), p == 2 ? 0U : 1U);
    ASSERT_EQ(graph.imports.size(), p == 0 ? 0U : 1U);
    ASSERT_EQ(parts[p].imports.size(), graph.imports.size());
    EXPECT_EQ(import_bytes(graph, {5, 1}), p == 0 ? 0 : 5 * kWidth * 4);
    if (p > 0) {
      EXPECT_EQ(parts[p].imports[0].part, p - 1);
      EXPECT_EQ(parts[p].imports[0].export_index, 0U);
      EXPECT_EQ(graph.values[static_cast<size_t>(graph.imports[0])].type,
                (ValueType{Format::f32, Rows::tokens, kWidth}));
    }
  }
}

TEST(Split, AValueMayPassOverAPart) {
  const auto shapes = weights();
  const auto parts = split_at(model(shapes, {8, 2}, true), shapes, {0, 1, 2});
  EXPECT_EQ(parts[0].graph.exports.size(), 2U);
  EXPECT_EQ(parts[1].imports.size(), 1U);
  ASSERT_EQ(parts[2].imports.size(), 2U);
  EXPECT_EQ(parts[2].imports[0].part, 0U);
  EXPECT_EQ(parts[2].imports[1].part, 1U);
  const ValueId exported = parts[0].graph.exports[parts[2].imports[0].export_index];
  EXPECT_EQ(parts[0].graph.values[static_cast<size_t>(exported)].name, "embedding");
}

TEST(Split, OnePartIsTheWholeGraph) {
  const auto shapes = weights();
  const Graph graph = model(shapes, {8, 2});
  const auto parts = split_at(graph, shapes, {0});
  EXPECT_EQ(parts[0].graph.nodes.size(), graph.nodes.size());
  EXPECT_EQ(parts[0].graph.logits, graph.logits);
  EXPECT_TRUE(parts[0].imports.empty());
}

TEST(Split, PassesKeepImportsAndExportsAndThePlanKeepsExportsToTheEnd) {
  const auto shapes = weights();
  const DeviceTraits device{[](Op) { return true; }, [](WeightId, int64_t) { return Format::q8; },
                            [](const Graph&, const Node&) { return true; }};
  const auto bytes = [](const ValueType& type, int64_t rows) { return rows * type.width * 4; };
  for (const Part& part : split_at(model(shapes, {8, 2}, true), shapes, {0, 1, 2})) {
    const Graph graph = optimize(part.graph, shapes, device);
    EXPECT_LT(graph.nodes.size(), part.graph.nodes.size());
    ASSERT_EQ(graph.imports.size(), part.graph.imports.size());
    ASSERT_EQ(graph.exports.size(), part.graph.exports.size());
    const MemoryPlan plan = plan_memory(graph, bytes);
    for (const ValueId id : graph.exports) {
      EXPECT_EQ(graph.values[static_cast<size_t>(id)].type.format, Format::f32);
      // Nothing that is made later lies on an export.
      const int64_t begin = plan.offsets[static_cast<size_t>(id)];
      bool made = false;
      for (const Node& node : graph.nodes) {
        for (const ValueId output : node.outputs) {
          const int64_t at = plan.offsets[static_cast<size_t>(output)];
          const ValueType& type = graph.values[static_cast<size_t>(output)].type;
          if (made && at >= 0) {
            EXPECT_TRUE(at >= begin + 8 * kWidth * 4 || at + bytes(type, row_count(type.rows, graph.shape)) <= begin);
          }
          made = made || output == id;
        }
      }
    }
  }
}

TEST(Split, RefusesCachesThatCrossAndPartsThatReadLaterOnes) {
  const auto shapes = weights();
  const Graph graph = model(shapes, {8, 2});
  auto parts = place(graph, shapes, std::vector<int64_t>{0});
  for (size_t n = 0; n < graph.nodes.size(); ++n) parts[n] = graph.nodes[n].op == Op::attention ? 1 : 0;
  EXPECT_THROW(split(graph, shapes, parts, 2), Error) << "the cache of an append, read on another device";
  parts.assign(graph.nodes.size(), 0);
  parts[0] = 1;
  EXPECT_THROW(split(graph, shapes, parts, 2), Error) << "the embedding made after its readers";
}

TEST(LargestPrefix, TakesLayersWhileTheyFit) {
  const std::vector<int64_t> layers = {10, 20, 5, 40};
  EXPECT_EQ(largest_prefix(layers, 100, 109), 0);
  EXPECT_EQ(largest_prefix(layers, 100, 110), 1);
  EXPECT_EQ(largest_prefix(layers, 100, 129), 1);
  EXPECT_EQ(largest_prefix(layers, 100, 130), 2);
  EXPECT_EQ(largest_prefix(layers, 100, 135), 3);
  EXPECT_EQ(largest_prefix(layers, 100, 174), 3);
  EXPECT_EQ(largest_prefix(layers, 100, 175), 4);
  EXPECT_EQ(largest_prefix(layers, 100, 1000), 4);
  EXPECT_EQ(largest_prefix(layers, 100, 0), 0);
  EXPECT_EQ(largest_prefix({}, 0, 1000), 0);
}

}  // namespace
}  // namespace minfer::graph
