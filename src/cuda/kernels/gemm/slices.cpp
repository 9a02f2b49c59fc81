// The choice of slices. cuBLASLt's fast kernels have tiles of 128 x 256, one to a multiprocessor: what a product takes
// is about its waves of tiles. See slices.hpp.
#include "cuda/kernels/gemm/slices.hpp"

#include <algorithm>

namespace minfer::cuda {
namespace {

constexpr int64_t kTileRows = 128;  // of x
constexpr int64_t kTileCols = 256;  // of the weight's rows
// What a slice costs beside its tiles (two launches, the first tiles' loads), in waves.
constexpr double kSliceCost = 0.1;

constexpr int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

double slice_cost(int64_t rows, int64_t weight_rows, int64_t multiprocessors) {
  if (weight_rows == 0) return 0;
  const int64_t tiles = divide_up(rows, kTileRows) * divide_up(weight_rows, kTileCols);
  return kSliceCost + static_cast<double>(divide_up(tiles, multiprocessors));
}

}  // namespace

bool gemm_is_tf32(tensor::DType dtype) {
  return dtype == tensor::DType::f32 || dtype == tensor::DType::f16;
}

int64_t decoded_row_bytes(tensor::DType dtype, int64_t cols) {
  return divide_up(cols * (gemm_is_tf32(dtype) ? 4 : 2), 16) * 16;
}

int64_t decoded_stride(tensor::DType dtype, int64_t cols) {
  return decoded_row_bytes(dtype, cols) / (gemm_is_tf32(dtype) ? 4 : 2);
}

int64_t max_slice_rows(tensor::DType dtype, int64_t cols) {
  const int64_t steps = std::max<int64_t>(1, kSliceBytes / decoded_row_bytes(dtype, cols) / kSliceStep);
  return std::min(steps * kSliceStep, kSliceRows);
}

int64_t slice_rows(int64_t rows, int64_t weight_rows, int64_t limit, int64_t multiprocessors) {
  const int64_t most = std::min(limit, divide_up(weight_rows, kSliceStep) * kSliceStep);
  int64_t best = most;
  double best_cost = 0;
  for (int64_t slice = most; slice > 0 && slice >= most / 2; slice -= kSliceStep) {
    const double cost = static_cast<double>(weight_rows / slice) * slice_cost(rows, slice, multiprocessors) +
                        slice_cost(rows, weight_rows % slice, multiprocessors);
    if (slice == most || cost < best_cost) {
      best = slice;
      best_cost = cost;
    }
  }
  return best;
}

}  // namespace minfer::cuda
