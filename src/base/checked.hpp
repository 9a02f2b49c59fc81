// Sums and products of sizes that a file or an option names: each may be in its range and their product still beyond 64
// bits. An overflow is an Error{out_of_memory} that names the quantity, never a wrapped number. For plans and layouts;
// loops over elements use plain arithmetic on sizes that were planned this way.
#pragma once

#include <cstdint>
#include <string_view>

namespace minfer {

// Throws Error{out_of_memory}: `quantity` ("bytes of the KV cache") would be a {operation} b.
[[noreturn]] void fail_too_large(std::string_view quantity, int64_t a, char operation, int64_t b);

inline int64_t checked_multiply(int64_t a, int64_t b, std::string_view quantity) {
  int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) fail_too_large(quantity, a, '*', b);
  return result;
}

inline int64_t checked_add(int64_t a, int64_t b, std::string_view quantity) {
  int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) fail_too_large(quantity, a, '+', b);
  return result;
}

// The next multiple of `unit` (above 0) from `value` (0 or above) on.
inline int64_t checked_round_up(int64_t value, int64_t unit, std::string_view quantity) {
  return checked_add(value, unit - 1, quantity) / unit * unit;
}

}  // namespace minfer
