// Arithmetic on sizes that a file or a request chose: where a product or a sum does not fit, it is an error, never a
// wrapped number.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.hpp"

namespace minfer {

// Errors: out_of_memory, naming `what` ("KV cache"), where the result does not fit.
inline int64_t checked_multiply(int64_t a, int64_t b, std::string_view what) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) {
    fail(ErrorCode::out_of_memory, "{}: {} x {} bytes are more than 64 bits count", what, a, b);
  }
  return product;
}

inline int64_t checked_add(int64_t a, int64_t b, std::string_view what) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) {
    fail(ErrorCode::out_of_memory, "{}: {} + {} bytes are more than 64 bits count", what, a, b);
  }
  return sum;
}

}  // namespace minfer
