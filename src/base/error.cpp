// Names of error codes and the invariant check. See error.hpp.
#include "base/error.hpp"

namespace minfer {

std::string_view error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_input:
      return "invalid_input";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::out_of_memory:
      return "out_of_memory";
    case ErrorCode::io:
      return "io";
    case ErrorCode::device:
      return "device";
    case ErrorCode::busy:
      return "busy";
    case ErrorCode::cancelled:
      return "cancelled";
    case ErrorCode::internal:
      return "internal";
  }
  return "internal";
}

void check(bool condition, std::string_view what) {
  if (!condition) throw Error(ErrorCode::internal, fmt::format("internal error: {}", what));
}

}  // namespace minfer
