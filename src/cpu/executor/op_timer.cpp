// Adding up times. See op_timer.hpp.
#include "cpu/executor/op_timer.hpp"

namespace minfer::cpu {
namespace {

double seconds_of(OpTimer::Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

size_t OpTimer::row(graph::Op op, const std::string& what) {
  const auto [found, is_new] = index_.try_emplace({op, what}, rows_.size());
  if (is_new) rows_.push_back({{op, what, true, 0, 0, {}}, {op, what, false, 0, 0, {}}});
  return found->second;
}

void OpTimer::add(const Step& step) {
  graph::StepTimes& steps = step.decode ? decode_ : prompt_;
  ++steps.steps;
  steps.tokens += step.tokens;
  steps.seconds += seconds_of(step.whole);
  for (size_t i = 0; i < step.rows.size(); ++i) {
    if (step.work[i] == graph::OpWork{}) continue;
    Row& row = rows_[step.rows[i]];
    graph::OpTime& time = step.decode ? row.decode : row.prompt;
    ++time.calls;
    time.seconds += seconds_of(step.stamps[i + 1] - step.stamps[i]);
    time.work += step.work[i];
  }
}

graph::OpTimes OpTimer::times() const {
  graph::OpTimes times{{}, decode_, prompt_};
  for (const Row& row : rows_) {
    for (const graph::OpTime& time : {row.decode, row.prompt}) {
      if (time.calls > 0) times.ops.push_back(time);
    }
  }
  return times;
}

}  // namespace minfer::cpu
