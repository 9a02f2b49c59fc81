// The project's one exception type. Every failure that a file, a request, an option, the operating system or a device
// can cause is a minfer::Error; its message names the thing, what was found, what was expected, and a way out.
// Third-party exceptions are caught where they are called and turned into an Error. The command line maps codes to exit
// codes, the server to HTTP answers; libraries never print or exit. Any thread may throw; destructors do not.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace minfer {

enum class ErrorCode {
  invalid_input,  // a file, request or option has a wrong value
  unsupported,    // valid, but this build or device can't do it
  out_of_memory,  // a plan or an allocation exceeds what is there
  io,             // the operating system refused to open, read, write or map
  device,         // a device failed or was lost
  busy,           // a queue is full; the same request may do later
  cancelled,      // the caller asked to stop
  internal,       // a broken invariant of minfer itself
};

// "invalid_input", "unsupported", ...
std::string_view error_code_name(ErrorCode code);

class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

// Throws Error{code, formatted message}.
template <class... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

// Throws Error{internal}: for the programmer's own errors, unreachable from any input.
void check(bool condition, std::string_view what);

}  // namespace minfer
