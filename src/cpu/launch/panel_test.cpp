// Panels: packing is lossless for every type and layout, in parts as in one go, and a row read from a panel is the row
// of the file.
#include "cpu/launch/panel.hpp"

#include <gtest/gtest.h>

#include "cpu/launch/linear_test_data.hpp"

namespace minfer::cpu {
namespace {

using testing::kLinearTypes;
using testing::LinearType;

constexpr Layout kLayouts[] = {Layout::raw, Layout::panel8, Layout::panel16};

TEST(Panel, HoldsTheBytesOfItsRows) {
  EXPECT_EQ(panel_matrix_bytes(tensor::DType::q4_k, Layout::panel16, 17, 256), 2 * 16 * 144);
  EXPECT_EQ(panel_matrix_bytes(tensor::DType::q4_k, Layout::panel8, 17, 256), 3 * 8 * 144);
  EXPECT_EQ(panel_matrix_bytes(tensor::DType::q4_k, Layout::raw, 17, 256), 17 * 144);
  EXPECT_EQ(panel_count(Layout::panel16, 16), 1);
  EXPECT_EQ(panel_count(Layout::panel16, 17), 2);
}

TEST(Panel, LayoutFollowsTheInstructionSet) {
  EXPECT_EQ(linear_layout(Isa::scalar, tensor::DType::q4_k), Layout::raw);
  EXPECT_EQ(linear_layout(Isa::avx2, tensor::DType::q4_k), Layout::panel8);
  EXPECT_EQ(linear_layout(Isa::avx512, tensor::DType::bf16), Layout::panel16);
  EXPECT_EQ(linear_layout(Isa::scalar, tensor::DType::iq1_s), std::nullopt);
  EXPECT_EQ(linear_layout(Isa::avx512, tensor::DType::iq1_s), std::nullopt);
}

TEST(Panel, PackingIsLossless) {
  std::mt19937 random(1);
  for (const LinearType& type : kLinearTypes) {
    SCOPED_TRACE(tensor::dtype_info(type.dtype).name);
    for (const Layout layout : kLayouts) {
      for (const int64_t rows : {1, 7, 16, 17, 33}) {
        for (const int64_t k : {256, 768}) {
          const std::vector<std::byte> source = testing::random_rows(type, rows, k, random);
          std::vector<std::byte> panels(static_cast<size_t>(panel_matrix_bytes(type.dtype, layout, rows, k)),
                                        std::byte{0xA5});
          pack_panels(type.dtype, layout, rows, k, source.data(), panels.data());
          std::vector<std::byte> back(source.size());
          unpack_panels(type.dtype, layout, rows, k, panels.data(), back.data());
          ASSERT_EQ(source, back) << static_cast<int>(layout) << " " << rows << " " << k;
        }
      }
    }
  }
}

TEST(Panel, PartsEqualTheWhole) {
  std::mt19937 random(2);
  const int64_t rows = 43;
  const int64_t k = 512;
  for (const LinearType& type : kLinearTypes) {
    const std::vector<std::byte> source = testing::random_rows(type, rows, k, random);
    for (const Layout layout : kLayouts) {
      const auto bytes = static_cast<size_t>(panel_matrix_bytes(type.dtype, layout, rows, k));
      std::vector<std::byte> whole(bytes);
      std::vector<std::byte> parts(bytes);
      pack_panels(type.dtype, layout, rows, k, source.data(), whole.data());
      const int64_t row_bytes = tensor::row_bytes(type.dtype, k);
      for (const int64_t first : {32, 0, 16}) {
        pack_panels(type.dtype, layout, std::min<int64_t>(16, rows - first), k, source.data() + first * row_bytes,
                    parts.data() + first * row_bytes);
      }
      EXPECT_EQ(whole, parts);
    }
  }
}

TEST(Panel, RowsReadAsFloats) {
  std::mt19937 random(3);
  const int64_t rows = 19;
  const int64_t k = 512;
  for (const LinearType& type : kLinearTypes) {
    SCOPED_TRACE(tensor::dtype_info(type.dtype).name);
    const tensor::DTypeInfo& info = tensor::dtype_info(type.dtype);
    const std::vector<std::byte> source = testing::random_rows(type, rows, k, random);
    for (const Layout layout : kLayouts) {
      std::vector<std::byte> panels(static_cast<size_t>(panel_matrix_bytes(type.dtype, layout, rows, k)));
      pack_panels(type.dtype, layout, rows, k, source.data(), panels.data());
      for (const int64_t row : {0, 9, 16, 18}) {
        std::vector<float> expected(static_cast<size_t>(k));
        std::vector<float> found(static_cast<size_t>(k));
        info.dequantize(source.data() + row * tensor::row_bytes(type.dtype, k), k / info.block_elements,
                        expected.data());
        dequantize_panel_row(type.dtype, layout, k, panels.data(), row, found.data());
        ASSERT_EQ(expected, found) << row;
      }
    }
  }
}

// The order that panel.hpp promises, by hand: Q4_0, 8 rows of one block.
TEST(Panel, OrderOfQ4_0) {
  std::vector<std::byte> rows(8 * 18);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::byte>(i);
  std::vector<std::byte> panel(rows.size());
  pack_panels(tensor::DType::q4_0, Layout::panel8, 8, 32, rows.data(), panel.data());
  for (size_t r = 0; r < 8; ++r) {
    EXPECT_EQ(panel[2 * r], rows[18 * r]);
    EXPECT_EQ(panel[2 * r + 1], rows[18 * r + 1]);
    for (size_t word = 0; word < 4; ++word) {
      for (size_t j = 0; j < 4; ++j) {
        EXPECT_EQ(panel[16 + (word * 8 + r) * 4 + j], rows[18 * r + 2 + 4 * word + j]);
      }
    }
  }
}

}  // namespace
}  // namespace minfer::cpu
