// Which JSON types a tool's schema lets a parameter have, and text turned into a JSON value by them: for the syntaxes
// that write arguments as text without quotes. A schema that says nothing, or says it in a way not read here, allows
// every type; text that is no value of an allowed type other than string becomes a string, so that none is lost.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "chat/value.hpp"

namespace minfer::chat::output {

// A set of types.
struct TypeSet {
  enum : uint8_t { text = 1, number = 2, boolean = 4, none = 8, list = 16, dict = 32, any = 63 };
  uint8_t bits = any;

  bool only_text() const { return bits == text; }
};

// Of the parameter `key` in the schema of a tool's parameters.
TypeSet parameter_types(const Value& parameters, std::string_view key);

// The JSON text of the value that `text` stands for.
std::string json_of_text(std::string_view text, TypeSet types);

}  // namespace minfer::chat::output
