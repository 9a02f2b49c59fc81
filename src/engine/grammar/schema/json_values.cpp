// JSON values: equality and text.
#include "engine/grammar/schema/json_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace minfer::engine::grammar::schema {

using chat::Kind;
using chat::Value;

bool json_equal(const Value& left, const Value& right) {
  if (left.is(Kind::list) && right.is(Kind::list)) {
    return std::equal(left.items().begin(), left.items().end(), right.items().begin(), right.items().end(), json_equal);
  }
  if (left.is(Kind::dict) && right.is(Kind::dict)) {
    const auto& entries = left.as_dict().entries();
    return entries.size() == right.as_dict().size() &&
           std::all_of(entries.begin(), entries.end(), [&](const auto& entry) {
             const Value* other = right.as_dict().find(entry.first);
             return other != nullptr && json_equal(entry.second, *other);
           });
  }
  if (left.is(Kind::boolean) != right.is(Kind::boolean)) {
    return false;
  }
  return chat::equal(left, right);
}

std::string json_quoted(std::string_view utf8) {
  static constexpr std::string_view kEscaped = "\"\\\b\f\n\r\t";
  static constexpr std::string_view kLetters = "\"\\bfnrt";
  std::string out = "\"";
  for (const char c : utf8) {
    if (const size_t i = kEscaped.find(c); i != std::string_view::npos) {
      out += '\\';
      out += kLetters[i];
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", c);
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string json_scalar(const Value& value) {
  switch (value.kind()) {
    case Kind::boolean:
      return value.as_bool() ? "true" : "false";
    case Kind::integer:
      return fmt::format("{}", value.as_int());
    case Kind::floating: {
      std::string text = fmt::format("{}", value.as_double());
      return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
    }
    case Kind::string:
      return json_quoted(value.as_string());
    default:
      return "null";
  }
}

bool is_whole_number(const Value& value) {
  return value.is(Kind::integer) || (value.is(Kind::floating) && std::trunc(value.as_double()) == value.as_double());
}

uint64_t code_points(std::string_view utf8) {
  return static_cast<uint64_t>(
      std::count_if(utf8.begin(), utf8.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace minfer::engine::grammar::schema
