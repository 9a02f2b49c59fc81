// The scalar linear kernel, oracle of the others: rows of the file, decoded by the type's codec, times f32 activations.
// 16 partial sums (element i of a row goes to sum i mod 16), added up in pairs: the order is fixed by k alone. A row is
// decoded in slices, once for all columns.
#include <algorithm>

#include "base/error.hpp"
#include "cpu/launch/linear_kernels.hpp"

namespace minfer::cpu::scalar {
namespace {

constexpr int64_t kSlice = 4096;  // elements, a multiple of every type's block
constexpr int64_t kLanes = 16;
constexpr int64_t kMaxColumns = 512;

float sum_pairs(float* lanes) {
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

void add_dot(const float* w, const float* x, int64_t count, float* lanes) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t j = 0; j < kLanes; ++j) lanes[j] += w[i + j] * x[i + j];
  }
  for (; i < count; ++i) lanes[i % kLanes] += w[i] * x[i];
}

void compute_tile(const LinearTile& tile) {
  check(tile.columns <= kMaxColumns, "scalar linear: too many columns");
  const tensor::DTypeInfo& info = tensor::dtype_info(tile.dtype);
  float w[kSlice];
  float lanes[kMaxColumns][kLanes];
  for (int64_t r = 0; r < tile.panels_count; ++r) {
    for (int64_t c = 0; c < tile.columns; ++c) std::fill_n(lanes[c], kLanes, 0.0f);
    for (int64_t at = 0; at < tile.k; at += kSlice) {
      const int64_t count = std::min(kSlice, tile.k - at);
      info.dequantize(tile.panels + r * tile.panel_stride + at / info.block_elements * info.block_bytes,
                      count / info.block_elements, w);
      for (int64_t c = 0; c < tile.columns; ++c) {
        add_dot(w, reinterpret_cast<const float*>(tile.x + c * tile.x_stride) + at, count, lanes[c]);
      }
    }
    for (int64_t c = 0; c < tile.columns; ++c) tile.products[c * tile.panels_count + r] = sum_pairs(lanes[c]);
  }
}

}  // namespace

LinearTileFn linear_tile(tensor::DType dtype) {
  return tensor::dtype_info(dtype).dequantize == nullptr ? nullptr : compute_tile;
}

}  // namespace minfer::cpu::scalar
