// The Backend of a CUDA card: owns the device. See cuda_backend.hpp.
#include "cuda/executor/cuda_backend.hpp"

#include <utility>

#include "base/error.hpp"
#include "cuda/executor/executable.hpp"
#include "cuda/executor/kv_store.hpp"
#include "cuda/executor/op_table.hpp"
#include "cuda/executor/ops.hpp"
#include "cuda/executor/weights.hpp"
#include "cuda/launch/experts.hpp"
#include "cuda/launch/limits.hpp"
#include "cuda/launch/strict.hpp"

namespace minfer::cuda {
namespace {

graph::Format graph_format(ActivationFormat format) {
  switch (format) {
    case ActivationFormat::f32:
      return graph::Format::f32;
    case ActivationFormat::bf16:
      return graph::Format::bf16;
    case ActivationFormat::q8:
      return graph::Format::q8;
  }
  fail(ErrorCode::internal, "internal error: an unknown format of activations");
}

class CudaBackend final : public graph::Backend {
 public:
  explicit CudaBackend(const graph::BackendOptions& options) : device_(options.strict, options.failing_site) {}
  std::string name() const override { return "cuda"; }
  std::string description() const override {
    const Capabilities& c = device_.capabilities();
    return fmt::format("{}, compute capability {}.{}, {} multiprocessors, {:.0f} GB", c.name, c.major, c.minor,
                       c.multiprocessors, static_cast<double>(c.memory_bytes) / 1e9);
  }
  graph::DeviceMemory memory() const override { return device_.memory(); }
  graph::DeviceLimits measure_limits() override { return measure_card_limits(device_); }
  int64_t measuring_bytes() const override { return card_measuring_bytes(); }
  void set_op_timing(bool on) override { timer_.set(on); }
  graph::OpTimes op_times() const override { return timer_.times(); }

  std::optional<std::string> unsupported_reason(const graph::Graph& graph, const graph::Node& node) const override {
    const OpRow* row = find_op(node.op);
    if (row == nullptr) return "no kernel for the op";
    if (is_strict() && node.op == graph::Op::attention && graph.shape.tokens > kStrictRows) {
      return fmt::format("steps of more than {} rows under --strict", kStrictRows);
    }
    // Each row is a sequence of its own there.
    if (is_strict() && node.op == graph::Op::attention && !attention_of(node).causal) {
      return "attention to whole sequences under --strict";
    }
    return row->unsupported(graph, node);
  }
  bool has_op(graph::Op op) const override { return find_op(op) != nullptr && (!is_strict() || strict_has_op(op)); }
  bool draws() const override { return true; }
  graph::WeightLayout choose_layout(const graph::WeightShape& shape, tensor::DType dtype,
                                    graph::WeightRole role) const override {
    return choose_weight_layout(shape, dtype, role);
  }
  graph::Format activation_format(tensor::DType dtype, int64_t experts, int64_t rows) const override {
    if (experts > 1) return graph_format(expert_format(dtype));
    return graph_format(is_strict() ? strict_activation_format(device_.capabilities(), dtype)
                                    : cuda::activation_format(dtype, rows));
  }
  int64_t preferred_batch_tokens() const override { return is_strict() ? kStrictBatchTokens : 2048; }
  int64_t value_bytes(const graph::ValueType& type, int64_t rows) const override {
    return cuda_value_bytes(type, rows);
  }
  int64_t kv_bytes(const graph::KvSpec& spec) const override { return kv_store_bytes(spec); }
  int64_t scratch_bytes(const graph::Graph& graph, const graph::KvSpec& spec) const override {
    return graph_scratch_bytes(device_.capabilities(), graph, spec);
  }
  void check_kv(const graph::KvSpec& spec) const override;

  std::unique_ptr<graph::WeightSet> load_weights(std::span<const graph::WeightSource> sources,
                                                 const graph::ProgressFn& progress) override {
    return std::make_unique<CudaWeights>(device_, sources, progress);
  }
  std::unique_ptr<graph::KvStore> create_kv_store(const graph::KvSpec& spec) override {
    return std::make_unique<CudaKvStore>(device_, spec);
  }
  std::unique_ptr<graph::Workspace> create_workspace(int64_t activation_bytes, int64_t scratch_bytes) override {
    return std::make_unique<CudaWorkspace>(device_, activation_bytes, scratch_bytes);
  }
  std::unique_ptr<graph::Executable> compile(graph::Graph graph, graph::MemoryPlan plan,
                                             const graph::WeightSet& weights, graph::KvStore& kv,
                                             graph::Workspace& workspace) override {
    return std::make_unique<CudaExecutable>(device_, std::move(graph), std::move(plan),
                                            dynamic_cast<const CudaWeights&>(weights), dynamic_cast<CudaKvStore&>(kv),
                                            dynamic_cast<CudaWorkspace&>(workspace), timer_);
  }

 private:
  bool is_strict() const { return device_.capabilities().strict; }

  Device device_;
  graph::OpTimer timer_;
};

void CudaBackend::check_kv(const graph::KvSpec& spec) const {
  for (const graph::KvGroup& group : spec.groups) {
    for (const int32_t layer : group.layers) {
      const KvLayerView view = kv_layer_view(spec, layer);
      if (const char* reason = attention_unsupported(view, view.kv_heads)) {
        fail(ErrorCode::unsupported, "layer {}: keys of {} and values of {} elements in {} and {}: {}", layer,
             view.key_size, view.value_size, graph::kv_format_name(spec.key_format),
             graph::kv_format_name(spec.value_format), reason);
      }
    }
  }
}

}  // namespace

std::unique_ptr<graph::Backend> create_cuda_backend(const graph::BackendOptions& options) {
  return std::make_unique<CudaBackend>(options);
}

}  // namespace minfer::cuda
