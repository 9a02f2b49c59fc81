// How small-batch launches are cut, and where the family is preferred: no card needed.
#include "cuda/launch/linear_batch.hpp"

#include <gtest/gtest.h>

#include "cuda/launch/panel_types.hpp"
#include "cuda/launch/strict.hpp"

namespace minfer::cuda {
namespace {

using tensor::DType;

Capabilities card(int major) {
  Capabilities capabilities;
  capabilities.name = "card";
  capabilities.major = major;
  capabilities.tier = major >= 9 ? Tier::hopper : Tier::ampere;
  capabilities.multiprocessors = major >= 9 ? 132 : 108;
  capabilities.shared_bytes_per_block = (major >= 9 ? 227 : 163) * 1024;
  capabilities.shared_bytes_per_multiprocessor = (major >= 9 ? 228 : 164) * 1024;
  return capabilities;
}

BatchShape shape_of(std::initializer_list<int64_t> rows, int64_t cols, bool glu = false) {
  BatchShape shape;
  shape.types[0] = DType::q4_k;
  shape.types[1] = DType::q6_k;
  for (const int64_t count : rows) shape.panels[shape.segments++] = count / 8;
  shape.cols = cols;
  shape.glu = glu;
  return shape;
}

TEST(LinearBatch, ServesCommonTypes) {
  EXPECT_TRUE(batch_serves(card(9), DType::q4_k, DType::q6_k, 128));
  EXPECT_TRUE(batch_serves(card(9), DType::q8_0, DType::q8_0, 9));
  EXPECT_FALSE(batch_serves(card(9), DType::q4_k, DType::q8_0, 9));
  EXPECT_FALSE(batch_serves(card(9), DType::bf16, DType::bf16, 9));
  // The products from bf16 are of 9.0 alone; those of 8-bit quants are not.
  for (const int major : {8, 10}) {
    EXPECT_FALSE(batch_serves(card(major), DType::q4_k, DType::q4_k, 9));
    EXPECT_TRUE(batch_serves(card(major), DType::q4_k, DType::q4_k, 8));
  }
}

TEST(LinearBatch, PreferredBetweenDecodeAndPrefill) {
  EXPECT_FALSE(prefers_batch(card(9), DType::q4_k, 1));
  EXPECT_FALSE(prefers_batch(card(9), DType::q4_k, kBatchFirstRows - 1));
  EXPECT_TRUE(prefers_batch(card(9), DType::q4_k, kBatchFirstRows));
  EXPECT_TRUE(prefers_batch(card(9), DType::q4_k, kSmallBatchRows));
  EXPECT_FALSE(prefers_batch(card(9), DType::q4_k, kSmallBatchRows + 1));
  EXPECT_FALSE(prefers_batch(card(9), DType::q8_0, kDecodeRows));
  EXPECT_TRUE(prefers_batch(card(9), DType::q8_0, kDecodeRows + 1));
  EXPECT_FALSE(prefers_batch(card(9), DType::mxfp4, 16));
  EXPECT_FALSE(prefers_batch(card(8), DType::q4_k, 64));
}

TEST(LinearBatch, StrictTakesOneFamilyWhateverTheRows) {
  Capabilities strict = card(9);
  strict.strict = true;
  Capabilities old = card(8);
  old.strict = true;
  for (const int64_t rows : {1, 2, 8, 9, 64, 65, 1000}) {
    EXPECT_TRUE(prefers_batch(strict, DType::q4_k, rows));
    EXPECT_TRUE(prefers_batch(strict, DType::q8_0, rows));
    EXPECT_FALSE(prefers_batch(strict, DType::mxfp4, rows));
    EXPECT_FALSE(prefers_batch(strict, DType::bf16, rows));
    EXPECT_FALSE(prefers_batch(old, DType::q4_k, rows));
  }
  EXPECT_EQ(strict_activation_format(strict, DType::q4_k), ActivationFormat::bf16);
  EXPECT_EQ(strict_activation_format(strict, DType::mxfp4), ActivationFormat::q8);
  EXPECT_EQ(strict_activation_format(strict, DType::bf16), ActivationFormat::f32);
  EXPECT_EQ(strict_activation_format(old, DType::q4_k), ActivationFormat::q8);
  EXPECT_FALSE(strict_has_op(graph::Op::norm_linear));
  EXPECT_FALSE(strict_has_op(graph::Op::norm_linear_glu));
  EXPECT_FALSE(strict_has_op(graph::Op::rope_attention));
  EXPECT_TRUE(strict_has_op(graph::Op::linear_glu));
}

// The products of an 8B model: one wave of nearly all multiprocessors.
TEST(LinearBatch, CutsFillTheCard) {
  const auto expect_cut = [](const BatchShape& shape, int warpgroups, int splits, int64_t tiles) {
    const BatchCut cut = cut_batch(card(9), shape);
    EXPECT_EQ(cut.warpgroups, warpgroups);
    EXPECT_EQ(cut.splits, splits);
    EXPECT_EQ(cut.tiles, tiles);
  };
  expect_cut(shape_of({12288}, 4096, true), 3, 1, 128);
  expect_cut(shape_of({4096}, 4096), 2, 4, 32);
  expect_cut(shape_of({4096, 1024, 1024}, 4096), 3, 4, 32);
  expect_cut(shape_of({4096}, 12288), 2, 4, 32);
  expect_cut(shape_of({151936}, 4096), 3, 1, 792);
  expect_cut(shape_of({8}, 256), 1, 1, 1);
}

TEST(LinearBatch, NoSplitsWithoutClusters) {
  EXPECT_EQ(cut_batch(card(8), shape_of({1024}, 4096)).splits, 1);
  EXPECT_GT(cut_batch(card(9), shape_of({1024}, 4096)).splits, 1);
}

TEST(LinearBatch, TokensOfAPass) {
  EXPECT_EQ(batch_tokens(2), 8);
  EXPECT_EQ(batch_tokens(9), 16);
  EXPECT_EQ(batch_tokens(65), 104);
  EXPECT_EQ(batch_tokens(105), 128);
  EXPECT_EQ(batch_tokens(500), 128);
}

TEST(LinearBatch, EveryPlanFits) {
  for (const int major : {8, 9}) {
    for (const auto& types :
         {std::pair{DType::q4_k, DType::q6_k}, {DType::q8_0, DType::q8_0}, {DType::q4_0, DType::q4_1}}) {
      for (const int64_t rows : {8, 576, 4096, 151936}) {
        for (const int64_t cols : {256, 896, 12288}) {
          for (const int tokens : {8, 16, 32, 64, 104, 128}) {
            if (major < 9 && tokens > 8) continue;
            BatchShape shape = shape_of({rows}, cols);
            shape.types[0] = types.first;
            shape.types[1] = types.second;
            const BatchPlan plan = plan_batch(card(major), shape, tokens);
            ASSERT_GE(plan.stages, 2);
            EXPECT_LE(plan.stages, kBatchMaxStages);
            EXPECT_LE(plan.shared_bytes + 512, card(major).shared_bytes_per_block);
            EXPECT_GE(plan.scales_at - plan.weights_at, plan.stages * plan.slot_bytes * plan.cut.warpgroups * 8);
            EXPECT_GE(plan.weights_at, plan.x_stages * tokens * (tokens == 8 ? 344 : 256));
            EXPECT_EQ(plan.weights_at % 128, 0);
            EXPECT_EQ(plan.blocks % plan.cut.splits, 0);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace minfer::cuda
