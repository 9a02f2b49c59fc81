// The automata of numbers, against arithmetic: bounds of all sizes, decimals and doubles, multiples. What an automaton
// accepts is asked of it symbol by symbol.
#include "engine/grammar/schema/numbers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/error.hpp"

namespace minfer::engine::grammar::schema {
namespace {

using chat::Value;

bool accepts(const Dfa& dfa, std::string_view text) {
  int32_t state = dfa.states.empty() ? kNoState : 0;
  for (const char c : text) {
    int32_t next = kNoState;
    for (size_t symbol = 0; state != kNoState && symbol < dfa.symbols.size(); ++symbol) {
      for (const CodeRange range : dfa.symbols[symbol]) {
        if (range.first <= static_cast<uint32_t>(c) && static_cast<uint32_t>(c) <= range.last) {
          next = dfa.states[static_cast<size_t>(state)].next[symbol];
        }
      }
    }
    state = next;
  }
  return state != kNoState && dfa.states[static_cast<size_t>(state)].accepts;
}

NumberLimits between(std::optional<Value> least, std::optional<Value> most, bool exclusive = false) {
  NumberLimits limits;
  if (least) {
    limits.least = Bound{*least, exclusive};
  }
  if (most) {
    limits.most = Bound{*most, exclusive};
  }
  return limits;
}

TEST(Numbers, IntegersWithinAnyBounds) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 60; ++round) {
    const int64_t scale = round % 3 == 0 ? 40 : round % 3 == 1 ? 100000 : INT64_MAX / 4;
    const auto draw = [&] { return static_cast<int64_t>(random() % static_cast<uint64_t>(2 * scale)) - scale; };
    int64_t least = draw();
    int64_t most = draw();
    if (least > most) {
      std::swap(least, most);
    }
    const bool exclusive = round % 2 == 0;
    const NumberLimits limits = between(Value::integer(least), Value::integer(most), exclusive);
    const Dfa dfa = number_dfa(limits, true, "#");
    for (int i = 0; i < 200; ++i) {
      const int64_t number = i < 100 ? draw() : (i % 2 == 0 ? least : most) + i / 2 % 5 - 2;
      const bool expected = exclusive ? least < number && number < most : least <= number && number <= most;
      EXPECT_EQ(accepts(dfa, std::to_string(number)), expected) << least << " " << number << " " << most;
    }
  }
}

TEST(Numbers, BoundsOf64BitsAreExact) {
  const Dfa dfa = number_dfa(between(Value::integer(INT64_MIN), Value::integer(INT64_MAX)), true, "#");
  for (const char* text : {"0", "9223372036854775807", "-9223372036854775808", "-1", "1000000000000000000"}) {
    EXPECT_TRUE(accepts(dfa, text)) << text;
  }
  for (const char* text : {"9223372036854775808", "-9223372036854775809", "-0", "00", "01", "1.0", "", "-", "1e3",
                           "10000000000000000000"}) {
    EXPECT_FALSE(accepts(dfa, text)) << text;
  }
}

TEST(Numbers, DecimalsCompareDigitByDigit) {
  const Dfa open = number_dfa(between(Value::floating(-0.25), Value::floating(12.5), true), false, "#");
  for (const char* text : {"0", "-0", "-0.0", "-0.2", "-0.24999", "12.4999", "12", "1.50", "0.0000001", "9.99"}) {
    EXPECT_TRUE(accepts(open, text)) << text;
  }
  for (const char* text :
       {"-0.25", "-0.250", "12.5", "12.50", "13", "-1", "100", "12.", ".5", "1e0", "00.5", "12.51"}) {
    EXPECT_FALSE(accepts(open, text)) << text;
  }
  const Dfa closed = number_dfa(between(Value::floating(0.1), Value::integer(3)), false, "#");
  for (const char* text : {"0.1", "0.10", "3", "3.000", "2.12345678901234567890123456789"}) {
    EXPECT_TRUE(accepts(closed, text)) << text;
  }
  for (const char* text : {"0.09", "0", "3.01", "30", "-1", "-0"}) {
    EXPECT_FALSE(accepts(closed, text)) << text;
  }
  const Dfa positive = number_dfa(between(Value::integer(0), std::nullopt, true), false, "#");
  EXPECT_TRUE(accepts(positive, "0.000000000000000000001"));
  EXPECT_FALSE(accepts(positive, "0.000"));
  EXPECT_FALSE(accepts(positive, "-0"));
  const Dfa at_least_zero = number_dfa(between(Value::integer(0), std::nullopt), false, "#");
  EXPECT_TRUE(accepts(at_least_zero, "-0.0"));
  EXPECT_FALSE(accepts(at_least_zero, "-0.01"));
}

TEST(Numbers, RandomDecimals) {
  std::mt19937 random(11);
  for (int round = 0; round < 100; ++round) {
    const auto draw = [&] {
      return static_cast<double>(static_cast<int>(random() % 20001) - 10000) / (round % 2 == 0 ? 100 : 1000);
    };
    const double a = draw();
    const double b = draw();
    const double least = std::min(a, b);
    const double most = std::max(a, b);
    const bool exclusive = round % 3 == 0;
    const Dfa dfa = number_dfa(between(Value::floating(least), Value::floating(most), exclusive), false, "#");
    for (int i = 0; i < 100; ++i) {
      const double number = i % 4 == 0 ? (i % 8 == 0 ? least : most) : draw();
      const bool expected = exclusive ? least < number && number < most : least <= number && number <= most;
      EXPECT_EQ(accepts(dfa, fmt::format("{}", number)), expected) << least << " " << number << " " << most;
      EXPECT_EQ(accepts(dfa, fmt::format("{:.5f}", number)), expected) << least << " " << number << " " << most;
    }
  }
}

TEST(Numbers, LargeAndSmallFloats) {
  EXPECT_TRUE(accepts(number_dfa(between(Value::floating(-1e300), Value::floating(1e300)), false, "#"),
                      "123456789012345678901"));
  EXPECT_FALSE(
      accepts(number_dfa(between(Value::floating(1e-20), std::nullopt), false, "#"), "0.000000000000000000009"));
  EXPECT_TRUE(accepts(number_dfa(between(Value::floating(1e-20), std::nullopt), false, "#"), "0.00000000000000000001"));
  EXPECT_TRUE(accepts(number_dfa(between(std::nullopt, Value::floating(1.5e20)), true, "#"), "150000000000000000000"));
  const Dfa beyond_doubles = number_dfa(between(std::nullopt, Value::integer(3128289701618938785)), false, "#");
  EXPECT_TRUE(accepts(beyond_doubles, "3128289701618938785"));
  EXPECT_FALSE(accepts(beyond_doubles, "3128289701618938689.4"));
  EXPECT_THROW(number_dfa(between(Value::floating(1e30), std::nullopt), false, "#"), Error);
}

TEST(Numbers, Multiples) {
  for (const int64_t divisor : {1, 2, 3, 7, 10, 12, 100, 250, 1000000}) {
    for (const bool bounded : {false, true}) {
      NumberLimits limits;
      limits.multiple_of = divisor;
      if (bounded) {
        limits.least = Bound{Value::integer(-5 * divisor - 1), false};
        limits.most = Bound{Value::integer(9 * divisor), true};
      }
      const Dfa dfa = number_dfa(limits, true, "#");
      for (int64_t number = -12 * divisor; number <= 12 * divisor; number += std::max<int64_t>(1, divisor / 5)) {
        const bool inside = !bounded || (number >= -5 * divisor - 1 && number < 9 * divisor);
        EXPECT_EQ(accepts(dfa, std::to_string(number)), inside && number % divisor == 0)
            << number << " " << divisor << bounded;
      }
      EXPECT_FALSE(accepts(dfa, "0.0"));
    }
  }
  NumberLimits far = between(Value::integer(INT64_MIN + 5), Value::integer(INT64_MIN + 30));
  far.multiple_of = 10;
  EXPECT_TRUE(accepts(number_dfa(far, true, "#"), "-9223372036854775800"));
  EXPECT_FALSE(accepts(number_dfa(far, true, "#"), "-9223372036854775801"));
  NumberLimits limits;
  limits.multiple_of = 3601;
  EXPECT_THROW(number_dfa(limits, true, "#/a"), Error);
}

TEST(Numbers, WhatIsWithin) {
  NumberLimits limits;
  raise_least(limits, {Value::integer(1), false});
  raise_least(limits, {Value::floating(1.0), true});
  raise_least(limits, {Value::integer(0), false});
  lower_most(limits, {Value::integer(9), false});
  lower_most(limits, {Value::floating(8.5), false});
  EXPECT_FALSE(within(limits, Value::integer(1)));
  EXPECT_TRUE(within(limits, Value::floating(1.5)));
  EXPECT_TRUE(within(limits, Value::floating(8.5)));
  EXPECT_FALSE(within(limits, Value::integer(9)));
  limits.multiple_of = 4;
  EXPECT_TRUE(within(limits, Value::floating(8.0)));
  EXPECT_FALSE(within(limits, Value::integer(6)));
  EXPECT_TRUE(apart(limits, between(Value::integer(9), std::nullopt)));
  EXPECT_TRUE(apart(limits, between(std::nullopt, Value::integer(1))));
  EXPECT_FALSE(apart(limits, between(Value::integer(8), std::nullopt)));
}

}  // namespace
}  // namespace minfer::engine::grammar::schema
