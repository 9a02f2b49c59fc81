// How weights are cut in slices.
#include "cuda/kernels/gemm/slices.hpp"

#include <gtest/gtest.h>

#include "cuda/launch/gemm.hpp"

namespace minfer::cuda {
namespace {

using tensor::DType;

constexpr int64_t kUnits = 132;  // multiprocessors

TEST(Slices, DecodedRows) {
  EXPECT_EQ(decoded_row_bytes(DType::q4_k, 4096), 8192);
  EXPECT_EQ(decoded_stride(DType::q4_k, 4096), 4096);
  EXPECT_EQ(decoded_row_bytes(DType::bf16, 9), 32);
  EXPECT_EQ(decoded_stride(DType::bf16, 9), 16);
  EXPECT_EQ(decoded_row_bytes(DType::f16, 9), 48);
  EXPECT_EQ(decoded_stride(DType::f32, 9), 12);
}

TEST(Slices, AreBoundedInBytes) {
  EXPECT_EQ(max_slice_rows(DType::q4_k, 4096), 12288);
  EXPECT_EQ(max_slice_rows(DType::q4_k, 12288), 4096);
  EXPECT_EQ(max_slice_rows(DType::f32, 4096), 6144);
  EXPECT_EQ(max_slice_rows(DType::q8_0, 32), kSliceRows);
  // A width of which not even 256 rows fit.
  EXPECT_EQ(max_slice_rows(DType::q4_k, 1 << 20), 256);
}

TEST(Slices, FillTheCard) {
  // 6144 rows: 24 x 16 tiles, 2.9 waves.
  EXPECT_EQ(slice_rows(2048, 24576, 6144, kUnits), 6144);
  EXPECT_EQ(slice_rows(2048, 4096, 2048, kUnits), 2048);
  EXPECT_EQ(slice_rows(2048, 6144, 6144, kUnits), 6144);
  // 6912 rows would be 27 x 16 tiles, 3.3 waves; 6144 are 2.9.
  EXPECT_EQ(slice_rows(2048, 37888, 6912, kUnits), 6144);
  // Small weights are one slice.
  EXPECT_EQ(slice_rows(200, 8, 256, kUnits), 256);
}

TEST(Slices, EverySliceFitsTheScratch) {
  for (const int64_t rows : {129, 500, 2048, 10000}) {
    for (const int64_t weight_rows : {1, 255, 256, 257, 5000, 151936}) {
      const int64_t limit = 3072;
      const int64_t step = slice_rows(rows, weight_rows, limit, kUnits);
      EXPECT_EQ(step % kSliceStep, 0);
      EXPECT_GT(step, 0);
      EXPECT_LE(step, limit);
    }
  }
}

TEST(Slices, ScratchIsBounded) {
  EXPECT_EQ(gemm_scratch_bytes(DType::q4_k, 2048, 151936, 4096), kSliceBytes);
  EXPECT_EQ(gemm_scratch_bytes(DType::q4_k, 2048, 100, 256), 256 * 512);
  EXPECT_EQ(gemm_glu_scratch_bytes(DType::q4_k, 2048, 12288, 4096), kSliceBytes + int64_t{2048} * 12288 * 4);
  EXPECT_EQ(gemm_glu_scratch_bytes(DType::q4_k, 100000, 12288, 4096), kSliceBytes + kGluRows * 12288 * 4);
}

}  // namespace
}  // namespace minfer::cuda
