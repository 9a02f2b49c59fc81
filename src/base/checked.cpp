// The one error of checked sizes. See checked.hpp; apart from it so that the arithmetic stays small where it is
// inlined.
#include "base/checked.hpp"

#include "base/error.hpp"

namespace minfer {

void fail_too_large(std::string_view quantity, int64_t a, char operation, int64_t b) {
  fail(ErrorCode::out_of_memory,
       "{}: {} {} {} is more than a 64-bit size can be; take a smaller context or batch, or a smaller model", quantity,
       a, operation, b);
}

}  // namespace minfer
