// For tests and benchmarks: a device that is another one but for what a subclass changes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "graph/backend.hpp"

namespace minfer::graph {

class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  std::string name() const override { return inner_->name(); }
  std::string description() const override { return inner_->description(); }
  DeviceMemory memory() const override { return inner_->memory(); }
  DeviceLimits measure_limits() override { return inner_->measure_limits(); }
  int64_t measuring_bytes() const override { return inner_->measuring_bytes(); }
  void set_op_timing(bool on) override { inner_->set_op_timing(on); }
  OpTimes op_times() const override { return inner_->op_times(); }
  std::optional<std::string> unsupported_reason(const Graph& graph, const Node& node) const override {
    return inner_->unsupported_reason(graph, node);
  }
  bool has_op(Op op) const override { return inner_->has_op(op); }
  bool draws() const override { return inner_->draws(); }
  WeightLayout choose_layout(const WeightShape& shape, tensor::DType dtype, WeightRole role) const override {
    return inner_->choose_layout(shape, dtype, role);
  }
  Format activation_format(tensor::DType dtype, int64_t rows) const override {
    return inner_->activation_format(dtype, rows);
  }
  int64_t preferred_batch_tokens() const override { return inner_->preferred_batch_tokens(); }
  int64_t value_bytes(const ValueType& type, int64_t rows) const override { return inner_->value_bytes(type, rows); }
  int64_t kv_bytes(const KvSpec& spec) const override { return inner_->kv_bytes(spec); }
  int64_t scratch_bytes(const Graph& graph, const KvSpec& spec) const override {
    return inner_->scratch_bytes(graph, spec);
  }
  void check_kv(const KvSpec& spec) const override { inner_->check_kv(spec); }
  std::unique_ptr<WeightSet> load_weights(std::span<const WeightSource> sources, const ProgressFn& progress) override {
    return inner_->load_weights(sources, progress);
  }
  std::unique_ptr<KvStore> create_kv_store(const KvSpec& spec) override { return inner_->create_kv_store(spec); }
  std::unique_ptr<Workspace> create_workspace(int64_t activation_bytes, int64_t scratch_bytes) override {
    return inner_->create_workspace(activation_bytes, scratch_bytes);
  }
  std::unique_ptr<Executable> compile(Graph graph, MemoryPlan plan, const WeightSet& weights, KvStore& kv,
                                      Workspace& workspace) override {
    return inner_->compile(std::move(graph), std::move(plan), weights, kv, workspace);
  }

 private:
  std::unique_ptr<Backend> inner_;
};

}  // namespace minfer::graph
