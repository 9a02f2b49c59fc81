// JSON values as JSON Schema compares and as documents write them: 1 and 1.0 are equal, 1 and true are not. Text is
// compact, not escaped beyond what JSON asks. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "chat/value.hpp"

namespace minfer::engine::grammar::schema {

bool json_equal(const chat::Value& left, const chat::Value& right);
// In quotes.
std::string json_quoted(std::string_view utf8);
// Of a value that is no list and no dict. A float without fraction keeps its point: 1.0.
std::string json_scalar(const chat::Value& value);
// An integer, or a float without a fraction.
bool is_whole_number(const chat::Value& value);
uint64_t code_points(std::string_view utf8);

}  // namespace minfer::engine::grammar::schema
