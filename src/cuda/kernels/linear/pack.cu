// Rows of a file into panels, at load: a thread a block of 32 columns and row. Each byte is read once and written once;
// the card's caches make whole lines of them. Not part of a chain: weights are packed before anything is launched.
#include "cuda/kernels/linear/pack.cuh"

#include "cuda/kernels/common/panel_block.cuh"
#include "cuda/launch/panel.hpp"

namespace minfer::cuda {
namespace {

constexpr int kPackThreads = 256;

// `panels` is the first panel of these rows. Threads: rows of a panel fastest, so that neighbours write neighbours.
template <DType type>
__global__ void __launch_bounds__(kPackThreads)
    pack_kernel(std::byte* panels, const std::byte* source, int64_t cols, int64_t rows) {
  const int64_t blocks = (cols + kPanelBlock - 1) / kPanelBlock;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kPackThreads + threadIdx.x;
  const int64_t panel = at / (blocks * kPanelRows), row = at % kPanelRows, block = at / kPanelRows % blocks;
  if (panel * kPanelRows >= rows) return;
  constexpr PanelType kType = panel_type(type);
  const int64_t row_bytes = cols / kType.source_elements * kType.source_bytes;
  const int64_t source_row = panel * kPanelRows + row;
  pack_block<type>(panels + panel * panel_type_bytes(kType, cols),
                   source_row < rows ? source + source_row * row_bytes : nullptr, cols, block, static_cast<int>(row));
}

}  // namespace

void launch_pack(const Queue& queue, const PanelMatrix& matrix, const std::byte* source, int64_t first_row,
                 int64_t rows) {
  const int64_t panels = (rows + kPanelRows - 1) / kPanelRows;
  const int64_t threads = panels * kPanelRows * ((matrix.cols + kPanelBlock - 1) / kPanelBlock);
  // The matrix is the loader's own memory, const to everyone else.
  std::byte* first =
      const_cast<std::byte*>(matrix.data) + first_row / kPanelRows * panel_bytes(matrix.dtype, matrix.cols);
  with_panel_type(matrix.dtype, [&]<DType type>() {
    launch_kernel(queue, "linear/pack",
                  {dim3(static_cast<unsigned>((threads + kPackThreads - 1) / kPackThreads)), dim3(kPackThreads), 0},
                  pack_kernel<type>, first, source, matrix.cols, rows);
  });
}

}  // namespace minfer::cuda
