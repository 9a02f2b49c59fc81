// Op timing on whole tiny models: calls, bytes and operations by value, seconds within the clock's. Models of
// tests/golden; the engine's thread alone. No speed is asserted: only that the ops' times make up the steps'.
#include <gtest/gtest.h>

#include <array>

#include "engine/forward.hpp"
#include "graph/op_work.hpp"
#include "model_runs.hpp"

namespace minfer::test {
namespace {

// tests/golden/tiny/llama.gguf: 3 layers, width 64, feed-forward 96, 4 heads and 2 KV heads of 16, vocabulary 288, F32.
constexpr int64_t kLayers = 3;

const graph::OpTime* find(const graph::OpTimes& times, graph::Op op, const std::string& what, bool decode) {
  for (const graph::OpTime& time : times.ops) {
    if (time.op == op && time.what == what && time.decode == decode) return &time;
  }
  return nullptr;
}

void expect_row(const graph::OpTimes& times, graph::Op op, const std::string& what, bool decode, int64_t calls,
                int64_t bytes, int64_t float_ops) {
  const graph::OpTime* time = find(times, op, what, decode);
  ASSERT_NE(time, nullptr) << graph::op_name(op) << ' ' << what;
  EXPECT_EQ(time->calls, calls) << graph::op_name(op) << ' ' << what;
  EXPECT_EQ(time->work.bytes, bytes) << graph::op_name(op) << ' ' << what;
  EXPECT_EQ(time->work.float_ops, float_ops) << graph::op_name(op) << ' ' << what;
  EXPECT_EQ(time->work.dot8_ops, 0) << graph::op_name(op) << ' ' << what;
}

double op_seconds(const graph::OpTimes& times, bool decode) {
  double seconds = 0;
  for (const graph::OpTime& time : times.ops) {
    EXPECT_GE(time.seconds, 0) << time.what;
    if (time.decode == decode) seconds += time.seconds;
  }
  return seconds;
}

class OpTiming : public ::testing::TestWithParam<std::string> {};

TEST_P(OpTiming, CountsCallsBytesAndOperations) {
  Loaded loaded(golden_path("tiny/llama.gguf"), GetParam(), 2, exact_options(64, 32));
  graph::Backend& device = loaded.registry.preferred();
  engine::Sequence sequence(loaded.runner.cache());
  device.set_op_timing(true);
  engine::append(loaded.runner, sequence, std::array<int32_t, 5>{5, 6, 7, 8, 9});
  for (const int32_t id : {10, 11, 12}) engine::append(loaded.runner, sequence, std::span(&id, 1));
  device.set_op_timing(false);
  const int32_t untimed = 13;
  engine::append(loaded.runner, sequence, std::span(&untimed, 1));

  const graph::OpTimes times = device.op_times();
  EXPECT_EQ(times.prompt.steps, 1);
  EXPECT_EQ(times.prompt.tokens, 5);
  EXPECT_EQ(times.decode.steps, 3);
  EXPECT_EQ(times.decode.tokens, 3);
  using graph::Op;
  constexpr int64_t kF32 = 4;
  expect_row(times, Op::embed, "", false, 1, 5 * 4 + 5 * 64 * kF32, 5 * 64);
  expect_row(times, Op::linear, "attn_q+attn_k+attn_v F32", false, kLayers, kLayers * (128 * 64 + 5 * 64) * kF32,
             kLayers * 2 * 5 * 128 * 64);
  // The residual is read too.
  // In the last layer only the last token's row goes on after attention.
  expect_row(times, Op::linear, "ffn_down F32", false, kLayers, (kLayers * 64 * 96 + (2 * 5 + 1) * (96 + 64)) * kF32,
             (2 * 5 + 1) * 2 * 64 * 96);
  expect_row(times, Op::linear_glu, "ffn_gate+ffn_up F32", true, 3 * kLayers, 3 * kLayers * (2 * 96 * 64 + 64) * kF32,
             3 * kLayers * 2 * 2 * 96 * 64);
  // One row of logits a step, of the last token alone.
  expect_row(times, Op::linear, "output F32", false, 1, (288 * 64 + 64) * kF32, 2 * 288 * 64);
  // A position of a layer's cache is 2 heads of 16 keys and 16 values. The prompt reads 5, its rows see 1 to 5.
  constexpr int64_t kPosition = 2 * 2 * 16 * kF32;
  expect_row(times, Op::attention, "", false, kLayers, kLayers * (5 * kPosition + 5 * 64 * kF32),
             kLayers * (1 + 2 + 3 + 4 + 5) * 2 * 4 * 32);
  expect_row(times, Op::attention, "", true, 3 * kLayers, kLayers * ((6 + 7 + 8) * kPosition + 3 * 64 * kF32),
             kLayers * (6 + 7 + 8) * 2 * 4 * 32);

  for (const bool decode : {false, true}) {
    const double wall = (decode ? times.decode : times.prompt).seconds;
    EXPECT_LE(op_seconds(times, decode), wall * 1.0001);
    EXPECT_GE(op_seconds(times, decode), wall * 0.97);
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, OpTiming, ::testing::ValuesIn(available_isas()),
                         [](const auto& row) { return row.param; });

// A step without outputs, as of a long prompt's first tokens: its last ops don't run.
TEST(OpTimingOfAStep, WithoutOutputsIsThatOfItsOps) {
  Loaded loaded(golden_path("tiny/llama.gguf"), "", 2, exact_options(64, 32));
  engine::Sequence sequence(loaded.runner.cache());
  const std::array<int32_t, 8> ids = {5, 6, 7, 8, 9, 10, 11, 12};
  loaded.registry.preferred().set_op_timing(true);
  ASSERT_TRUE(sequence.reserve(8));
  const graph::SequenceStep mine[] = {sequence.step(0, 8)};
  EXPECT_TRUE(loaded.runner.step({ids, {}, mine}).empty());
  const graph::OpTimes times = loaded.registry.preferred().op_times();
  EXPECT_EQ(find(times, graph::Op::linear, "output F32", false), nullptr);
  EXPECT_LE(op_seconds(times, false), times.prompt.seconds * 1.0001);
  EXPECT_GE(op_seconds(times, false), times.prompt.seconds * 0.97);
}

TEST(OpTimingOff, KeepsNothing) {
  Loaded loaded(golden_path("tiny/llama.gguf"), "scalar", 1, exact_options(64, 32));
  engine::Sequence sequence(loaded.runner.cache());
  engine::append(loaded.runner, sequence, std::array<int32_t, 2>{5, 6});
  const graph::OpTimes times = loaded.registry.preferred().op_times();
  EXPECT_TRUE(times.ops.empty());
  EXPECT_EQ(times.prompt.steps, 0);
}

// A window bounds what a row sees: positions 2, 3, 4 with a window of 2 see two each and read 1 to 4.
TEST(NodeWork, OfAnAttentionWithAWindow) {
  graph::Graph graph;
  graph.shape = {4, 1};
  graph.values = {{{graph::Format::f32, graph::Rows::tokens, 64}, "q"},
                  {{graph::Format::kv, graph::Rows::tokens, 0}, "kv"},
                  {{graph::Format::f32, graph::Rows::tokens, 64}, "attention"}};
  const graph::Node node{graph::Op::attention, {0, 1}, {}, {2}, graph::AttentionAttributes{0, 4, 2, 16, 16, 1, 2, 0}};
  const int64_t cache_row_bytes[] = {100};
  const int32_t ids[] = {1, 2, 3};
  const graph::SequenceStep sequences[] = {{0, 3, 2, {}}};
  const graph::WorkContext context{graph, {}, cache_row_bytes};
  const graph::OpWork work = graph::node_work(context, node, {ids, {}, sequences});
  EXPECT_EQ(work, (graph::OpWork{4 * 100 + 3 * 64 * 4, 0, 2 * 4 * 32 * 6}));
  EXPECT_EQ(graph::node_kind(context, node), "window 2");
}

// 8-bit activations: a byte an element, and 8 a block of 32; products with them are counted apart.
TEST(NodeWork, OfAProductWithEightBitActivations) {
  graph::Graph graph;
  graph.shape = {2, 1};
  graph.values = {{{graph::Format::q8, graph::Rows::tokens, 256}, "x"},
                  {{graph::Format::f32, graph::Rows::tokens, 10}, "y"}};
  const graph::Node node{graph::Op::linear, {0}, {0, 1}, {1}, {}};
  const graph::HeldWeight weights[] = {{{"blk.12.ffn_down.weight", 10, 256}, tensor::DType::q6_k, 2100},
                                       {{"blk.12.ffn_down.bias", 1, 10}, tensor::DType::f32, 40}};
  const int32_t ids[] = {1, 2};
  const graph::WorkContext context{graph, weights, {}};
  const graph::OpWork work = graph::node_work(context, node, {ids, {}, {}});
  EXPECT_EQ(work, (graph::OpWork{2100 + 40 + 2 * (256 + 64), 2 * 2 * 10 * 256, 0}));
  EXPECT_EQ(graph::node_kind(context, node), "ffn_down Q6_K");
}

// Two of eight experts a row: three rows that choose evenly reach 1 - (3/4)^3 of them.
TEST(NodeWork, OfExpertsThatRowsReach) {
  graph::Graph graph;
  graph.shape = {4, 1};
  graph.values = {{{graph::Format::f32, graph::Rows::tokens, 64}, "x"},
                  {{graph::Format::routes, graph::Rows::tokens, 8, 2}, "routes"},
                  {{graph::Format::f32, graph::Rows::tokens, 16, 2}, "y"}};
  const graph::Node node{graph::Op::expert_linear, {0, 1}, {0, graph::kNoWeight}, {2}, {}};
  const graph::HeldWeight weights[] = {{{"blk.0.ffn_down_exps.weight", 16, 64, 0, 8}, tensor::DType::f32, 64000}};
  const int32_t ids[] = {1, 2, 3};
  const graph::WorkContext context{graph, weights, {}};
  const graph::OpWork work = graph::node_work(context, node, {ids, {}, {}});
  EXPECT_EQ(work, (graph::OpWork{37000 + 3 * 64 * 4 + 3 * 2 * 4, 0, 2 * (3 * 2) * 16 * 64}));
  EXPECT_EQ(graph::node_kind(context, node), "ffn_down_exps F32");
}

}  // namespace
}  // namespace minfer::test
