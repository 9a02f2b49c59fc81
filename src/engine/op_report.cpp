// Shares and rates. See op_report.hpp.
#include "engine/op_report.hpp"

#include <algorithm>

namespace minfer::engine {
namespace {

double limit_seconds(const graph::OpWork& work, const graph::DeviceLimits& limits) {
  const double reading = static_cast<double>(work.bytes) / limits.read_bytes_per_second;
  const double computing = static_cast<double>(work.dot8_ops) / limits.dot8_ops_per_second +
                           static_cast<double>(work.float_ops) / limits.float_ops_per_second;
  return std::max(reading, computing);
}

OpReportRow row_of(const graph::OpTime& time, double step_seconds, const graph::DeviceLimits& limits) {
  OpReportRow row;
  row.op = std::string(graph::op_name(time.op)) + (time.what.empty() ? "" : " " + time.what);
  row.calls = time.calls;
  row.seconds = time.seconds;
  row.work = time.work;
  // A clock that did not move says nothing of speeds.
  if (time.seconds <= 0) return row;
  row.share = time.seconds / step_seconds;
  row.bytes_per_second = static_cast<double>(time.work.bytes) / time.seconds;
  row.ops_per_second = static_cast<double>(time.work.dot8_ops + time.work.float_ops) / time.seconds;
  row.fraction_of_limit = limit_seconds(time.work, limits) / time.seconds;
  return row;
}

OpReport report(const graph::OpTimes& times, const graph::StepTimes& steps, bool decode,
                const graph::DeviceLimits& limits) {
  OpReport result{decode ? "decode" : "prompt", steps, 0, {}};
  for (const graph::OpTime& time : times.ops) {
    if (time.decode != decode) continue;
    result.op_seconds += time.seconds;
    result.rows.push_back(row_of(time, steps.seconds, limits));
  }
  std::stable_sort(result.rows.begin(), result.rows.end(),
                   [](const OpReportRow& a, const OpReportRow& b) { return a.seconds > b.seconds; });
  return result;
}

}  // namespace

std::vector<OpReport> report_ops(const graph::OpTimes& times, const graph::DeviceLimits& limits) {
  std::vector<OpReport> reports;
  if (times.prompt.steps > 0) reports.push_back(report(times, times.prompt, false, limits));
  if (times.decode.steps > 0) reports.push_back(report(times, times.decode, true, limits));
  return reports;
}

}  // namespace minfer::engine
