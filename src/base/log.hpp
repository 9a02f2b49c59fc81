// The log sink: libraries say things through it and never print. The application installs one sink before it starts
// threads (the command line writes to stderr, the server to spdlog); without one, messages are dropped. A sink must be
// callable from any thread.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string_view>
#include <utility>

namespace minfer {

enum class LogLevel { debug, info, warning, error };

using LogSink = std::function<void(LogLevel level, std::string_view message)>;

// Installs the process's sink; an empty function silences. Call it before other threads log.
void set_log_sink(LogSink sink);
void log_message(LogLevel level, std::string_view message);

template <class... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  log_message(level, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace minfer
