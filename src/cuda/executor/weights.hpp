// The weights of a model on a card: matrices in panels (launch/panel.hpp), vectors in f32, in one buffer. The file's
// bytes go through a ring of pinned memory in slices of whole panels, read by several threads, so that reading the
// file, copying and packing overlap.
#pragma once

#include <span>
#include <vector>

#include "cuda/launch/panel.hpp"
#include "cuda/runtime/device.hpp"
#include "graph/backend.hpp"
#include "graph/op_work.hpp"

namespace minfer::cuda {

// Pure: the layout of a weight. Errors: unsupported, naming the weight and its type.
graph::WeightLayout choose_weight_layout(const graph::WeightShape& shape, tensor::DType dtype, graph::WeightRole role);

class CudaWeights final : public graph::WeightSet {
 public:
  CudaWeights(Device& device, std::span<const graph::WeightSource> sources, const graph::ProgressFn& progress);
  int64_t bytes() const override { return buffer_.bytes(); }

  // Of experts the first one's; the others follow, expert_stride (launch/experts.hpp) apart.
  const PanelMatrix& matrix(graph::WeightId id) const { return matrices_[static_cast<size_t>(id)]; }
  // The elements of a vector weight; nullptr for kNoWeight.
  const float* vector(graph::WeightId id) const;
  // What the weights are called and take, for op timing; by WeightId.
  std::span<const graph::HeldWeight> held() const { return held_; }

 private:
  DeviceBuffer buffer_;
  std::vector<PanelMatrix> matrices_;  // by WeightId; vectors are f32 [1][cols]
  std::vector<graph::HeldWeight> held_;
};

}  // namespace minfer::cuda
