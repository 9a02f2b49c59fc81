// The table of --op-timing. See op_timing.hpp.
// Bytes and operations are what an op needs at least (graph/op_work.hpp), so that GB/s may pass the limit where the
// caches hold what was read just before.
#include "cli/op_timing.hpp"

#include <algorithm>

#include "cli/io.hpp"
#include "engine/op_report.hpp"

namespace minfer::cli {
namespace {

// How far from the left the numbers start.
size_t name_width(const engine::OpReport& report) {
  size_t width = 2;
  for (const engine::OpReportRow& row : report.rows) width = std::max(width, row.op.size());
  return width;
}

std::string table(const engine::OpReport& report) {
  const size_t width = name_width(report);
  std::string text =
      fmt::format("\n{}: {} steps of {} tokens in all\n", report.steps_name, report.steps.steps, report.steps.tokens);
  text += fmt::format("{:<{}} {:>8} {:>9} {:>6} {:>10} {:>10} {:>7} {:>7} {:>8}\n", "op", width, "calls", "seconds",
                      "share", "MB read", "Mop", "GB/s", "Gop/s", "of limit");
  for (const engine::OpReportRow& row : report.rows) {
    text += fmt::format("{:<{}} {:>8} {:>9.4f} {:>5.1f}% {:>10.1f} {:>10.1f} {:>7.2f} {:>7.1f} {:>8.3f}\n", row.op,
                        width, row.calls, row.seconds, 100 * row.share, static_cast<double>(row.work.bytes) / 1e6,
                        static_cast<double>(row.work.dot8_ops + row.work.float_ops) / 1e6, row.bytes_per_second / 1e9,
                        row.ops_per_second / 1e9, row.fraction_of_limit);
  }
  const double part = report.steps.seconds > 0 ? 100 * report.op_seconds / report.steps.seconds : 100;
  text += fmt::format("ops {:.4f} s, steps {:.4f} s by the clock: {:.2f}%\n", report.op_seconds, report.steps.seconds,
                      part);
  return text;
}

std::string device_text(std::string_view name, const graph::OpTimes& times, const graph::DeviceLimits& limits) {
  std::string text = fmt::format(
      "op timing of {}; limits: read {:.1f} GB/s, 8-bit dots {:.0f} GOPS, float {:.0f} GFLOP/s\n", name,
      limits.read_bytes_per_second / 1e9, limits.dot8_ops_per_second / 1e9, limits.float_ops_per_second / 1e9);
  for (const engine::OpReport& report : engine::report_ops(times, limits)) text += table(report);
  return text;
}

}  // namespace

void set_op_timing(LoadedModel& loaded, bool on) {
  for (graph::Backend* device : loaded.registry().available()) device->set_op_timing(on);
}

void print_op_timing(LoadedModel& loaded, std::string_view what) {
  set_op_timing(loaded, false);
  for (const graph::Backend* device : loaded.registry().available()) {
    const auto limits = loaded.limits.find(device->name());
    if (limits == loaded.limits.end()) continue;  // it has no layers
    const std::string name = fmt::format("{}{}{}", device->name(), what.empty() ? "" : ", ", what);
    write_stderr(device_text(name, device->op_times(), limits->second));
  }
}

}  // namespace minfer::cli
