// Filters on numbers: int and float parse text as Python's constructors do (underscores between digits, base prefixes,
// blanks around), abs and round follow Python's rounding. Integers have 64 bits: what Python would answer with a longer
// one is the filter's default or an error, never a wrapped number. See filters.hpp.
#include <charconv>
#include <cmath>

#include "chat/jinja/arguments.hpp"
#include "chat/jinja/filters.hpp"
#include "chat/jinja/text.hpp"

namespace minfer::chat::jinja {
namespace {

// Digits with single underscores between them, without the underscores; nothing where the form is wrong.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '_') {
      out += text[at];
    } else if (at == 0 || at + 1 == text.size() || text[at - 1] == '_' ||
               !std::isalnum(static_cast<unsigned char>(text[at - 1])) ||
               !std::isalnum(static_cast<unsigned char>(text[at + 1]))) {
      return std::nullopt;
    }
  }
  return out;
}

// int(text, base): nothing where Python raises ValueError.
std::optional<int64_t> parse_int(std::string_view text, int64_t base) {
  text = strip(text, std::nullopt, Side::both);
  const bool negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  if (text.size() > 2 && text[0] == '0') {
    const char mark = static_cast<char>(text[1] | 0x20);
    const int marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    if (marked != 0 && (base == marked || base == 0)) {
      base = marked;
      text.remove_prefix(text[2] == '_' ? 3 : 2);
    }
  }
  if (base == 0) {
    base = 10;
    if (text.size() > 1 && text[0] == '0' && text.find_first_not_of("0_") != std::string_view::npos)
      return std::nullopt;
  }
  const std::optional<std::string> digits = without_underscores(text);
  if (!digits || digits->empty()) return std::nullopt;
  uint64_t magnitude = 0;
  const char* const end = digits->data() + digits->size();
  const auto [tail, code] = std::from_chars(digits->data(), end, magnitude, static_cast<int>(base));
  if (code == std::errc::invalid_argument || tail != end) return std::nullopt;
  if (code != std::errc() || magnitude > static_cast<uint64_t>(INT64_MAX)) {
    raise("the integer {} does not fit in 64 bits", *digits);
  }
  return negative ? -static_cast<int64_t>(magnitude) : static_cast<int64_t>(magnitude);
}

// float(text): nothing where Python raises ValueError.
std::optional<double> parse_float(std::string_view text) {
  text = strip(text, std::nullopt, Side::both);
  const bool negative = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  const std::optional<std::string> plain = without_underscores(text);
  if (!plain || plain->empty()) return std::nullopt;
  const std::string lower = to_lower(*plain);
  const double sign = negative ? -1.0 : 1.0;
  if (lower == "inf" || lower == "infinity") return sign * HUGE_VAL;
  if (lower == "nan") return std::nan("");
  if (lower.find_first_not_of("0123456789.e+-") != std::string::npos || lower[0] == '-' || lower[0] == '+') {
    return std::nullopt;
  }
  double value = 0;
  const char* const end = lower.data() + lower.size();
  const auto [tail, code] = std::from_chars(lower.data(), end, value);
  if (code == std::errc::invalid_argument || tail != end) return std::nullopt;
  if (code == std::errc::result_out_of_range) value = lower.find("e-") != std::string::npos ? 0.0 : HUGE_VAL;
  return sign * value;
}

// int(number): nothing for infinities and nan.
std::optional<int64_t> truncate(double value) {
  if (!std::isfinite(value)) return std::nullopt;
  if (std::abs(value) >= 9.2e18) raise("the integer {} does not fit in 64 bits", value);
  return static_cast<int64_t>(value);
}

}  // namespace

Value filter_int(Interpreter&, const Value& input, const Arguments& arguments) {
  const auto args = bind(arguments, 0, "default", "base");
  const Value otherwise = args.get(0, Value::integer(0));
  const int64_t base = args.integer(1, 10);
  if (input.is_undefined()) fail_undefined(input);
  if (base != 0 && (base < 2 || base > 36)) raise("int() base must be >= 2 and <= 36, or 0");
  std::optional<int64_t> value;
  if (input.is_int()) {
    value = input.as_int();
  } else if (input.is(Kind::floating)) {
    if (std::isinf(input.as_double())) raise("cannot convert float infinity to integer");
    value = truncate(input.as_double());
  } else if (input.is_string()) {
    value = parse_int(input.as_string(), base);
    if (!value) {
      const std::optional<double> number = parse_float(input.as_string());
      if (number) value = truncate(*number);
    }
  }
  return value ? Value::integer(*value) : otherwise;
}

Value filter_float(Interpreter&, const Value& input, const Arguments& arguments) {
  const auto args = bind(arguments, 0, "default");
  if (input.is_undefined()) fail_undefined(input);
  if (input.is_number()) return Value::floating(input.as_double());
  const std::optional<double> value = input.is_string() ? parse_float(input.as_string()) : std::nullopt;
  return value ? Value::floating(*value) : args.get(0, Value::floating(0));
}

Value filter_abs(Interpreter&, const Value& input, const Arguments& arguments) {
  expect_none(arguments);
  if (input.is_undefined()) fail_undefined(input);
  if (!input.is_number()) raise("bad operand type for abs(): '{}'", type_name(input));
  if (input.is(Kind::floating)) return Value::floating(std::abs(input.as_double()));
  return input.as_int() < 0 ? negate(input) : Value::integer(input.as_int());
}

Value filter_round(Interpreter& in, const Value& input, const Arguments& arguments) {
  const auto args = bind(arguments, 0, "precision", "method");
  const int64_t precision = args.integer(0, 0);
  const std::string_view method = args.text(1, "common");
  if (method != "common" && method != "ceil" && method != "floor") raise("method must be common, ceil or floor");
  if (input.is_undefined()) fail_undefined(input);
  if (!input.is_number()) raise("type {} doesn't define __round__ method", type_name(input));
  if (std::abs(precision) > 300) raise("a precision of {} digits is out of range", precision);
  const double value = input.as_double();
  if (method == "common") {
    if (input.is_int() && precision >= 0) return Value::integer(input.as_int());
    if (!std::isfinite(value)) return input;
    if (precision >= 0) {  // correctly rounded through decimal text, as Python does
      return Value::floating(std::stod(format_float(value, 'f', static_cast<int>(precision), false)));
    }
    const double scale = std::pow(10.0, static_cast<double>(-precision));
    const double rounded = std::nearbyint(value / scale) * scale;
    if (input.is_int()) return Value::integer(*truncate(rounded));  // 9.2e18 to the ten would not fit
    return Value::floating(rounded);
  }
  const Value scale = binary(in, Op::power, Value::integer(10), Value::integer(precision));
  const double scaled = binary(in, Op::multiply, input, scale).as_double();
  const std::optional<int64_t> whole = truncate(method == "ceil" ? std::ceil(scaled) : std::floor(scaled));
  if (!whole) raise("cannot convert {} to integer", float_text(scaled));
  return binary(in, Op::divide, Value::integer(*whole), scale);
}

}  // namespace minfer::chat::jinja
