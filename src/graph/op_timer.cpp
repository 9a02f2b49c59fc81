// Adding up times. See op_timer.hpp.
#include "graph/op_timer.hpp"

#include <algorithm>

namespace minfer::graph {

size_t OpTimer::row(Op op, const std::string& what) {
  const auto [found, is_new] = index_.try_emplace({op, what}, rows_.size());
  if (is_new) rows_.push_back({{op, what, true, 0, 0, {}}, {op, what, false, 0, 0, {}}});
  return found->second;
}

void OpTimer::add(const Step& step) {
  StepTimes& steps = step.decode ? decode_ : prompt_;
  ++steps.steps;
  steps.tokens += step.tokens;
  steps.seconds += step.seconds;
  for (size_t i = 0; i < step.rows.size(); ++i) {
    if (step.work[i] == OpWork{}) continue;
    Row& row = rows_[step.rows[i]];
    OpTime& time = step.decode ? row.decode : row.prompt;
    ++time.calls;
    time.seconds += step.node_seconds[i];
    time.work += step.work[i];
  }
}

OpTimes OpTimer::times() const {
  OpTimes times{{}, decode_, prompt_};
  for (const Row& row : rows_) {
    for (const OpTime& time : {row.decode, row.prompt}) {
      if (time.calls > 0) times.ops.push_back(time);
    }
  }
  return times;
}

StepTimer::StepTimer(OpTimer& timer, const Graph& graph, std::span<const HeldWeight> weights,
                     std::vector<int64_t> cache_row_bytes)
    : timer_(timer), graph_(graph), weights_(weights), cache_row_bytes_(std::move(cache_row_bytes)) {
  const WorkContext context{graph_, weights_, cache_row_bytes_};
  for (const Node& node : graph_.nodes) rows_.push_back(timer_.row(node.op, node_kind(context, node)));
  work_.resize(graph_.nodes.size());
  node_seconds_.resize(graph_.nodes.size());
}

void StepTimer::add(const StepData& step, double seconds) {
  const WorkContext context{graph_, weights_, cache_row_bytes_};
  for (size_t i = 0; i < work_.size(); ++i) work_[i] = node_work(context, graph_.nodes[i], step);
  const bool decode = std::all_of(step.sequences.begin(), step.sequences.end(),
                                  [](const SequenceStep& sequence) { return sequence.rows == 1; });
  timer_.add({decode, static_cast<int64_t>(step.token_ids.size()), seconds, node_seconds_, rows_, work_});
}

}  // namespace minfer::graph
