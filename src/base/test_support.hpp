// For tests of every room: what an action throws, as text.
#pragma once

#include <string>

#include "base/error.hpp"

namespace minfer {

// The Error that `action` throws, as "code: message"; "no error" if it throws none.
template <class Action>
std::string error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return std::string(error_code_name(error.code())) + ": " + error.what();
  }
  return "no error";
}

}  // namespace minfer
