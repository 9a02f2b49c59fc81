// Launchers of the decoding of panels for prefill. See decode.hpp, decode_kernel.cuh.
#include "cuda/kernels/gemm/decode.hpp"

#include "cuda/kernels/common/require.hpp"
#include "cuda/kernels/gemm/decode_kernel.cuh"
#include "cuda/kernels/gemm/slices.hpp"

namespace minfer::cuda {
namespace {

constexpr int64_t kMaxPanels = 65535;  // a grid's second size

int64_t panels_of(const DecodeTask& task) {
  require(task.first_row % kPanelRows == 0 && task.first_row + task.rows <= task.matrix.rows,
          "decoded rows begin at a panel and are the matrix's");
  return (task.rows + kPanelRows - 1) / kPanelRows;
}

void launch_tasks(const Queue& queue, const DecodeTask* tasks, int count) {
  const PanelMatrix& matrix = tasks[0].matrix;
  DecodeJob job{};
  job.panel_bytes = panel_bytes(matrix.dtype, matrix.cols);
  job.out_stride = decoded_row_bytes(matrix.dtype, matrix.cols);
  job.cols = static_cast<int32_t>(matrix.cols);
  int64_t panels = 0;
  for (int i = 0; i < count; ++i) {
    job.panels[i] = tasks[i].matrix.data + tasks[i].first_row / kPanelRows * job.panel_bytes;
    job.out[i] = tasks[i].out;
    panels += panels_of(tasks[i]);
  }
  if (panels == 0) return;
  job.first_panels = static_cast<uint32_t>(panels_of(tasks[0]));
  require(panels <= kMaxPanels && matrix.cols <= INT32_MAX / 16, "decoded panels fit a grid");
  LaunchShape shape;
  shape.block = dim3(kDecodeWarps * 32);
  const auto set_grid = [&](int64_t warp_columns) {
    const int64_t columns = warp_columns * kDecodeWarps;
    shape.grid = dim3(static_cast<uint32_t>((matrix.cols + columns - 1) / columns), static_cast<uint32_t>(panels));
  };
  const bool known = with_panel_type(matrix.dtype, [&]<DType dtype>() {
    if constexpr (panel_type(dtype).plain()) {
      set_grid(kPlainColumns<dtype>);
      launch_kernel(queue, "gemm/decode", shape, decode_plain_kernel<dtype>, job);
    } else {
      set_grid(kPanelChunkBlocks * kPanelBlock);
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
