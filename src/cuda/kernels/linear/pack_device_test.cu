// Packing on the card gives the bytes that the layout says, for every type and for rows that are packed in two parts.
// Decoded on the host. Oracle: the file's types (tensor/quant).
#include <gtest/gtest.h>

#include "cuda/kernels/common/panel_block.cuh"
#include "cuda/kernels/linear/device_test_support.hpp"
#include "cuda/kernels/linear/test_data.hpp"
#include "cuda/launch/panel.hpp"

namespace minfer::cuda {
namespace {

std::vector<float> decode_panels(DType dtype, const std::vector<std::byte>& panels, int64_t rows, int64_t cols) {
  std::vector<float> values(static_cast<size_t>(rows * cols));
  with_panel_type(dtype, [&]<DType type>() {
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t block = 0; block < cols / 32; ++block) {
        float decoded[32];
        decode_panel_block<type>(panels.data() + row / 8 * panel_bytes(dtype, cols), cols, block,
                                 static_cast<int>(row % 8), decoded);
        std::copy(decoded, decoded + 32, values.data() + row * cols + block * 32);
      }
    }
  });
  return values;
}

TEST(PackDevice, DecodesToTheOraclesFloats) {
  const Capabilities capabilities = testing::test_capabilities();
  const Queue queue{nullptr, &capabilities};
  for (const testing::LinearType& type : testing::kLinearTypes) {
    SCOPED_TRACE(tensor::dtype_info(type.dtype).name);
    const int64_t rows = 37, cols = tensor::dtype_info(type.dtype).block_elements == 256 ? 768 : 576;
    std::mt19937 random(11);
    const std::vector<std::byte> file = testing::random_rows(type.dtype, rows, cols, random);
    const testing::TestBuffer<std::byte> source(file);
    const testing::TestBuffer<std::byte> panels(static_cast<size_t>(panel_matrix_bytes(type.dtype, rows, cols)));
    const PanelMatrix matrix{type.dtype, panels.data(), rows, cols};
    launch_pack(queue, matrix, source.data(), 0, 16);
    launch_pack(queue, matrix, source.data() + 16 * tensor::row_bytes(type.dtype, cols), 16, rows - 16);
    check_status(cudaDeviceSynchronize(), "test");
    EXPECT_EQ(decode_panels(type.dtype, panels.read(), rows, cols), testing::decode_rows(type.dtype, file, rows, cols));
  }
}

}  // namespace
}  // namespace minfer::cuda
