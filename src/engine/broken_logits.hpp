// The error of a step whose logits, or hidden state, are no use: NaN, infinity, all equal. A type of its own, so that
// who has the model can look for the weight that is at fault (model/weight_check.hpp).
#pragma once

#include <utility>

#include "base/error.hpp"

namespace minfer::engine {

class BrokenLogits : public Error {
 public:
  explicit BrokenLogits(const std::string& message) : Error(ErrorCode::invalid_input, message) {}
};

template <class... Args>
[[noreturn]] void fail_broken(fmt::format_string<Args...> format, Args&&... args) {
  throw BrokenLogits(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace minfer::engine
