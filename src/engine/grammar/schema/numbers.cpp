// Automata of numbers: a product of the shape (digits and point), one comparison a bound, and the remainder or the
// trailing zeros that multipleOf asks for.
#include "engine/grammar/schema/numbers.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.hpp"

namespace minfer::engine::grammar::schema {
namespace {

using chat::Value;

constexpr size_t kMinus = 10;  // symbols: the digits 0 to 9, then these
constexpr size_t kPoint = 11;
constexpr uint32_t kExactDigits = 15;  // decimals of so many digits are different doubles
constexpr uint32_t kMaxAllDigits = 30;
constexpr uint32_t kFewestDigits = 6;         // of a multiple
constexpr int64_t kMaxListedMultiples = 256;  // so few are listed
constexpr int32_t kMaxFractionDigits = 400;   // of a bound: a double has no more

std::vector<std::vector<CodeRange>> number_symbols() {
  std::vector<std::vector<CodeRange>> symbols;
  for (const char symbol : std::string_view("0123456789-.")) {
    const auto code = static_cast<uint32_t>(symbol);
    symbols.push_back({{code, code}});
  }
  return symbols;
}

// Digits of a bound: neither leading nor trailing zeros, so that 0 has none.
struct Decimal {
  bool negative = false;
  std::string whole;
  std::string fraction;
  bool is_zero() const { return whole.empty() && fraction.empty(); }
};

Decimal decimal_of(const Value& value) {
  // The shortest text that reads as this very number: digits, perhaps a point, perhaps an exponent.
  std::string text =
      value.is(chat::Kind::floating) ? fmt::format("{}", value.as_double()) : fmt::format("{}", value.as_int());
  Decimal out;
  out.negative = text[0] == '-';
  text.erase(0, out.negative ? 1 : 0);
  int exponent = 0;
  if (const size_t e = text.find('e'); e != std::string::npos) {
    exponent = std::stoi(text.substr(e + 1));
    text.erase(e);
  }
  const size_t point = std::min(text.find('.'), text.size());
  std::string digits = text.substr(0, point) + (point < text.size() ? text.substr(point + 1) : "");
  auto whole = static_cast<int>(point) + exponent;  // digits before the point
  if (whole < 0) {
    digits.insert(0, static_cast<size_t>(-whole), '0');
    whole = 0;
  }
  if (static_cast<size_t>(whole) > digits.size()) {
    digits.append(static_cast<size_t>(whole) - digits.size(), '0');
  }
  out.whole = digits.substr(0, static_cast<size_t>(whole));
  out.fraction = digits.substr(static_cast<size_t>(whole));
  out.whole.erase(0, std::min(out.whole.find_first_not_of('0'), out.whole.size()));
  out.fraction.erase(out.fraction.find_last_not_of('0') + 1);
  out.negative = out.negative && !out.is_zero();
  return out;
}

// The form of a number: at most `whole_digits` before the point, and with a fraction `all_digits` together.
Machine shape(bool integer, uint32_t whole_digits, uint32_t all_digits) {
  // `point` and `fraction` plus the number of digits so far.
  enum : int32_t { start, minus, whole = 10, point = 100, fraction = 200 };
  const auto most_whole = whole + static_cast<int32_t>(whole_digits);
  const auto most = fraction + static_cast<int32_t>(all_digits);
  constexpr int32_t kZero = whole;  // nothing but a point may follow
  const auto step = [=](int32_t state, size_t symbol) -> int32_t {
    if (symbol == kMinus) {
      return state == start ? static_cast<int32_t>(minus) : kNoState;
    }
    if (symbol == kPoint) {
      const int32_t digits = std::max(state - whole, 1);
      return !integer && state >= whole && state < point && fraction + digits < most ? point + digits : kNoState;
    }
    if (state >= point) {
      const int32_t next = state < fraction ? state - point + fraction + 1 : state + 1;
      return next <= most ? next : kNoState;
    }
    if (state > kZero) {
      return state < most_whole ? state + 1 : kNoState;
    }
    if (state == kZero || (symbol == 0 && state == minus && integer)) {
      return kNoState;
    }
    return symbol == 0 ? kZero : whole + 1;
  };
  const auto accepts = [](int32_t state) { return (state >= whole && state < point) || state > fraction; };
  return {start, step, accepts};
}

// Where a number stands to a bound while its digits are read.
struct Comparison {
  bool negative = false;
  bool in_fraction = false;
  int32_t read = 0;   // digits: before the point, at most one more than the bound has, or behind it
  int32_t order = 0;  // of what was read: -1 smaller, 1 larger than the bound in magnitude

  int32_t packed() const {
    return ((read * 3 + order + 1) * 2 + static_cast<int32_t>(in_fraction)) * 2 + static_cast<int32_t>(negative);
  }
  static Comparison unpacked(int32_t state) {
    return {(state & 1) != 0, (state & 2) != 0, state / 12, state / 4 % 3 - 1};
  }
  // The order where the point or the end comes.
  int32_t whole_order(const Decimal& bound) const {
    const auto digits = static_cast<int32_t>(bound.whole.size());
    return read == digits ? order : read < digits ? -1 : 1;
  }
};

int32_t compared(const Decimal& bound, int32_t state, size_t symbol) {
  Comparison at = Comparison::unpacked(state);
  if (symbol == kMinus) {
    at.negative = true;
    return at.packed();
  }
  if (symbol == kPoint) {
    at = {at.negative, true, 0, at.whole_order(bound)};
    return at.packed();
  }
  const auto digit = static_cast<int32_t>(symbol);
  const std::string& digits = at.in_fraction ? bound.fraction : bound.whole;
  if (!at.in_fraction && at.read == 0 && digit == 0) {
    return at.packed();  // the number's whole part is 0, which has no digits here
  }
  const auto size = static_cast<int32_t>(digits.size());
  const int32_t other = at.read < size ? digits[static_cast<size_t>(at.read)] - '0' : 0;
  if (at.order == 0 && (at.in_fraction || at.read < size)) {
    at.order = digit == other ? 0 : digit < other ? -1 : 1;
  }
  at.read = std::min(at.read + 1, at.in_fraction ? size : size + 1);
  if (at.in_fraction ? at.order != 0 : at.read > size) {
    at.order = at.in_fraction ? at.order : 0;
    at.read = at.in_fraction ? 0 : at.read;
  }
  return at.packed();
}

// -1, 0, 1: the number that was read is smaller than, equal to or larger than the bound.
int32_t order_at_end(const Decimal& bound, int32_t state) {
  const Comparison at = Comparison::unpacked(state);
  int32_t order = at.in_fraction ? at.order : at.whole_order(bound);
  const bool more = at.in_fraction ? at.read < static_cast<int32_t>(bound.fraction.size()) : !bound.fraction.empty();
  if (order == 0 && more) {
    order = -1;
  }
  if (bound.negative) {
    return at.negative ? -order : 1;
  }
  return at.negative && !(bound.is_zero() && order == 0) ? -1 : order;
}

// `sign` 1: at least the bound; -1: at most.
Machine comparison(const Decimal& bound, bool exclusive, int32_t sign) {
  const auto step = [=](int32_t state, size_t symbol) { return compared(bound, state, symbol); };
  const auto accepts = [=](int32_t state) {
    const int32_t order = order_at_end(bound, state) * sign;
    return exclusive ? order > 0 : order >= 0;
  };
  return {Comparison{}.packed(), step, accepts};
}

// Multiples of 10^zeros: so many zeros at the end, or 0 itself.
Machine trailing_zeros(int32_t zeros) {
  const auto step = [=](int32_t state, size_t symbol) -> int32_t {
    if (symbol == kPoint) {
      return kNoState;
    }
    return symbol == kMinus ? state : symbol == 0 ? std::min(state + 1, zeros) : 0;
  };
  // No digit read counts as enough zeros: what is 0 so far.
  return {zeros, step, [=](int32_t state) { return state == zeros; }};
}

Machine remainder(int64_t divisor) {
  const auto step = [=](int32_t state, size_t symbol) -> int32_t {
    if (symbol == kPoint) {
      return kNoState;
    }
    return symbol == kMinus ? state : static_cast<int32_t>((state * 10 + static_cast<int64_t>(symbol)) % divisor);
  };
  return {0, step, [](int32_t state) { return state == 0; }};
}

// n where the divisor is 10^n.
std::optional<int32_t> power_of_ten(int64_t divisor) {
  int32_t zeros = 0;
  for (; divisor % 10 == 0; divisor /= 10) {
    ++zeros;
  }
  return divisor == 1 ? std::optional(zeros) : std::nullopt;
}

// long double has 64 bits of digits or more: all integers and doubles.
long double exact(const Value& value) {
  return value.is(chat::Kind::floating) ? static_cast<long double>(value.as_double())
                                        : static_cast<long double>(value.as_int());
}

// The multiples themselves where they are few.
std::optional<Dfa> listed_multiples(const NumberLimits& limits) {
  if (!limits.multiple_of || !limits.least || !limits.most) {
    return std::nullopt;
  }
  const auto divisor = static_cast<long double>(*limits.multiple_of);
  const long double first = std::ceil(exact(limits.least->value) / divisor) - 1;
  const long double last = std::floor(exact(limits.most->value) / divisor) + 1;
  if (last - first > static_cast<long double>(kMaxListedMultiples) ||
      std::max(std::fabs(first), std::fabs(last)) * divisor > 9e18L) {
    return std::nullopt;
  }
  RegexPool pool;
  std::vector<RegexId> texts;
  for (auto i = static_cast<int64_t>(first); i <= static_cast<int64_t>(last); ++i) {
    const int64_t number = i * *limits.multiple_of;
    if (within(limits, Value::integer(number))) {
      texts.push_back(pool.literal(fmt::format("{}", number)));
    }
  }
  return make_dfa(pool, pool.either(texts));
}

// Whether the bound excludes no number that can be written. Errors: unsupported where it excludes all.
bool is_vacuous(const Bound& bound, bool is_least, std::string_view where) {
  const Decimal decimal = decimal_of(bound.value);
  if (decimal.whole.size() <= kMaxDigits) {
    return false;
  }
  if (decimal.negative != is_least) {
    fail(ErrorCode::unsupported,
         "{}: a bound of {} digits, beyond which there is no number of up to {} digits; choose a smaller one", where,
         decimal.whole.size(), kMaxDigits);
  }
  return true;
}

}  // namespace

void raise_least(NumberLimits& limits, const Bound& bound) {
  const long double value = exact(bound.value);
  if (!limits.least || value > exact(limits.least->value) || (value == exact(limits.least->value) && bound.exclusive)) {
    limits.least = bound;
  }
}

void lower_most(NumberLimits& limits, const Bound& bound) {
  const long double value = exact(bound.value);
  if (!limits.most || value < exact(limits.most->value) || (value == exact(limits.most->value) && bound.exclusive)) {
    limits.most = bound;
  }
}

bool within(const NumberLimits& limits, const Value& number) {
  const long double value = exact(number);
  if (limits.least &&
      (value < exact(limits.least->value) || (value == exact(limits.least->value) && limits.least->exclusive))) {
    return false;
  }
  if (limits.most &&
      (value > exact(limits.most->value) || (value == exact(limits.most->value) && limits.most->exclusive))) {
    return false;
  }
  return !limits.multiple_of || std::fmod(value, static_cast<long double>(*limits.multiple_of)) == 0;
}

bool apart(const NumberLimits& left, const NumberLimits& right) {
  const auto below = [](const std::optional<Bound>& most, const std::optional<Bound>& least) {
    return most && least &&
           (exact(most->value) < exact(least->value) ||
            (exact(most->value) == exact(least->value) && (most->exclusive || least->exclusive)));
  };
  return below(left.most, right.least) || below(right.most, left.least);
}

Dfa number_dfa(const NumberLimits& limits, bool integer, std::string_view where) {
  if (std::optional<Dfa> listed = listed_multiples(limits)) {
    return *listed;
  }
  std::vector<Machine> bounds;
  size_t digits = 1;
  bool rounds = false;
  for (const bool is_least : {true, false}) {
    const std::optional<Bound>& bound = is_least ? limits.least : limits.most;
    if (bound && !is_vacuous(*bound, is_least, where)) {
      const Decimal decimal = decimal_of(bound->value);
      check(decimal.fraction.size() <= static_cast<size_t>(kMaxFractionDigits), "a double has few digits");
      digits = std::max(digits, decimal.whole.size());
      rounds = rounds || (bound->exclusive && !decimal.is_zero());
      bounds.push_back(comparison(decimal, bound->exclusive, is_least ? 1 : -1));
    }
  }
  uint32_t whole = kMaxDigits;
  uint32_t all = kMaxAllDigits;
  if (digits > kExactDigits) {
    all = 0;  // a fraction could round to the other side of an integer that is no double
  } else if (rounds) {
    all = kExactDigits;
  }
  const std::optional<int32_t> zeros = limits.multiple_of ? power_of_ten(*limits.multiple_of) : std::nullopt;
  if (limits.multiple_of && !zeros && kMaxDfaStates / static_cast<size_t>(*limits.multiple_of) < kMaxDigits + 2) {
    // A state for each remainder and digit: fewer digits.
    const auto fewer = static_cast<uint32_t>(kMaxDfaStates / static_cast<size_t>(*limits.multiple_of));
    whole = std::max({fewer - std::min(fewer, 2U), kFewestDigits, static_cast<uint32_t>(digits)});
  }
  std::vector<Machine> machines = {shape(integer || limits.multiple_of, whole, all)};
  machines.insert(machines.end(), bounds.begin(), bounds.end());
  if (limits.multiple_of) {
    machines.push_back(zeros ? trailing_zeros(*zeros) : remainder(*limits.multiple_of));
  }
  std::optional<Dfa> dfa = make_product(number_symbols(), machines);
  if (!dfa) {
    fail(ErrorCode::unsupported,
         "{}/multipleOf: {} with these bounds; give powers of ten, small numbers, or bounds with at most {} multiples",
         where, limits.multiple_of.value_or(0), kMaxListedMultiples);
  }
  return *dfa;
}

}  // namespace minfer::engine::grammar::schema
