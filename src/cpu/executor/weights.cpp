// Layout choice and loading of weights. See weights.hpp.
#include "cpu/executor/weights.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "tensor/dtype.hpp"

namespace minfer::cpu {
namespace {

// Panel rows that one thread packs at a time: small enough to share a matrix out, large enough to stream.
constexpr int64_t kPackPanels = 8;

std::string_view layout_name(Layout layout) {
  switch (layout) {
    case Layout::raw:
      return "raw";
    case Layout::panel8:
      return "panel8";
    case Layout::panel16:
      return "panel16";
  }
  return "unknown";
}

int64_t aligned(int64_t bytes) {
  return (bytes + kPanelAlignment - 1) / kPanelAlignment * kPanelAlignment;
}

// How a weight is held: its layout, and whether in the file's own pages.
struct Holding {
  Layout layout;
  bool mapped;
};

Holding holding_of(Isa isa, const graph::WeightShape& shape, tensor::DType dtype, graph::WeightRole role) {
  if (tensor::dtype_info(dtype).dequantize == nullptr) {
    fail(ErrorCode::unsupported,
         "tensor {} has type {}, which minfer can't decode; take another quantization of the model", shape.name,
         tensor::dtype_info(dtype).name);
  }
  if (role == graph::WeightRole::vector) return {Layout::raw, false};
  if (role == graph::WeightRole::embedding) return {Layout::raw, true};
  const auto layout = linear_layout(isa, dtype);
  if (!layout) {
    fail(ErrorCode::unsupported, "tensor {} has type {}, for which the {} kernels have no matrix product", shape.name,
         tensor::dtype_info(dtype).name, isa_name(isa));
  }
  return {*layout, *layout == Layout::raw};
}

int64_t held_bytes(const Holding& holding, const graph::WeightShape& shape, tensor::DType dtype,
                   graph::WeightRole role) {
  if (role == graph::WeightRole::vector) return aligned(shape.cols * static_cast<int64_t>(sizeof(float)));
  if (holding.mapped) return shape.rows * tensor::row_bytes(dtype, shape.cols);
  return aligned(panel_matrix_bytes(dtype, holding.layout, shape.rows, shape.cols));
}

}  // namespace

graph::WeightLayout choose_weight_layout(Isa isa, const graph::WeightShape& shape, tensor::DType dtype,
                                         graph::WeightRole role) {
  const Holding holding = holding_of(isa, shape, dtype, role);
  const bool q8 = role != graph::WeightRole::vector && linear_reads_q8(isa, dtype);
  const std::string_view name = role == graph::WeightRole::vector ? "f32"
                                : holding.mapped                  ? "mapped"
                                                                  : layout_name(holding.layout);
  return {name, held_bytes(holding, shape, dtype, role), !holding.mapped, q8 ? graph::Format::q8 : graph::Format::f32};
}

namespace {

void load_vector(const graph::WeightSource& source, std::byte* target) {
  const auto& info = tensor::dtype_info(source.dtype);
  info.dequantize(source.data.data(), source.shape.cols / info.block_elements, reinterpret_cast<float*>(target));
}

void load_panels(ThreadPool& pool, const graph::WeightSource& source, Layout layout, std::byte* target) {
  const int64_t panel_rows = layout_rows(layout);
  const int64_t row_bytes = tensor::row_bytes(source.dtype, source.shape.cols);
  const int64_t bytes = panel_bytes(source.dtype, layout, source.shape.cols);
  pool.run([&](Worker& worker) {
    worker.parallel_for(panel_count(layout, source.shape.rows), kPackPanels, [&](int64_t begin, int64_t end) {
      const int64_t first_row = begin * panel_rows;
      const int64_t rows = std::min(end * panel_rows, source.shape.rows) - first_row;
      pack_panels(source.dtype, layout, rows, source.shape.cols, source.data.data() + first_row * row_bytes,
                  target + begin * bytes);
    });
  });
}

}  // namespace

CpuWeights::CpuWeights(Isa isa, ThreadPool& pool, std::span<const graph::WeightSource> sources,
                       const graph::ProgressFn& progress) {
  int64_t owned_bytes = 0;
  std::vector<Holding> holdings;
  for (const graph::WeightSource& source : sources) {
    holdings.push_back(holding_of(isa, source.shape, source.dtype, source.role));
    const int64_t held = held_bytes(holdings.back(), source.shape, source.dtype, source.role);
    bytes_ += held;
    if (!holdings.back().mapped) owned_bytes += held;
  }
  buffer_ = HugeBuffer(static_cast<size_t>(owned_bytes), "weights");
  std::byte* at = buffer_.data();
  int64_t done = 0;
  for (size_t i = 0; i < sources.size(); ++i) {
    const graph::WeightSource& source = sources[i];
    const graph::WeightShape& shape = source.shape;
    const int64_t held = held_bytes(holdings[i], shape, source.dtype, source.role);
    const bool is_vector = source.role == graph::WeightRole::vector;
    const tensor::DType dtype = is_vector ? tensor::DType::f32 : source.dtype;
    const std::byte* data = holdings[i].mapped ? source.data.data() : at;
    matrices_.push_back({dtype, holdings[i].layout, shape.rows, shape.cols, data});
    if (!holdings[i].mapped) {
      is_vector ? load_vector(source, at) : load_panels(pool, source, holdings[i].layout, at);
      if (source.release) source.release();
      at += held;
    }
    done += held;
    if (progress) progress(done, bytes_);
  }
}

const float* CpuWeights::vector(graph::WeightId id) const {
  return id == graph::kNoWeight ? nullptr : reinterpret_cast<const float*>(matrix(id).data);
}

}  // namespace minfer::cpu
