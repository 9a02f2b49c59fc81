// What the op table claims and how large values are, without a card: pure functions of a node and a shape. What a node
// that is claimed does on a card is tested by its family.
#include "cuda/executor/op_table.hpp"

#include <gtest/gtest.h>

#include "cuda/launch/sampling.hpp"

namespace minfer::cuda {
namespace {

// A product of one row kind, from `width` to `out` columns, in a step of `tokens` rows.
std::optional<std::string> reason(graph::Op op, graph::Rows rows, int64_t tokens, int64_t width, int64_t out) {
  graph::Graph graph{};
  graph.shape = {tokens, 1};
  graph.values = {{{graph::Format::f32, rows, width}, {}}, {{graph::Format::f32, rows, out}, {}}};
  const graph::WeightId none = graph::kNoWeight;
  const graph::Node node{op, {0}, {none, none, none}, {1}, graph::NormLinearAttributes{}};
  return find_op(op)->unsupported(graph, node);
}

TEST(CudaOpTable, NormsEnterProductsOfFewNarrowRows) {
  const auto normed = [](int64_t tokens, int64_t width) {
    return reason(graph::Op::norm_linear, graph::Rows::tokens, tokens, width, 64);
  };
  EXPECT_EQ(normed(1, 4096), std::nullopt);
  EXPECT_EQ(normed(kNormRows, kNormColumns), std::nullopt);
  EXPECT_EQ(normed(kNormRows + 1, 4096), "norm of a large input");
  EXPECT_EQ(normed(1, kNormColumns + 4), "norm of a large input");
}

TEST(CudaOpTable, AVocabularyThatTheSamplerDoesNotTakeIsRefused) {
  const auto head = [](int64_t vocabulary) {
    return reason(graph::Op::linear, graph::Rows::outputs, 1, 64, vocabulary);
  };
  EXPECT_EQ(head(kMaxSampledVocabulary), std::nullopt);
  EXPECT_EQ(head(kMaxSampledVocabulary + 1), "a vocabulary larger than its sampler takes");
  EXPECT_EQ(reason(graph::Op::linear, graph::Rows::tokens, 1, 64, kMaxSampledVocabulary + 1), std::nullopt);
}

TEST(CudaOpTable, RowsStartAtMultiplesOf16Bytes) {
  EXPECT_EQ(cuda_value_bytes({graph::Format::f32, graph::Rows::tokens, 5}, 3), 3 * 32);
  EXPECT_EQ(cuda_value_bytes({graph::Format::bf16, graph::Rows::tokens, 5}, 3), 3 * 16);
  EXPECT_EQ(cuda_value_bytes({graph::Format::q8, graph::Rows::tokens, 64}, 2), 2 * (64 + 16));
  EXPECT_EQ(cuda_value_bytes({graph::Format::kv, graph::Rows::tokens, 0}, 2), 0);
  // Three arrays of 3 x 2 entries, the count of slices, and no more slices than experts and entries / 16.
  EXPECT_EQ(cuda_value_bytes({graph::Format::routes, graph::Rows::tokens, 4, 2}, 3), 4 * (3 * 6 + 1) + 12 * 4);
}

// A workspace is made for the largest step: no smaller one may need more.
TEST(CudaOpTable, AttentionsScratchGrowsWithTheStep) {
  Capabilities card;
  card.major = 9;
  card.tier = Tier::hopper;
  card.multiprocessors = 132;
  card.shared_bytes_per_block = 227 * 1024;
  card.shared_bytes_per_multiprocessor = 228 * 1024;
  graph::KvSpec kv;
  kv.layers = {{8, 128, 128, 0, {}}};
  kv.groups = {{0, {0}, 512}};
  kv.sequence_tokens = 32768;
  graph::AttentionAttributes attributes{};
  attributes.layer = 0;
  for (const int64_t heads : {8, 16, 32, 128}) {
    attributes.heads = heads;
    for (const bool strict : {false, true}) {
      card.strict = strict;
      int64_t before = 0;
      for (int64_t tokens = 1; tokens <= 200; ++tokens) {
        graph::Graph graph{};
        graph.shape = {tokens, 1};
        graph.values = {{{graph::Format::f32, graph::Rows::tokens, heads * 128}, {}}};
        graph.nodes = {{graph::Op::attention, {0}, {}, {0}, attributes}};
        graph.logits = graph::kNoValue;
        const int64_t bytes = node_scratch(card, graph, kv).attention;
        EXPECT_GE(bytes, before) << heads << " heads, " << tokens << " rows, strict " << strict;
        before = bytes;
      }
    }
  }
}

}  // namespace
}  // namespace minfer::cuda
