// Launchers of the decoding of panels for prefill. See decode.hpp, decode_kernel.cuh.
#include "cuda/kernels/gemm/decode.hpp"

#include "cuda/kernels/common/require.hpp"
#include "cuda/kernels/gemm/decode_kernel.cuh"
#include "cuda/kernels/gemm/slices.hpp"

namespace minfer::cuda {
namespace {

int64_t panels_of(const DecodeTask& task) {
  require(task.first_row % kPanelRows == 0 && task.first_row + task.rows <= task.matrix.rows,
          "decoded rows begin at a panel and are the matrix's");
  return (task.rows + kPanelRows - 1) / kPanelRows;
}

void launch_tasks(const Queue& queue, const DecodeTask* tasks, int count) {
  const PanelMatrix& matrix = tasks[0].matrix;
  const PanelType type = panel_type(matrix.dtype);
  DecodeJob job{};
  job.panel_bytes = panel_bytes(matrix.dtype, matrix.cols);
  job.out_stride = decoded_row_bytes(matrix.dtype, matrix.cols);
  job.cols = matrix.cols;
  const int64_t tile_columns = type.plain() ? 4 * (128 / type.bits) : kTileColumns;
  job.row_tiles = static_cast<uint32_t>((matrix.cols + tile_columns - 1) / tile_columns);
  int64_t panels = 0;
  for (int i = 0; i < count; ++i) {
    job.panels[i] = tasks[i].matrix.data + tasks[i].first_row / kPanelRows * job.panel_bytes;
    job.out[i] = tasks[i].out;
    panels += panels_of(tasks[i]);
  }
  if (panels == 0) return;
  job.first_panels = static_cast<uint32_t>(panels_of(tasks[0]));
  require(panels * job.row_tiles <= INT32_MAX, "decoded tiles fit a grid");
  job.tiles = static_cast<uint32_t>(panels) * job.row_tiles;
  LaunchShape shape;
  shape.grid = dim3((job.tiles + kDecodeWarps - 1) / kDecodeWarps);
  shape.block = dim3(kDecodeWarps * 32);
  const bool known = with_panel_type(matrix.dtype, [&]<DType dtype>() {
    if constexpr (panel_type(dtype).plain()) {
      launch_kernel(queue, "gemm/decode", shape, decode_plain_kernel<dtype>, job);
    } else {
      launch_kernel(queue, "gemm/decode", shape, decode_kernel<dtype>, job);
    }
  });
  require(known, "weights of a type that has panels");
}

}  // namespace

void launch_decode(const Queue& queue, const DecodeTask& task) {
  launch_tasks(queue, &task, 1);
}

void launch_decode_pair(const Queue& queue, const DecodeTask& first, const DecodeTask& second) {
  if (first.matrix.dtype != second.matrix.dtype) {
    launch_tasks(queue, &first, 1);
    launch_tasks(queue, &second, 1);
    return;
  }
  require(first.matrix.cols == second.matrix.cols, "matrices decoded together have one width");
  const DecodeTask tasks[2] = {first, second};
  launch_tasks(queue, tasks, 2);
}

}  // namespace minfer::cuda
