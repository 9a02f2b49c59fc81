// How decode launches are cut, and what products read: no card needed.
#include "cuda/launch/linear.hpp"

#include <gtest/gtest.h>

#include "cuda/launch/linear_decode.hpp"
#include "cuda/launch/panel_types.hpp"

namespace minfer::cuda {
namespace {

using tensor::DType;

Capabilities hopper() {
  Capabilities capabilities;
  capabilities.name = "H200";
  capabilities.tier = Tier::hopper;
  capabilities.multiprocessors = 132;
  capabilities.shared_bytes_per_block = 227 * 1024;
  capabilities.shared_bytes_per_multiprocessor = 228 * 1024;
  return capabilities;
}

TEST(Linear, ActivationFormats) {
  EXPECT_EQ(activation_format(DType::q4_k, 1), ActivationFormat::q8);
  EXPECT_EQ(activation_format(DType::q8_0, 8), ActivationFormat::q8);
  EXPECT_EQ(activation_format(DType::q8_0, 9), ActivationFormat::bf16);
  EXPECT_EQ(activation_format(DType::bf16, 8), ActivationFormat::f32);
  EXPECT_EQ(activation_format(DType::bf16, 9), ActivationFormat::bf16);
  EXPECT_EQ(activation_format(DType::f16, 512), ActivationFormat::f32);
}

TEST(Linear, PlansLetTwoKernelsBeResident) {
  for (const int64_t cols : {576, 4096, 12288}) {
    const DecodePlan plan = plan_decode(hopper(), {{DType::q4_k, DType::q6_k}, 512, cols, 1});
    EXPECT_EQ(plan.tokens, 1);
    EXPECT_EQ(plan.blocks, 132);
    EXPECT_LE(2 * (plan.shared_bytes + 1024 + 512), 228 * 1024);
    EXPECT_GE(plan.stages * plan.stage_bytes, 78 * 1024);
    EXPECT_GE(plan.stage_bytes, plan.tile_units[0] * 2 * 1152);
    EXPECT_GE(plan.stage_bytes, plan.tile_units[1] * 2 * 1680);
  }
}

TEST(Linear, WideRowsTakeTheBlockThenFewerTokens) {
  const auto plan = [](int64_t cols, int64_t rows) {
    return plan_decode(hopper(), {{DType::q4_k, DType::q6_k}, 512, cols, rows});
  };
  EXPECT_EQ(plan(12288, 8).tokens, 8);
  EXPECT_LE(plan(12288, 8).shared_bytes, 227 * 1024 - 512);
  EXPECT_EQ(plan(28672, 8).tokens, 4);
  EXPECT_EQ(plan(28672, 1).tokens, 1);
  EXPECT_EQ(plan(4096, 3).tokens, 4);
  EXPECT_EQ(plan(4096, 5).tokens, 8);
  EXPECT_EQ(plan(1 << 20, 1).tokens, 0);
  // f32 activations: 24 KB a token and part.
  EXPECT_EQ(plan_decode(hopper(), {{DType::bf16, DType::bf16}, 512, 12288, 8}).tokens, 4);
}

TEST(Linear, WideRowsOfPlainTypesAreDoneInParts) {
  const auto plan = [](DType dtype, int64_t cols) { return plan_decode(hopper(), {{dtype, dtype}, 512, cols, 1}); };
  EXPECT_EQ(plan(DType::bf16, 4096).parts, 1);
  EXPECT_EQ(plan(DType::bf16, 8192).parts, 1);
  EXPECT_EQ(plan(DType::bf16, 12288).parts, 2);
  EXPECT_EQ(plan(DType::bf16, 12288).act_bytes, 24 * 1024);
  EXPECT_GE(plan(DType::bf16, 12288).stages, 5);
  EXPECT_EQ(plan(DType::bf16, 14336).parts, 2);
  EXPECT_EQ(plan(DType::f16, 28672).parts, 4);
  // Nothing that divides them, or no whole units.
  EXPECT_EQ(plan(DType::bf16, 37 * 512).parts, 1);
  EXPECT_EQ(plan(DType::bf16, 12288 + 8).parts, 1);
  EXPECT_EQ(plan(DType::q8_0, 12288).parts, 1);
  for (const DType dtype : {DType::bf16, DType::f32}) {
    const DecodePlan wide = plan(dtype, 12288);
    EXPECT_EQ(12 % wide.tile_units[0], 0);
  }
}

TEST(Linear, SumsOfAWholeRunWaitWhereTheyFit) {
  const auto slots = [](int64_t units, int64_t rows, bool glu) {
    return plan_decode(hopper(), {{DType::q4_k, DType::q4_k}, units, 4096, rows, glu}).slots;
  };
  EXPECT_EQ(slots(512, 1, false), 4);
  EXPECT_EQ(slots(384, 1, true), 24);
  EXPECT_EQ(slots(18992, 1, false), 32);
  EXPECT_EQ(slots(18992, 4, false), 16);
  EXPECT_EQ(slots(384, 8, true), 8);
  EXPECT_EQ(slots(1, 8, true), 8);
}

TEST(Linear, EveryPlanFits) {
  Capabilities ampere = hopper();
  ampere.shared_bytes_per_block = 99 * 1024;
  ampere.shared_bytes_per_multiprocessor = 100 * 1024;
  for (const Capabilities& capabilities : {hopper(), ampere}) {
    for (const DType dtype : {DType::q4_k, DType::q8_0, DType::bf16, DType::f32}) {
      for (const int64_t cols : {int64_t{256}, int64_t{4096}, int64_t{8192}, int64_t{14336}}) {
        for (int64_t rows = 1; rows <= 8; ++rows) {
          const DecodePlan plan = plan_decode(capabilities, {{dtype, dtype}, 100, cols, rows});
          ASSERT_GE(plan.tokens, 1);
          EXPECT_EQ(plan.blocks, 100);
          EXPECT_LE(plan.shared_bytes + 512, capabilities.shared_bytes_per_block);
          EXPECT_GE(plan.stages, 2);
          EXPECT_LE(plan.stages, kDecodeMaxStages);
          EXPECT_EQ(plan.stage_bytes % 128, 0);
        }
      }
    }
  }
}

}  // namespace
}  // namespace minfer::cuda
