// Layout choice and loading of weights. See weights.hpp.
#include "cpu/executor/weights.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "cpu/launch/experts.hpp"
#include "tensor/dtype.hpp"

namespace minfer::cpu {
namespace {

// How many weights ahead of the one being packed the system is asked to read.
constexpr size_t kPrefetchWeights = 4;

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
  if (role == graph::WeightRole::vector) {
    return aligned(shape.experts * shape.cols * static_cast<int64_t>(sizeof(float)));
  }
  if (holding.mapped) return shape.experts * shape.rows * tensor::row_bytes(dtype, shape.cols);
  return aligned(shape.experts * panel_matrix_bytes(dtype, holding.layout, shape.rows, shape.cols));
}

}  // namespace

graph::WeightLayout choose_weight_layout(Isa isa, const graph::WeightShape& shape, tensor::DType dtype,
                                         graph::WeightRole role) {
  const Holding holding = holding_of(isa, shape, dtype, role);
  const std::string_view name = role == graph::WeightRole::vector ? "f32"
                                : holding.mapped                  ? "mapped"
                                                                  : layout_name(holding.layout);
  return {name, held_bytes(holding, shape, dtype, role), !holding.mapped};
}

namespace {

void load_vector(const graph::WeightSource& source, std::byte* target) {
  const auto& info = tensor::dtype_info(source.dtype);
  const int64_t elements = source.shape.experts * source.shape.cols;
  info.dequantize(source.data.data(), elements / info.block_elements, reinterpret_cast<float*>(target));
}

}  // namespace

CpuWeights::CpuWeights(Isa isa, ThreadPool& pool, std::span<const graph::WeightSource> sources,
                       const graph::ProgressFn& progress) {
  int64_t owned_bytes = 0;
  std::vector<Holding> holdings;
  for (const graph::WeightSource& source : sources) {
    if (source.role == graph::WeightRole::elsewhere) {
      holdings.push_back({});
      continue;
    }
    holdings.push_back(holding_of(isa, source.shape, source.dtype, source.role));
    const int64_t held = held_bytes(holdings.back(), source.shape, source.dtype, source.role);
    held_.push_back({source.shape, source.dtype, held});
    bytes_ += held;
    if (!holdings.back().mapped) owned_bytes += held;
  }
  buffer_ = HugeBuffer(static_cast<size_t>(owned_bytes), "weights");
  std::byte* at = buffer_.data();
  int64_t done = 0;
  const auto prefetch = [&](size_t i) {
    if (i >= sources.size() || sources[i].role == graph::WeightRole::elsewhere) return;
    if (sources[i].prefetch) sources[i].prefetch();
  };
  for (size_t i = 0; i < kPrefetchWeights; ++i) prefetch(i);
  for (size_t i = 0; i < sources.size(); ++i) {
    prefetch(i + kPrefetchWeights);
    if (sources[i].role == graph::WeightRole::elsewhere) {
      matrices_.emplace_back();
      continue;
    }
    at += load(pool, sources[i], holdings[i].layout, holdings[i].mapped, at);
    done += held_bytes(holdings[i], sources[i].shape, sources[i].dtype, sources[i].role);
    if (progress) progress(done, bytes_);
  }
  check(at == buffer_.data() + owned_bytes, "weights took other bytes than planned");
}

int64_t CpuWeights::load(ThreadPool& pool, const graph::WeightSource& source, Layout layout, bool mapped,
                         std::byte* target) {
  const bool is_vector = source.role == graph::WeightRole::vector;
  const tensor::DType dtype = is_vector ? tensor::DType::f32 : source.dtype;
  matrices_.push_back({dtype, layout, source.shape.rows, source.shape.cols, mapped ? source.data.data() : target});
  if (mapped) return 0;
  if (is_vector) {
    load_vector(source, target);
  } else {
    const LinearWeight& first = matrices_.back();
    const int64_t file_bytes = first.rows * tensor::row_bytes(dtype, first.k);
    pool.run([&](Worker& worker) {
      for (int64_t e = 0; e < source.shape.experts; ++e) {
        launch_pack(worker, first, source.data.data() + e * file_bytes, target + e * expert_stride(first));
      }
    });
  }
  if (source.release) source.release();
  return held_bytes({layout, mapped}, source.shape, source.dtype, source.role);
}

const float* CpuWeights::vector(graph::WeightId id) const {
  return id == graph::kNoWeight ? nullptr : reinterpret_cast<const float*>(matrix(id).data);
}

}  // namespace minfer::cpu
