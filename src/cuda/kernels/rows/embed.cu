// Rows of a table in panels as f32: one thread a block of 32 columns. See launch/rows.hpp.
#include "cuda/kernels/common/chain.cuh"
#include "cuda/kernels/common/panel_block.cuh"
#include "cuda/kernels/common/require.hpp"
#include "cuda/kernels/common/row_io.cuh"
#include "cuda/launch/rows.hpp"

namespace minfer::cuda {
namespace {

constexpr uint32_t kThreads = 64;

struct Table {
  const std::byte* panels;
  int64_t panel_bytes;
  int64_t rows;
  int64_t cols;
};

template <DType type>
__global__ void __launch_bounds__(kThreads)
    embed_kernel(Table table, const int32_t* ids, float scale, std::byte* out, int64_t stride, uint32_t pieces) {
  allow_dependents();
  wait_for_dependencies();
  const uint32_t row = blockIdx.x / pieces;
  const int64_t block = static_cast<int64_t>(blockIdx.x % pieces) * kThreads + threadIdx.x;
  if (block * kPanelBlock >= table.cols) return;
  const int32_t id = ids == nullptr ? 0 : ids[row];
  float values[kPanelBlock] = {};
  if (id >= 0 && id < table.rows) {
    decode_panel_block<type>(table.panels + id / kPanelRows * table.panel_bytes, table.cols, block,
                             static_cast<int>(id % kPanelRows), values);
  }
  float* target = reinterpret_cast<float*>(out + row * stride);
#pragma unroll
  for (int i = 0; i < kPanelBlock; i += 4) {
    store_f32(target, block * kPanelBlock + i, table.cols,
              make_float4(scale * values[i], scale * values[i + 1], scale * values[i + 2], scale * values[i + 3]));
  }
}

}  // namespace

void launch_embed(const Queue& queue, const EmbedArgs& args) {
  require(args.out.format == ActivationFormat::f32 && args.out.width == args.table.cols,
          "embeddings are f32 rows of the table's width");
  if (args.out.rows == 0) return;
  const int64_t blocks = (args.table.cols + kPanelBlock - 1) / kPanelBlock;
  const int64_t pieces = (blocks + kThreads - 1) / kThreads;
  require(pieces * args.out.rows <= INT32_MAX, "embedded rows fit a grid");
  LaunchShape shape;
  shape.grid = dim3(static_cast<uint32_t>(pieces * args.out.rows));
  shape.block = dim3(kThreads);
  const Table table = {args.table.data, panel_bytes(args.table.dtype, args.table.cols), args.table.rows,
                       args.table.cols};
  const bool known = with_panel_type(args.table.dtype, [&]<DType type>() {
    launch_kernel(queue, "rows/embed", shape, embed_kernel<type>, table, args.ids, args.scale, args.out.data,
                  row_stride(args.out.format, args.out.width), static_cast<uint32_t>(pieces));
  });
  require(known, "a table of a type that has panels");
}

}  // namespace minfer::cuda
