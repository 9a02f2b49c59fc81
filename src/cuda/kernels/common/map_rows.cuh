// A kernel that computes every quad of rows on its own: out[r][c .. c + 3] = op(r, c). An op is passed by value and
// gives zeros beyond the width. Blocks are numbered row by row, `pieces` blocks a row.
#pragma once

#include <algorithm>

#include "cuda/kernels/common/chain.cuh"
#include "cuda/kernels/common/require.hpp"
#include "cuda/kernels/common/row_io.cuh"
#include "cuda/runtime/launch.hpp"

namespace minfer::cuda {

inline constexpr int64_t kMapThreads = 256;

// `base_column`: where the piece of the row that this launch writes begins, a multiple of 32; `columns`: its width.
struct MapTarget {
  std::byte* data;
  int64_t stride;
  int64_t width;
  int64_t base_column;
  int64_t columns;
};

template <class Op, ActivationFormat kFormat>
__global__ void __launch_bounds__(kMapThreads) map_rows_kernel(Op op, MapTarget out, uint32_t pieces) {
  allow_dependents();
  wait_for_dependencies();
  const uint32_t row = blockIdx.x / pieces;
  const int64_t quad = static_cast<int64_t>(blockIdx.x % pieces) * blockDim.x + threadIdx.x;
  if (quad >= padded_quads(out.columns)) return;
  const int64_t column = quad * kQuad;
  store_quad<kFormat>(out.data + row * out.stride, out.base_column + column, out.width,
                      op(static_cast<int64_t>(row), column));
}

template <class Op>
void launch_map_columns(const Queue& queue, const char* site, const Op& op, const Rows& out, int64_t base_column,
                        int64_t columns) {
  if (out.rows == 0 || columns == 0) return;
  const int64_t quads = padded_quads(columns);
  const int64_t threads = std::min(kMapThreads, (quads + 31) / 32 * 32);
  const int64_t pieces = (quads + threads - 1) / threads;
  require(pieces * out.rows <= INT32_MAX, "rows beyond a grid");
  LaunchShape shape;
  shape.grid = dim3(static_cast<uint32_t>(pieces * out.rows));
  shape.block = dim3(static_cast<uint32_t>(threads));
  const MapTarget target = {out.data, row_stride(out.format, out.width), out.width, base_column, columns};
  const auto count = static_cast<uint32_t>(pieces);
  switch (out.format) {
    case ActivationFormat::f32:
      return launch_kernel(queue, site, shape, map_rows_kernel<Op, ActivationFormat::f32>, op, target, count);
    case ActivationFormat::bf16:
      return launch_kernel(queue, site, shape, map_rows_kernel<Op, ActivationFormat::bf16>, op, target, count);
    case ActivationFormat::q8:
      return launch_kernel(queue, site, shape, map_rows_kernel<Op, ActivationFormat::q8>, op, target, count);
  }
}

template <class Op>
void launch_map_rows(const Queue& queue, const char* site, const Op& op, const Rows& out) {
  launch_map_columns(queue, site, op, out, 0, out.width);
}

}  // namespace minfer::cuda
