// Op rules, passes and exporters on a small decoder made by hand: what each pattern leaves and what it removes. One
// layer, no device: a table of what a device offers stands in for it, so that each pass is seen with and without its
// fused op.
#include <gtest/gtest.h>

#include <map>

#include "base/error.hpp"
#include "graph/builder.hpp"
#include "graph/export.hpp"
#include "graph/passes.hpp"
#include "graph/placement.hpp"

namespace minfer::graph {
namespace {

constexpr int64_t kWidth = 64, kHeads = 4, kKvHeads = 2, kHeadSize = 16, kFfn = 96, kVocabulary = 320;

std::vector<WeightShape> weights() {
  return {{"embedding", kVocabulary, kWidth},
          {"norm", 1, kWidth},
          {"q", kHeads * kHeadSize, kWidth},
          {"k", kKvHeads * kHeadSize, kWidth},
          {"v", kKvHeads * kHeadSize, kWidth},
          {"q_norm", 1, kHeadSize},
          {"k_norm", 1, kHeadSize},
          {"o", kWidth, kHeads * kHeadSize},
          {"gate", kFfn, kWidth},
          {"up", kFfn, kWidth},
          {"down", kWidth, kFfn}};
}

Graph block(std::span<const WeightShape> shapes, const StepShape& shape) {
  Builder b(shapes, shape);
  const auto w = [&](const char* name) { return b.weight(name); };
  ValueId x = b.embed(b.input(Input::token_ids), w("embedding"), 1.0F);
  const ValueId angles = b.rope_angles(b.input(Input::positions), {std::vector<float>(kHeadSize / 2, 0.5F), 1.0F});
  const ValueId n = b.rms_norm(x, w("norm"), 1e-5F, kWidth);
  const ValueId q = b.rope(b.rms_norm(b.linear(n, w("q")), w("q_norm"), 1e-5F, kHeadSize), angles,
                           {kHeads, kHeadSize, RopeStyle::halves});
  const ValueId k = b.rope(b.rms_norm(b.linear(n, w("k")), w("k_norm"), 1e-5F, kHeadSize), angles,
                           {kKvHeads, kHeadSize, RopeStyle::halves});
  const ValueId appended = b.kv_append(k, b.linear(n, w("v")), 0);
  const ValueId mixed = b.attention(q, appended, {0, kHeads, kKvHeads, kHeadSize, kHeadSize, 0.25F, 0, 0.0F});
  x = b.add(x, b.linear(mixed, w("o")));
  const ValueId n2 = b.rms_norm(x, w("norm"), 1e-5F, kWidth);
  const ValueId h = b.glu(b.linear(n2, w("gate")), b.linear(n2, w("up")), Activation::silu);
  x = b.add(x, b.linear(h, w("down")));
  const ValueId last = b.rms_norm(b.gather_rows(x, b.input(Input::output_rows)), w("norm"), 1e-5F, kWidth);
  return b.finish(b.linear(last, w("embedding")));
}

std::map<std::string, int> op_counts(const Graph& graph) {
  std::map<std::string, int> counts;
  for (const Node& node : graph.nodes) ++counts[std::string(op_name(node.op))];
  return counts;
}

DeviceTraits all_ops(Format format) {
  return {[](Op op) { return op != Op::norm_linear && op != Op::rope_attention; },
          [format](WeightId, int64_t) { return format; }, [](const Graph&, const Node&) { return true; }};
}

TEST(Passes, FuseToTheExpectedNodes) {
  const auto shapes = weights();
  const Graph fused = optimize(block(shapes, {8, 1}), shapes, all_ops(Format::f32));
  const std::map<std::string, int> expected = {{"embed", 1},      {"rope_angles", 1}, {"rms_norm", 3},
                                               {"linear", 4},     {"rope_append", 1}, {"attention", 1},
                                               {"linear_glu", 1}, {"gather_rows", 1}};
  EXPECT_EQ(op_counts(fused), expected);
}

TEST(Passes, QkvShareOneNodeWithThreeOutputs) {
  const auto shapes = weights();
  const Graph fused = optimize(block(shapes, {8, 1}), shapes, all_ops(Format::f32));
  std::vector<size_t> outputs;
  for (const Node& node : fused.nodes) {
    if (node.op == Op::linear) outputs.push_back(node.outputs.size());
  }
  EXPECT_EQ(outputs, (std::vector<size_t>{3, 1, 1, 1}));
}

TEST(Passes, ProductsShareANodeAsFarAsTheDeviceRunsIt) {
  const auto shapes = weights();
  DeviceTraits device = all_ops(Format::q8);
  device.runs = [](const Graph&, const Node& node) { return node.op != Op::linear || node.outputs.size() <= 2; };
  const Graph fused = optimize(block(shapes, {8, 1}), shapes, device);
  const Builder names(shapes, {1, 1});
  std::vector<std::vector<WeightId>> groups;
  for (const Node& node : fused.nodes) {
    if (node.op == Op::linear && node.weights[0] != names.weight("o")) groups.push_back(node.weights);
  }
  ASSERT_GE(groups.size(), 2U);
  EXPECT_EQ(groups[0], (std::vector<WeightId>{names.weight("q"), kNoWeight, names.weight("k"), kNoWeight}));
  EXPECT_EQ(groups[1], (std::vector<WeightId>{names.weight("v"), kNoWeight}));
}

TEST(Passes, ResidualsEnterTheLinear) {
  const auto shapes = weights();
  const Graph fused = optimize(block(shapes, {8, 1}), shapes, all_ops(Format::f32));
  int with_residual = 0;
  for (const Node& node : fused.nodes) with_residual += node.op == Op::linear && node.inputs.size() == 2;
  EXPECT_EQ(with_residual, 2);
}

TEST(Passes, ProducersWriteQ8WhereAllReadersWantIt) {
  const auto shapes = weights();
  const Graph fused = optimize(block(shapes, {8, 1}), shapes, all_ops(Format::q8));
  EXPECT_EQ(op_counts(fused).count("quantize"), 0U);
  for (const Node& node : fused.nodes) {
    const Format format = fused.values[static_cast<size_t>(node.outputs[0])].type.format;
    if (node.op == Op::rms_norm || node.op == Op::attention || node.op == Op::linear_glu) {
      EXPECT_EQ(format, Format::q8) << op_name(node.op);
    }
    if (node.op == Op::linear || node.op == Op::linear_glu) {
      EXPECT_EQ(fused.values[static_cast<size_t>(node.inputs[0])].type.format, Format::q8);
    }
  }
}

TEST(Passes, MixedReadersShareOneQuantizeNode) {
  // v reads f32, q and k read q8: the norm stays f32 and one quantize node serves both.
  const auto shapes = weights();
  Builder names(shapes, {1, 1});
  const WeightId v = names.weight("v");
  const DeviceTraits device{[](Op op) { return op != Op::linear_glu; },
                            [v](WeightId id, int64_t) { return id == v ? Format::f32 : Format::q8; },
                            [](const Graph&, const Node&) { return true; }};
  const Graph fused = optimize(block(shapes, {8, 1}), shapes, device);
  std::map<ValueId, int> quantized;
  for (const Node& node : fused.nodes) {
    if (node.op == Op::quantize) ++quantized[node.inputs[0]];
  }
  for (const auto& [value, count] : quantized) EXPECT_EQ(count, 1) << value;
  EXPECT_EQ(op_counts(fused)["linear_glu"], 0);
  EXPECT_EQ(op_counts(fused)["glu"], 1);
}

TEST(Passes, AProducerThatTheDeviceDoesNotRunInQ8GetsAQuantizeNode) {
  const auto shapes = weights();
  DeviceTraits device = all_ops(Format::q8);
  device.runs = [](const Graph& graph, const Node& node) {
    const ValueType& out = graph.values[static_cast<size_t>(node.outputs[0])].type;
    if (node.op == Op::linear) return true;  // asked before inputs are shared
    EXPECT_EQ(out.format, Format::q8) << "only these are asked about";
    if (node.op == Op::attention) {
      EXPECT_EQ(out.width, kHeads * kHeadSize);
      EXPECT_EQ(graph.values[static_cast<size_t>(node.inputs[1])].type.format, Format::kv);
    }
    return node.op != Op::attention;
  };
  const Graph fused = optimize(block(shapes, {8, 1}), shapes, device);
  ValueId mixed = kNoValue, quantized = kNoValue;
  for (const Node& node : fused.nodes) {
    if (node.op == Op::attention) mixed = node.outputs[0];
    if (node.op != Op::quantize) continue;
    EXPECT_EQ(quantized, kNoValue) << "no other producer is concerned";
    EXPECT_EQ(node.inputs[0], mixed);
    quantized = node.outputs[0];
  }
  ASSERT_NE(quantized, kNoValue);
  EXPECT_EQ(fused.values[static_cast<size_t>(mixed)].type.format, Format::f32);
  EXPECT_EQ(fused.values[static_cast<size_t>(quantized)].type.format, Format::q8);
  int readers = 0;
  for (const Node& node : fused.nodes) readers += node.op == Op::linear && node.inputs[0] == quantized;
  EXPECT_EQ(readers, 1);
}

TEST(Passes, WithoutFusionOnlyQuantizes) {
  const auto shapes = weights();
  const Graph plain = block(shapes, {8, 1});
  EXPECT_EQ(optimize(plain, shapes, all_ops(Format::f32), false).nodes.size(), plain.nodes.size());
}

TEST(Passes, DeviceWithoutFusedOpsKeepsThePlainOnes) {
  const auto shapes = weights();
  const DeviceTraits device{[](Op op) { return op != Op::rope_append && op != Op::linear_glu; },
                            [](WeightId, int64_t) { return Format::f32; },
                            [](const Graph&, const Node&) { return true; }};
  auto counts = op_counts(optimize(block(shapes, {8, 1}), shapes, device));
  EXPECT_EQ(counts["rope"], 2);
  EXPECT_EQ(counts["kv_append"], 1);
  EXPECT_EQ(counts["glu"], 1);
}

TEST(Passes, NormsEnterTheProductsThatTheDeviceRunsSo) {
  const auto shapes = weights();
  DeviceTraits device = all_ops(Format::q8);
  device.has_op = [](Op) { return true; };
  // Of the outputs' one row, not of 8 tokens.
  device.runs = [](const Graph& graph, const Node& node) {
    const bool normed = node.op == Op::norm_linear || node.op == Op::norm_linear_glu;
    const ValueType& x = graph.values[static_cast<size_t>(node.inputs[0])].type;
    return !normed || row_count(x.rows, graph.shape) <= 4;
  };
  auto counts = op_counts(optimize(block(shapes, {8, 1}), shapes, device));
  EXPECT_EQ(counts["norm_linear"], 1);
  EXPECT_EQ(counts["norm_linear_glu"], 0);
  EXPECT_EQ(counts["rms_norm"], 2);
  const Graph few = optimize(block(shapes, {4, 1}), shapes, device);
  counts = op_counts(few);
  EXPECT_EQ(counts["norm_linear"], 2);  // q, k and v; the output head
  EXPECT_EQ(counts["norm_linear_glu"], 1);
  EXPECT_EQ(counts["rms_norm"], 0);
  EXPECT_EQ(counts["quantize"], 0);
  for (const Node& node : few.nodes) {
    if (node.op != Op::norm_linear) continue;
    EXPECT_EQ(few.values[static_cast<size_t>(node.inputs[0])].type.format, Format::f32);
    EXPECT_EQ(node.weights.size(), node.outputs.size() * 2 + 1);
  }
}

TEST(Passes, AttentionTakesInWhatPrecedesItWhereTheDeviceRunsThat) {
  const auto shapes = weights();
  DeviceTraits device = all_ops(Format::q8);
  device.has_op = [](Op op) { return op != Op::norm_linear; };
  const Graph fused = optimize(block(shapes, {8, 1}), shapes, device);
  auto counts = op_counts(fused);
  EXPECT_EQ(counts["rope_attention"], 1);
  EXPECT_EQ(counts["rope_append"] + counts["attention"] + counts["rope"] + counts["quantize"], 0);
  for (const Node& node : fused.nodes) {
    if (node.op != Op::rope_attention) continue;
    const auto& attributes = std::get<RopeAttentionAttributes>(node.attributes);
    EXPECT_EQ(attributes.style, RopeStyle::halves);
    EXPECT_EQ(attributes.norm_eps, 1e-5F);
    EXPECT_EQ(attributes.attention.kv_heads, kKvHeads);
    ASSERT_EQ(node.inputs.size(), 4U);
    const auto width = [&](size_t i) { return fused.values[static_cast<size_t>(node.inputs[i])].type.width; };
    EXPECT_EQ(width(0), kHeads * kHeadSize);
    EXPECT_EQ(width(1), kKvHeads * kHeadSize);
    const Builder names(shapes, {1, 1});
    EXPECT_EQ(node.weights, (std::vector<WeightId>{names.weight("q_norm"), names.weight("k_norm"), kNoWeight}));
    EXPECT_EQ(fused.values[static_cast<size_t>(node.outputs[0])].type.format, Format::q8);
  }
  device.runs = [](const Graph&, const Node& node) { return node.op != Op::rope_attention; };
  counts = op_counts(optimize(block(shapes, {8, 1}), shapes, device));
  EXPECT_EQ(counts["rope_append"], 1);
  EXPECT_EQ(counts["attention"], 1);
}

TEST(Rules, SinksAreOneAHead) {
  std::vector<WeightShape> shapes = weights();
  shapes.push_back({"sinks", 1, kHeads});
  Builder b(shapes, {8, 1});
  const ValueId x = b.embed(b.input(Input::token_ids), b.weight("embedding"), 1.0F);
  const ValueId q = b.linear(x, b.weight("q"));
  const ValueId appended = b.kv_append(b.linear(x, b.weight("k")), b.linear(x, b.weight("v")), 0);
  const AttentionAttributes attributes{0, kHeads, kKvHeads, kHeadSize, kHeadSize, 0.25F, 0, 0.0F};
  EXPECT_EQ(b.type(b.attention(q, appended, attributes, b.weight("sinks"))).width, kHeads * kHeadSize);
  EXPECT_THROW(b.attention(q, appended, attributes, b.weight("norm")), Error);
}

TEST(Rules, JoinedHeadsLieWithinTheirRows) {
  const auto shapes = weights();
  Builder b(shapes, {8, 1});
  const ValueId x = b.embed(b.input(Input::token_ids), b.weight("embedding"), 1.0F);
  EXPECT_EQ(b.type(b.join_heads(x, x, {2, {kWidth - 4, 0, 4}, {0, 4, 4}})).width, 2 * 8);
  EXPECT_EQ(b.type(b.join_heads(x, x, {1, {0, 0, kWidth}, {}})), b.type(x));
  EXPECT_THROW(b.join_heads(x, x, {2, {kWidth - 4, 1, 4}, {}}), Error);
  EXPECT_THROW(b.join_heads(x, x, {2, {0, 4, 4}, {kWidth, 0, 1}}), Error);
  EXPECT_THROW(b.join_heads(x, x, {2, {0, 4, 0}, {0, 0, 4}}), Error);
}

TEST(Rules, AttentionToAWholeSequenceHasNoWindow) {
  const auto shapes = weights();
  Builder b(shapes, {8, 1});
  const ValueId x = b.embed(b.input(Input::token_ids), b.weight("embedding"), 1.0F);
  const ValueId q = b.linear(x, b.weight("q"));
  const ValueId appended = b.kv_append(b.linear(x, b.weight("k")), b.linear(x, b.weight("v")), 0);
  AttentionAttributes attributes{0, kHeads, kKvHeads, kHeadSize, kHeadSize, 0.25F, 0, 0.0F, false};
  EXPECT_NO_THROW(b.attention(q, appended, attributes));
  attributes.window = 4;
  EXPECT_THROW(b.attention(q, appended, attributes), Error);
}

TEST(Rules, LayerNormsHaveAWeightAndABiasOfAGroup) {
  std::vector<WeightShape> shapes = weights();
  shapes.push_back({"heads_norm", 1, kHeadSize, kNoLayer, kHeads});
  Builder b(shapes, {8, 1});
  const ValueId x = b.embed(b.input(Input::token_ids), b.weight("embedding"), 1.0F);
  EXPECT_EQ(b.type(b.layer_norm(x, b.weight("norm"), b.weight("norm"), 1e-5F, kWidth)), b.type(x));
  EXPECT_EQ(b.type(b.layer_norm(x, b.weight("q_norm"), kNoWeight, 1e-5F, kHeadSize)), b.type(x));
  EXPECT_EQ(b.type(b.layer_norm(x, b.weight("heads_norm"), kNoWeight, 1e-5F, kHeadSize)), b.type(x));
  EXPECT_THROW(b.layer_norm(x, b.weight("norm"), b.weight("q_norm"), 1e-5F, kWidth), Error);
  EXPECT_THROW(b.layer_norm(x, b.weight("heads_norm"), b.weight("q_norm"), 1e-5F, kHeadSize), Error);
  EXPECT_THROW(b.layer_norm(x, b.weight("q_norm"), kNoWeight, 1e-5F, kWidth), Error);
}

TEST(Rules, TheExactGeluHasNoGatedForm) {
  const auto shapes = weights();
  Builder b(shapes, {8, 1});
  const ValueId x = b.embed(b.input(Input::token_ids), b.weight("embedding"), 1.0F);
  EXPECT_EQ(b.type(b.activate(x, Activation::gelu_erf)), b.type(x));
  EXPECT_THROW(b.glu(x, x, Activation::gelu_erf), Error);
}

TEST(Passes, LayerNormsAndActivationsWriteWhatProductsRead) {
  const auto shapes = weights();
  Builder b(shapes, {8, 1});
  const ValueId x = b.embed(b.input(Input::token_ids), b.weight("embedding"), 1.0F);
  const ValueId normed = b.layer_norm(x, b.weight("norm"), kNoWeight, 1e-5F, kWidth);
  const ValueId inner = b.activate(b.linear(normed, b.weight("up")), Activation::gelu_tanh);
  const ValueId sum = b.gather_rows(b.add(x, b.linear(inner, b.weight("down"))), b.input(Input::output_rows));
  const Graph graph = b.finish(b.scale(b.linear(sum, b.weight("embedding")), {0.5F, 0.0F}));
  const Graph fused = optimize(graph, shapes, all_ops(Format::q8));
  auto counts = op_counts(fused);
  EXPECT_EQ(counts["quantize"], 1);  // of the gathered sum alone
  for (const Node& node : fused.nodes) {
    const Format format = fused.values[static_cast<size_t>(node.outputs[0])].type.format;
    EXPECT_EQ(format == Format::q8, node.op == Op::layer_norm || node.op == Op::activate || node.op == Op::quantize);
  }
}

TEST(Passes, TheFormatFollowsTheRowsThatAProductReads) {
  const auto shapes = weights();
  DeviceTraits device = all_ops(Format::f32);
  device.activation_format = [](WeightId, int64_t rows) { return rows > 4 ? Format::bf16 : Format::q8; };
  const Graph fused = optimize(block(shapes, {8, 1}), shapes, device);
  int tokens = 0, outputs = 0;
  for (const Node& node : fused.nodes) {
    if (node.op != Op::linear && node.op != Op::linear_glu) continue;
    const ValueType& x = fused.values[static_cast<size_t>(node.inputs[0])].type;
    EXPECT_EQ(x.format, x.rows == Rows::tokens ? Format::bf16 : Format::q8);
    ++(x.rows == Rows::tokens ? tokens : outputs);
  }
  EXPECT_EQ(tokens, 4);
  EXPECT_EQ(outputs, 1);
  EXPECT_EQ(op_counts(fused).count("quantize"), 0U);
}

TEST(Rules, RefuseWhatDoesNotFit) {
  const auto shapes = weights();
  Builder b(shapes, {8, 1});
  const ValueId x = b.embed(b.input(Input::token_ids), b.weight("embedding"), 1.0F);
  EXPECT_THROW(b.linear(x, b.weight("down")), Error);                     // 96 columns for a width of 64
  EXPECT_THROW(b.rms_norm(x, b.weight("q_norm"), 1e-5F, kWidth), Error);  // weight of 16
  EXPECT_THROW(b.add(x, b.linear(x, b.weight("gate"))), Error);           // widths differ
  EXPECT_THROW(b.embed(x, b.weight("embedding"), 1.0F), Error);           // ids must be i32
  EXPECT_THROW(b.weight("absent"), Error);
  EXPECT_EQ(b.find_weight("absent"), kNoWeight);
}

TEST(Bucket, CountsRoundUpToSharedShapes) {
  EXPECT_EQ(bucket_shape(1, 1, 512), (StepShape{1, 1}));
  EXPECT_EQ(bucket_shape(3, 0, 512), (StepShape{3, 1}));
  EXPECT_EQ(bucket_shape(5, 2, 512), (StepShape{6, 2}));
  EXPECT_EQ(bucket_shape(5, 5, 512), (StepShape{6, 6}));
  EXPECT_EQ(bucket_shape(7, 7, 512), (StepShape{8, 8}));
  EXPECT_EQ(bucket_shape(13, 9, 512), (StepShape{16, 16}));
  EXPECT_EQ(bucket_shape(100, 1, 512), (StepShape{128, 1}));
  EXPECT_EQ(bucket_shape(100, 33, 512), (StepShape{128, 64}));
  EXPECT_EQ(bucket_shape(129, 64, 512), (StepShape{192, 64}));
  EXPECT_EQ(bucket_shape(500, 1, 500), (StepShape{500, 1}));
  EXPECT_THROW(bucket_shape(513, 1, 512), Error);
  EXPECT_EQ(bucket_shape(100, 65, 512), (StepShape{128, 128}));
  EXPECT_THROW(bucket_shape(10000, kMaxOutputs + 1, 20000), Error);
}

TEST(Export, JsonAndDotNameNodesAndWeights) {
  const auto shapes = weights();
  const Graph graph = block(shapes, {8, 1});
  const std::string json = to_json(graph, shapes);
  EXPECT_NE(json.find("\"op\": \"attention\""), std::string::npos);
  EXPECT_NE(json.find("\"gate\""), std::string::npos);
  EXPECT_NE(json.find("\"exports\": []"), std::string::npos);
  const std::string dot = to_dot(graph, shapes);
  EXPECT_EQ(dot.rfind("digraph", 0), 0U);
  EXPECT_NE(dot.find("q_norm"), std::string::npos);
  EXPECT_NE(dot.find("-> \"logits\""), std::string::npos);
}

// A mixture of experts: two of four, and a gated expert for all.
std::vector<WeightShape> expert_weights() {
  std::vector<WeightShape> shapes = weights();
  shapes.push_back({"router", 4, kWidth});
  shapes.push_back({"gates", kFfn, kWidth, kNoLayer, 4});
  shapes.push_back({"ups", kFfn, kWidth, kNoLayer, 4});
  shapes.push_back({"downs", kWidth, kFfn, kNoLayer, 4});
  shapes.push_back({"gate_of_all", 1, kWidth});
  return shapes;
}

Graph expert_block(std::span<const WeightShape> shapes, const StepShape& shape) {
  Builder b(shapes, shape);
  const auto w = [&](const char* name) { return b.weight(name); };
  ValueId x = b.embed(b.input(Input::token_ids), w("embedding"), 1.0F);
  const ValueId n = b.rms_norm(x, w("norm"), 1e-5F, kWidth);
  const auto routed = b.route(b.linear(n, w("router")), {2, Gating::softmax, true, 1.0F});
  const ValueId h = b.glu(b.expert_linear(n, routed.routes, w("gates")), b.expert_linear(n, routed.routes, w("ups")),
                          Activation::silu);
  x = b.add(x, b.expert_sum(b.expert_linear(h, routed.routes, w("downs")), routed));
  const auto all = b.route(b.linear(n, w("gate_of_all")), {1, Gating::sigmoid, false, 1.0F});
  const ValueId g = b.glu(b.linear(n, w("gate")), b.linear(n, w("up")), Activation::silu);
  x = b.add(x, b.expert_sum(b.linear(g, w("down")), all));
  return b.finish(b.linear(b.gather_rows(x, b.input(Input::output_rows)), w("embedding")));
}

TEST(Passes, ExpertsFuseAsPlainProductsDo) {
  const auto shapes = expert_weights();
  // As devices do: plain weights, such as routers, read f32.
  Builder names(shapes, {1, 1});
  const WeightId router = names.weight("router"), gate = names.weight("gate_of_all");
  DeviceTraits device = all_ops(Format::q8);
  device.activation_format = [&](WeightId id, int64_t) {
    return id == router || id == gate ? Format::f32 : Format::q8;
  };
  const Graph fused = optimize(expert_block(shapes, {8, 1}), shapes, device);
  const std::map<std::string, int> expected = {
      {"embed", 1},      {"rms_norm", 1},   {"quantize", 2},      {"linear", 3},     {"route", 2},
      {"expert_glu", 1}, {"linear_glu", 1}, {"expert_linear", 1}, {"expert_sum", 2}, {"gather_rows", 1}};
  EXPECT_EQ(op_counts(fused), expected);
  for (const Node& node : fused.nodes) {
    const ValueType& out = fused.values[static_cast<size_t>(node.outputs[0])].type;
    if (node.op == Op::expert_glu) {
      EXPECT_EQ(out, (ValueType{Format::q8, Rows::tokens, kFfn, 2}));
      EXPECT_EQ(row_count(out, fused.shape), 16);
    }
    if (node.op == Op::route) {
      EXPECT_EQ(row_count(out, fused.shape), 8);
    }
    if (node.op == Op::expert_sum) {
      EXPECT_EQ(node.inputs.size(), 4U);
    }
  }
}

TEST(Rules, ExpertsMustMatchTheirRoutes) {
  const auto shapes = expert_weights();
  Builder b(shapes, {8, 1});
  const auto w = [&](const char* name) { return b.weight(name); };
  const ValueId x = b.embed(b.input(Input::token_ids), w("embedding"), 1.0F);
  const ValueId logits = b.linear(x, w("router"));
  EXPECT_THROW(b.route(logits, {5, Gating::softmax, true, 1.0F}), Error);
  EXPECT_THROW(b.route(logits, {0, Gating::softmax, true, 1.0F}), Error);
  const auto routed = b.route(logits, {2, Gating::softmax, true, 1.0F});
  EXPECT_THROW(b.expert_linear(x, routed.routes, w("gate")), Error);   // one matrix only
  EXPECT_THROW(b.expert_linear(x, logits, w("gates")), Error);         // no routes
  EXPECT_THROW(b.expert_linear(x, routed.routes, w("downs")), Error);  // of another width
  EXPECT_THROW(b.expert_sum(x, routed), Error);                        // a row for two entries
}

}  // namespace
}  // namespace minfer::graph
