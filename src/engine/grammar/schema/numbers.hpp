// The numbers that minimum, maximum, their exclusive forms and multipleOf leave, as an automaton over their digits:
// exact for all 64-bit bounds, by comparing decimal digits, never by rounding. What is written is a part of all JSON
// numbers: no exponent, no leading zero, at most kMaxDigits digits before the point and 30 in all; integers without a
// point and without -0. Fractions have 15 digits in all beside an exclusive bound, and there are none beside a bound of
// more than 15 digits, because a validator's binary arithmetic could round them to the bound or beyond.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "chat/value.hpp"
#include "engine/grammar/schema/dfa.hpp"

namespace minfer::engine::grammar::schema {

inline constexpr uint32_t kMaxDigits = 21;

struct Bound {
  chat::Value value;  // an integer or a float
  bool exclusive = false;
};

struct NumberLimits {
  std::optional<Bound> least;
  std::optional<Bound> most;
  std::optional<int64_t> multiple_of;  // positive; then no fraction
};

// Tightens a limit by another one.
void raise_least(NumberLimits& limits, const Bound& bound);
void lower_most(NumberLimits& limits, const Bound& bound);
// Whether `number`, an integer or a float, is within.
bool within(const NumberLimits& limits, const chat::Value& number);
// Whether no number can be within both.
bool apart(const NumberLimits& left, const NumberLimits& right);

// Errors: unsupported where no number of kMaxDigits digits is that large, or where multipleOf needs too many states;
// `where` is the pointer of the schema.
Dfa number_dfa(const NumberLimits& limits, bool integer, std::string_view where);

}  // namespace minfer::engine::grammar::schema
