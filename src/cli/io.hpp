// Text in and out of the command line: whole files, stdin, stdout without loss, and a progress line on a terminal.
// Nothing else of the program writes to stdout.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace minfer::cli {

inline constexpr int64_t kMaxInputBytes = int64_t{1} << 30;
inline constexpr int64_t kMaxTemplateBytes = int64_t{4} << 20;

// All bytes of a file, or of stdin for "-". Errors: io, naming it; UsageError, naming the size, above `max_bytes`.
std::string read_input(const std::string& path, int64_t max_bytes = kMaxInputBytes);
// The same for a chat template, of at most kMaxTemplateBytes. Errors: io; invalid_input for a larger one.
std::string read_template(const std::string& path);
// Refuses text that is not UTF-8. Errors: UsageError naming `what` and the first wrong byte.
void check_utf8(std::string_view text, std::string_view what);
// Writes and flushes. Errors: io where stdout is closed or full.
void write_stdout(std::string_view text);
void write_file(const std::string& path, std::string_view text);

// Text for a terminal's line: control characters and what is not UTF-8 as escapes (\n, \x1B). Names and messages out of
// files and templates go through it.
std::string printable(std::string_view text);

// Writes to stderr as it is. A closed or full stderr changes nothing: there is nowhere left to say so.
void write_stderr(std::string_view text);
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  write_stderr(fmt::format(format, std::forward<Args>(args)...));
}

bool stdin_is_terminal();

// One line on stderr, rewritten in place, only where stderr is a terminal.
class ProgressLine {
 public:
  explicit ProgressLine(std::string label) : label_(std::move(label)) {}
  ~ProgressLine() { clear(); }
  void update(int64_t done, int64_t total);
  void clear();

 private:
  std::string label_;
  int64_t shown_percent_ = -1;
};

}  // namespace minfer::cli
