// Panels are as large as the file's rows, and the planes add up.
#include "cuda/launch/panel.hpp"

#include <gtest/gtest.h>

#include "cuda/kernels/linear/test_data.hpp"
#include "cuda/launch/panel_types.hpp"

namespace minfer::cuda {
namespace {

using tensor::DType;

TEST(Panel, SizesAreThoseOfTheFile) {
  for (const testing::LinearType& type : testing::kLinearTypes) {
    const tensor::DTypeInfo& info = tensor::dtype_info(type.dtype);
    SCOPED_TRACE(info.name);
    ASSERT_TRUE(has_panels(type.dtype));
    EXPECT_EQ(panel_type(type.dtype).source_bytes, info.block_bytes);
    EXPECT_EQ(panel_type(type.dtype).source_elements, info.block_elements);
    EXPECT_EQ(panel_bytes(type.dtype, 256), 8 * tensor::row_bytes(type.dtype, 256));
    EXPECT_EQ(panel_bytes(type.dtype, 4096), 8 * tensor::row_bytes(type.dtype, 4096));
    EXPECT_EQ(panel_bytes(type.dtype, 4096) % 16, 0);
    if (info.block_elements == 256) continue;
    EXPECT_EQ(panel_bytes(type.dtype, 896), 8 * tensor::row_bytes(type.dtype, 896));
    EXPECT_EQ(panel_bytes(type.dtype, 96), (8 * tensor::row_bytes(type.dtype, 96) + 15) / 16 * 16);
  }
  EXPECT_EQ(panel_bytes(DType::f32, 5), 2 * 8 * 16);
  EXPECT_EQ(panel_bytes(DType::bf16, 9), 2 * 8 * 16);
  EXPECT_EQ(panel_matrix_bytes(DType::q8_0, 9, 32), 768);  // two panels of 272, in 256s
  EXPECT_FALSE(has_panels(DType::iq2_xxs));
  EXPECT_FALSE(has_panels(DType::i32));
}

}  // namespace
}  // namespace minfer::cuda
