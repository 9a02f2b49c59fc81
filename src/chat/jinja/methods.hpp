// The methods of Python's types that templates may call, one table a type. See methods.cpp.
#pragma once

#include <string_view>

#include "chat/jinja/objects.hpp"

namespace minfer::chat::jinja {

struct MethodEntry {
  std::string_view name;
  MethodFunction function;
};

const MethodEntry* find_string_method(std::string_view name);  // methods_string.cpp

}  // namespace minfer::chat::jinja
