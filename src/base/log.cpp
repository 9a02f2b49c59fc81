// Holder of the one log sink. See log.hpp.
#include "base/log.hpp"

namespace minfer {
namespace {

// The one process-wide holder: written once at start, read afterwards.
LogSink& sink_holder() {
  static LogSink sink;
  return sink;
}

}  // namespace

void set_log_sink(LogSink sink) {
  sink_holder() = std::move(sink);
}

void log_message(LogLevel level, std::string_view message) {
  if (const LogSink& sink = sink_holder()) sink(level, message);
}

}  // namespace minfer
