// Packing and decoding, run on the host: a packed row decodes to the oracle's floats bit for bit, every byte of a panel
// is written, and rows that a matrix lacks are zeros.
#include <gtest/gtest.h>

#include "cuda/kernels/common/panel_block.cuh"
#include "cuda/kernels/linear/pack.cuh"
#include "cuda/kernels/linear/test_data.hpp"

namespace minfer::cuda {
namespace {

constexpr int64_t kRows = 13;  // two panels, the second with three rows missing

std::vector<std::byte> pack_on_host(DType dtype, const std::vector<std::byte>& source, int64_t cols, std::byte fill) {
  const int64_t bytes = panel_bytes(dtype, cols), stride = tensor::row_bytes(dtype, cols);
  // uint4 accesses need 16-byte addresses: operator new gives them.
  std::vector<std::byte> panels(static_cast<size_t>(2 * bytes), fill);
  with_panel_type(dtype, [&]<DType type>() {
    for (int64_t row = 0; row < 16; ++row) {
      for (int64_t block = 0; block < (cols + 31) / 32; ++block) {
        pack_block<type>(panels.data() + row / 8 * bytes, row < kRows ? source.data() + row * stride : nullptr, cols,
                         block, static_cast<int>(row % 8));
      }
    }
  });
  return panels;
}

void expect_decodes(DType dtype, int64_t cols) {
  SCOPED_TRACE(::testing::Message() << tensor::dtype_info(dtype).name << " " << cols);
  std::mt19937 random(7);
  const std::vector<std::byte> source = testing::random_rows(dtype, kRows, cols, random);
  const std::vector<float> expected = testing::decode_rows(dtype, source, kRows, cols);
  const std::vector<std::byte> panels = pack_on_host(dtype, source, cols, std::byte{0xFF});
  EXPECT_EQ(panels, pack_on_host(dtype, source, cols, std::byte{0x55})) << "a byte was not written";
  int64_t wrong = 0;
  with_panel_type(dtype, [&]<DType type>() {
    for (int64_t row = 0; row < 16; ++row) {
      for (int64_t block = 0; block < (cols + 31) / 32; ++block) {
        float values[32];
        decode_panel_block<type>(panels.data() + row / 8 * panel_bytes(dtype, cols), cols, block,
                                 static_cast<int>(row % 8), values);
        for (int64_t i = 0; i < 32; ++i) {
          const int64_t col = block * 32 + i;
          const float* value = row < kRows && col < cols ? &expected[static_cast<size_t>(row * cols + col)] : nullptr;
          wrong += value == nullptr ? values[i] != 0.0f : std::memcmp(value, &values[i], sizeof(float)) != 0;
        }
      }
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Pack, DecodesToTheOraclesFloats) {
  for (const testing::LinearType& type : testing::kLinearTypes) {
    expect_decodes(type.dtype, 768);
    if (tensor::dtype_info(type.dtype).block_elements == 256) continue;
    expect_decodes(type.dtype, 576);
    expect_decodes(type.dtype, 32);
    expect_decodes(type.dtype, 352);
  }
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) expect_decodes(dtype, 77);
}

}  // namespace
}  // namespace minfer::cuda
