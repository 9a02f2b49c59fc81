// The weights of a model as the CPU holds them. A matrix is in panels, in one huge-page buffer, and replaces the file's
// bytes; under the scalar kernels, and for an embedding that is only gathered, it stays in the mapped file. Vectors are
// f32. Packing runs on all threads of the pool, weight by weight, each weight's file pages given back as it is done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.hpp"
#include "cpu/launch/linear.hpp"
#include "cpu/runtime/isa.hpp"
#include "cpu/runtime/memory.hpp"
#include "graph/backend.hpp"
#include "graph/op_work.hpp"

namespace minfer::cpu {

// Pure: the layout of a weight under an instruction set. Errors: unsupported, naming the weight and its type.
graph::WeightLayout choose_weight_layout(Isa isa, const graph::WeightShape& shape, tensor::DType dtype,
                                         graph::WeightRole role);

class CpuWeights final : public graph::WeightSet {
 public:
  CpuWeights(Isa isa, ThreadPool& pool, std::span<const graph::WeightSource> sources,
             const graph::ProgressFn& progress);
  int64_t bytes() const override { return bytes_; }

  // Of experts the first one's; the others follow, expert_stride (launch/experts.hpp) apart.
  const LinearWeight& matrix(graph::WeightId id) const { return matrices_[static_cast<size_t>(id)]; }
  // What the weights are called and take, for op timing; by WeightId.
  std::span<const graph::HeldWeight> held() const { return held_; }
  // The elements of a vector weight, of experts one behind the other; nullptr for kNoWeight.
  const float* vector(graph::WeightId id) const;

 private:
  // Loads one weight to `target` (or leaves it in the file); returns the bytes taken there.
  int64_t load(ThreadPool& pool, const graph::WeightSource& source, Layout layout, bool mapped, std::byte* target);

  HugeBuffer buffer_;
  int64_t bytes_ = 0;
  std::vector<LinearWeight> matrices_;  // by WeightId; vectors are f32 [1][cols], another device's empty
  std::vector<graph::HeldWeight> held_;
};

}  // namespace minfer::cpu
