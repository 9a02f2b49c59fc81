// Python's operators on Values, with the interpreter for limits. Oracle: CPython 3.11.
#pragma once

#include <string>

#include "chat/jinja/interpreter.hpp"

namespace minfer::chat::jinja {

bool truth(const Value& value);
// len(); raises for values without a length.
int64_t length_of(const Value& value);

Value binary(Interpreter& in, Op op, const Value& left, const Value& right);
Value negate(const Value& value);
Value positive(const Value& value);
bool compare(Interpreter& in, Op op, const Value& left, const Value& right);
// left < right, as sorting needs it.
bool less_than(Interpreter& in, const Value& left, const Value& right);
bool contains(Interpreter& in, const Value& container, const Value& item);
// container[start:stop:step] where null means left out.
Value slice(Interpreter& in, const Value& container, const Value* start, const Value* stop, const Value* step);
// The index of a sequence of `size` items, negative ones from the end; -1 where it is outside.
int64_t resolve_index(int64_t index, int64_t size);

// Raises the undefined value's message.
[[noreturn]] void fail_undefined(const Value& value);

// text % value (percent_format.cpp).
std::string format_percent(Interpreter& in, std::string_view format, const Value& value);
// str.format (str_format.cpp).
std::string format_braces(Interpreter& in, std::string_view format, const Arguments& arguments);
std::string format_value(Interpreter& in, const Value& value, std::string_view spec);

}  // namespace minfer::chat::jinja
