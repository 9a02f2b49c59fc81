// Loading and the executable cache. See runner.hpp.
#include "engine/runner.hpp"

#include <utility>

#include "base/error.hpp"
#include "engine/plan.hpp"
#include "graph/passes.hpp"
#include "graph/placement.hpp"

namespace minfer::engine {
namespace {

std::vector<graph::WeightLayout> layouts_of(const model::Model& model, const graph::Backend& device) {
  std::vector<graph::WeightLayout> layouts;
  for (const graph::WeightSource& source : model.weights()) {
    layouts.push_back(device.choose_layout(source.shape, source.dtype, source.role));
  }
  return layouts;
}

}  // namespace

graph::Graph device_graph(const model::Model& model, const graph::Backend& device, const graph::StepShape& shape,
                          bool fuse) {
  const auto layouts = layouts_of(model, device);
  const graph::DeviceTraits traits{
      [&](graph::Op op) { return device.has_op(op); },
      [&](graph::WeightId id) { return layouts[static_cast<size_t>(id)].activation_format; }};
  return graph::optimize(model.build_graph(shape), model.weight_shapes(), traits, fuse);
}

Runner::Runner(const model::Model& model, graph::Backend& device, const RunnerOptions& options,
               const graph::ProgressFn& progress)
    : model_(model),
      device_(device),
      options_(options),
      kv_spec_(engine::kv_spec(model, options)),
      memory_(plan_memory_use(model, device, options)) {
  check_budget(memory_, device, options.memory_limit_bytes);
  weights_ = device.load_weights(model.weights(), progress);
  kv_ = device.create_kv_store(kv_spec_);
  cache_ = std::make_unique<KvCache>(kv_spec_, *kv_);
  // The largest first: the device's arena never has to grow afterwards.
  for (const graph::StepShape& shape : largest_shapes(options)) executable(shape);
}

graph::Executable& Runner::executable(const graph::StepShape& shape) {
  auto& slot = executables_[shape];
  if (slot == nullptr) {
    graph::Graph graph = device_graph(model_, device_, shape, options_.fuse);
    const graph::Backend* devices[] = {&device_};
    graph::place(graph, devices);
    const auto bytes = [&](const graph::ValueType& type, int64_t rows) { return device_.value_bytes(type, rows); };
    graph::MemoryPlan plan = graph::plan_memory(graph, bytes);
    slot = device_.compile(std::move(graph), std::move(plan), *weights_, *kv_);
  }
  return *slot;
}

void Runner::check_tokens(std::span<const int32_t> ids) const {
  const int64_t vocabulary = model_.config().vocabulary;
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocabulary) {
      fail(ErrorCode::invalid_input, "token id {} is not in the vocabulary of {} tokens", id, vocabulary);
    }
  }
}

std::span<const float> Runner::step(const graph::StepData& data) {
  check_tokens(data.token_ids);
  const auto shape = graph::bucket_shape(static_cast<int64_t>(data.token_ids.size()),
                                         static_cast<int64_t>(data.output_rows.size()), options_.batch_tokens);
  return executable(shape).run(data);
}

}  // namespace minfer::engine
