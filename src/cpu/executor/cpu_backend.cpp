// The Backend of the CPU: owns the thread pool that everything on it shares. See graph/backend.hpp.
#include "cpu/executor/cpu_backend.hpp"

#include <utility>

#include "base/error.hpp"
#include "cpu/executor/executable.hpp"
#include "cpu/executor/kv_store.hpp"
#include "cpu/executor/op_table.hpp"
#include "cpu/executor/weights.hpp"
#include "cpu/launch/limits.hpp"
#include "cpu/launch/linear.hpp"
#include "cpu/runtime/topology.hpp"

namespace minfer::cpu {
namespace {

class CpuBackend final : public graph::Backend {
 public:
  CpuBackend(Isa isa, int threads) : isa_(isa), pool_(threads) {}

  std::string name() const override { return "cpu"; }
  std::string description() const override {
    return fmt::format("{}, {} kernels, {} thread{}", processor_name(), isa_name(isa_), pool_.threads(),
                       pool_.threads() == 1 ? "" : "s");
  }
  graph::DeviceMemory memory() const override { return host_memory(); }
  graph::DeviceLimits measure_limits() override { return cpu::measure_limits(isa_, pool_); }
  int64_t measuring_bytes() const override { return cpu::measuring_bytes(pool_.threads()); }
  void set_op_timing(bool on) override { timer_.set(on); }
  graph::OpTimes op_times() const override { return timer_.times(); }

  std::optional<std::string> unsupported_reason(const graph::Graph& graph, const graph::Node& node) const override {
    const OpRow* row = find_op(node.op);
    if (row == nullptr) return "no kernel for the op";
    return row->unsupported(isa_, graph, node);
  }
  bool has_op(graph::Op op) const override { return find_op(op) != nullptr; }
  bool draws() const override { return false; }
  graph::WeightLayout choose_layout(const graph::WeightShape& shape, tensor::DType dtype,
                                    graph::WeightRole role) const override {
    return choose_weight_layout(isa_, shape, dtype, role);
  }
  graph::Format activation_format(tensor::DType dtype, int64_t) const override {
    return linear_reads_q8(isa_, dtype) ? graph::Format::q8 : graph::Format::f32;
  }
  int64_t preferred_batch_tokens() const override { return 512; }
  int64_t value_bytes(const graph::ValueType& type, int64_t rows) const override { return cpu_value_bytes(type, rows); }
  int64_t kv_bytes(const graph::KvSpec& spec) const override { return kv_store_bytes(spec); }
  int64_t scratch_bytes(const graph::Graph& graph, const graph::KvSpec& spec) const override {
    return graph_scratch_bytes(graph, spec, pool_.threads());
  }
  void check_kv(const graph::KvSpec& spec) const override;

  std::unique_ptr<graph::WeightSet> load_weights(std::span<const graph::WeightSource> sources,
                                                 const graph::ProgressFn& progress) override {
    return std::make_unique<CpuWeights>(isa_, pool_, sources, progress);
  }
  std::unique_ptr<graph::KvStore> create_kv_store(const graph::KvSpec& spec) override {
    return std::make_unique<CpuKvStore>(spec, pool_);
  }
  std::unique_ptr<graph::Workspace> create_workspace(int64_t activation_bytes, int64_t scratch_bytes) override {
    return std::make_unique<CpuWorkspace>(activation_bytes, scratch_bytes);
  }
  std::unique_ptr<graph::Executable> compile(graph::Graph graph, graph::MemoryPlan plan,
                                             const graph::WeightSet& weights, graph::KvStore& kv,
                                             graph::Workspace& workspace) override {
    return std::make_unique<CpuExecutable>(std::move(graph), std::move(plan), isa_, pool_,
                                           dynamic_cast<const CpuWeights&>(weights), dynamic_cast<CpuKvStore&>(kv),
                                           dynamic_cast<CpuWorkspace&>(workspace), timer_);
  }

 private:
  Isa isa_;
  ThreadPool pool_;
  graph::OpTimer timer_;
};

void check_kv_format(size_t layer, std::string_view what, int64_t size, KvFormat format) {
  if (kv_format_fits(format, size)) return;
  fail(ErrorCode::unsupported,
       "layer {}: {} of {} elements can't be kept in {}, whose blocks have {}; take f16 or bf16 for them", layer, what,
       size, graph::kv_format_name(format), kKvBlockElements);
}

void CpuBackend::check_kv(const graph::KvSpec& spec) const {
  for (const graph::KvGroup& group : spec.groups) {
    for (const int32_t index : group.layers) {
      const size_t layer = static_cast<size_t>(index);
      const graph::KvLayer& sizes = spec.layers[layer];
      check_kv_format(layer, "keys", sizes.key_size, spec.key_format);
      check_kv_format(layer, "values", sizes.value_size, spec.value_format);
      AttentionSpec attention;
      attention.kv = kv_layer_spec(spec, layer);
      attention.heads = attention.kv.kv_heads;
      if (supports_attention(isa_, attention)) continue;
      fail(ErrorCode::unsupported,
           "layer {}: the {} kernels have no attention with keys of {} and values of {} elements", layer,
           isa_name(isa_), sizes.key_size, sizes.value_size);
    }
  }
}

}  // namespace

std::unique_ptr<graph::Backend> create_cpu_backend(const graph::BackendOptions& options) {
  const int threads = options.threads == 0 ? usable_cores() : options.threads;
  return std::make_unique<CpuBackend>(choose_isa(options.force_isa), threads);
}

}  // namespace minfer::cpu
