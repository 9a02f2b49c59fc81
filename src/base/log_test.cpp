// The log sink: messages reach the installed sink formatted, and nothing happens without one.
#include "base/log.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace minfer {
namespace {

TEST(Log, GoesToTheSinkWhileThereIsOne) {
  std::vector<std::pair<LogLevel, std::string>> seen;
  log(LogLevel::error, "before any sink: dropped");
  set_log_sink([&](LogLevel level, std::string_view message) { seen.emplace_back(level, message); });
  log(LogLevel::warning, "{} of {} layers", 3, 24);
  log_message(LogLevel::debug, "plain {}");
  set_log_sink(nullptr);
  log(LogLevel::error, "after it: dropped");
  const std::vector<std::pair<LogLevel, std::string>> want = {{LogLevel::warning, "3 of 24 layers"},
                                                              {LogLevel::debug, "plain {}"}};
  EXPECT_EQ(seen, want);
}

}  // namespace
}  // namespace minfer
