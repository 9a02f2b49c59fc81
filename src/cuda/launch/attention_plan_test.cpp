// The choice of attention kernels, and the bounds that grids and scratch are made by, without a card: values in, values
// out.
#include "cuda/launch/attention_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "cuda/launch/attention.hpp"
#include "cuda/launch/attention_limits.hpp"

namespace minfer::cuda {
namespace {

using graph::KvFormat;

KvLayerView view(KvFormat key, KvFormat value, int64_t kv_heads, int64_t key_size, int64_t value_size) {
  return {
      .key_format = key, .value_format = value, .kv_heads = kv_heads, .key_size = key_size, .value_size = value_size};
}
KvLayerView halves(int64_t kv_heads, int64_t size) {
  return view(KvFormat::f16, KvFormat::f16, kv_heads, size, size);
}

Capabilities card(int major, int64_t shared_kibibytes) {
  Capabilities capabilities;
  capabilities.major = major;
  capabilities.shared_bytes_per_block = shared_kibibytes * 1024;
  return capabilities;
}
AttentionPlan plan_attention(const KvLayerView& kv, const AttentionShape& shape) {
  return minfer::cuda::plan_attention(card(9, 227), kv, shape);
}

TEST(AttentionPlan, UnsupportedHeadsHaveAReason) {
  EXPECT_EQ(attention_unsupported(halves(8, 128), 32), nullptr);
  EXPECT_EQ(attention_unsupported(view(KvFormat::f32, KvFormat::bf16, 1, 7, 500), 3), nullptr);
  EXPECT_STREQ(attention_unsupported(halves(8, 128), 12), "the query heads are not a multiple of the KV heads");
  EXPECT_STREQ(attention_unsupported(halves(8, 0), 8), "heads have no elements");
  EXPECT_STREQ(attention_unsupported(halves(1, 576), 1), "heads have more than 512 elements");
  EXPECT_STREQ(attention_unsupported(view(KvFormat::q8_0, KvFormat::f16, 1, 80, 80), 1),
               "q8_0 keys need heads of whole blocks of 32");
  EXPECT_STREQ(attention_unsupported(view(KvFormat::f16, KvFormat::q8_0, 1, 80, 80), 1),
               "q8_0 values need heads of whole blocks of 32");
}

TEST(AttentionPlan, DecodeSplitsForTheCardAndNotForTheBatch) {
  const AttentionPlan one =
      plan_attention(halves(8, 128), {.heads = 32, .rows = 1, .sequences = 1, .sequence_tokens = 8192, .decode = true});
  EXPECT_TRUE(one.split);
  EXPECT_FALSE(one.tiles);
  EXPECT_FALSE(one.simple);
  EXPECT_FALSE(one.wide);
  EXPECT_EQ(one.split_rows, 1);
  EXPECT_EQ(one.split_columns, 4);
  EXPECT_EQ(one.chunks, 1);
  EXPECT_EQ(one.split_limit, 16);
  EXPECT_EQ(one.splits, 16);
  const AttentionPlan many = plan_attention(
      halves(8, 128), {.heads = 32, .rows = 256, .sequences = 256, .sequence_tokens = 8192, .decode = true});
  EXPECT_EQ(many.split_limit, one.split_limit);
  // Five pages by two; up to four are not split: a window of 128 touches three.
  EXPECT_EQ(
      plan_attention(halves(8, 128), {.heads = 32, .rows = 1, .sequences = 1, .sequence_tokens = 300, .decode = true})
          .splits,
      3);
  EXPECT_EQ(
      plan_attention(halves(8, 128),
                     {.heads = 32, .rows = 1, .sequences = 1, .sequence_tokens = 8192, .window = 128, .decode = true})
          .splits,
      1);
  // Many KV heads fill the card by themselves, few need many splits.
  EXPECT_EQ(
      plan_attention(halves(32, 128), {.heads = 32, .rows = 1, .sequences = 1, .sequence_tokens = 8192, .decode = true})
          .split_limit,
      8);
  EXPECT_EQ(
      plan_attention(halves(2, 64), {.heads = 14, .rows = 1, .sequences = 1, .sequence_tokens = 8192, .decode = true})
          .split_limit,
      64);
}

TEST(AttentionPlan, LargeGroupsTakeSeveralBlocks) {
  const auto plan = [](int64_t size, int64_t group) {
    return plan_attention(halves(2, size),
                          {.heads = 2 * group, .rows = 4, .sequences = 4, .sequence_tokens = 64, .decode = true});
  };
  EXPECT_FALSE(plan(128, 8).wide);
  EXPECT_TRUE(plan(128, 9).wide);
  EXPECT_EQ(plan(128, 9).chunks, 1);
  EXPECT_EQ(plan(128, 32).chunks, 2);
  EXPECT_EQ(plan(128, 33).chunks, 3);
  EXPECT_EQ(plan(256, 17).chunks, 2);
  EXPECT_TRUE(plan(128, 65).simple);
}

TEST(AttentionPlan, MixedStepsShareSequencesOut) {
  const auto plan = [](int64_t size, int64_t rows, int64_t sequences) {
    return plan_attention(halves(8, size),
                          {.heads = 32, .rows = rows, .sequences = sequences, .sequence_tokens = 4096});
  };
  // Speculation: the rows of one sequence fit the split kernel, which is all there is.
  EXPECT_EQ(plan(128, 8, 1).split_rows, 8);
  EXPECT_TRUE(plan(128, 8, 1).wide);
  EXPECT_FALSE(plan(128, 8, 1).tiles);
  EXPECT_EQ(plan(128, 8, 1).split_columns, 16);
  EXPECT_EQ(plan(128, 8, 1).chunks, 2);
  EXPECT_EQ(plan(128, 40, 1).chunks, 10);  // 160 columns of each KV head in ten chunks
  EXPECT_FALSE(plan(128, 64, 1).tiles);
  // A prompt.
  EXPECT_FALSE(plan(128, 512, 1).split);
  EXPECT_EQ(plan(128, 512, 1).split_rows, 0);
  EXPECT_EQ(plan(128, 512, 1).tile_count, 512 / 32 + 1);
  // Several sequences: those of few rows are split.
  EXPECT_TRUE(plan(128, 512, 4).split);
  EXPECT_TRUE(plan(128, 512, 4).tiles);
  EXPECT_EQ(plan(128, 512, 4).split_rows, 16);
  // Many: single rows are split, all else is tiles.
  EXPECT_EQ(plan(256, 512, 100).split_rows, 1);
  EXPECT_EQ(plan(256, 512, 100).split_columns, 4);
  EXPECT_EQ(plan(256, 512, 100).tile_count, 512 / 16 + 100);
}

TEST(AttentionPlan, OtherHeadsTakeTheSimpleKernel) {
  const AttentionShape shape{.heads = 4, .rows = 8, .sequences = 2, .sequence_tokens = 256};
  for (const KvLayerView& kv :
       {view(KvFormat::f32, KvFormat::f32, 2, 128, 128), view(KvFormat::f16, KvFormat::bf16, 2, 128, 128),
        view(KvFormat::f16, KvFormat::f16, 2, 128, 64), halves(2, 40)}) {
    const AttentionPlan plan = plan_attention(kv, shape);
    EXPECT_TRUE(plan.simple);
    EXPECT_FALSE(plan.split || plan.tiles);
    EXPECT_EQ(attention_partial_bytes(card(9, 227), kv, shape), 0);
  }
}

TEST(AttentionPlan, KernelsFitTheCardsSharedMemory) {
  const AttentionShape shape{.heads = 4, .rows = 8, .sequences = 2, .sequence_tokens = 256};
  for (const KvFormat format : {KvFormat::f16, KvFormat::bf16, KvFormat::q8_0}) {
    for (const int64_t size : {64, 96, 128, 192, 256}) {
      const KvLayerView kv = view(format, format, 2, size, size);
      EXPECT_FALSE(minfer::cuda::plan_attention(card(9, 227), kv, shape).simple) << size;
      EXPECT_TRUE(minfer::cuda::plan_attention(card(9, 16), kv, shape).simple) << size;
    }
  }
  EXPECT_FALSE(minfer::cuda::plan_attention(card(8, 163), halves(2, 128), shape).simple);
}

TEST(AttentionPlan, NoLengthHasMoreSplitsThanPlanned) {
  for (const int64_t kv_heads : {1, 2, 8, 40}) {
    for (int64_t longest = 1; longest < 5000; longest += longest < 700 ? 1 : 61) {
      const AttentionPlan plan = plan_attention(
          halves(kv_heads, 128), {.heads = 40, .rows = 1, .sequences = 1, .sequence_tokens = longest, .decode = true});
      for (int pages = 1; pages <= (longest + 63) / 64; ++pages) {
        const int each = attention::split_pages(pages, static_cast<int>(plan.split_limit));
        ASSERT_LE((pages + each - 1) / each, plan.splits) << pages << " of " << longest;
        ASSERT_LE((pages + each - 1) / each, plan.split_limit);
      }
    }
  }
}

TEST(AttentionPlan, ScratchHoldsEverySplit) {
  EXPECT_EQ(attention::partial_floats(1, 64), 68);  // 64 + 2, aligned

  // 8 KV heads, 16 splits, 4 columns of 128 elements, a maximum and a sum.
  EXPECT_EQ(attention_scratch_bytes(card(9, 227), halves(8, 128), 32, 1, 1, 8192, true),
            attention_counter_bytes() + 8 * 16 * 4 * (128 + 2) * 4);
  EXPECT_EQ(attention_counter_bytes(), attention::kSplitCounters * 4);
}

}  // namespace
}  // namespace minfer::cuda
