// Python's arithmetic, comparison, containment and slicing on Values. See operators.hpp.
#include "chat/jinja/operators.hpp"

#include <algorithm>
#include <cmath>

#include "chat/jinja/present.hpp"
#include "chat/jinja/text.hpp"

namespace minfer::chat::jinja {
namespace {

std::string_view op_text(Op op) {
  switch (op) {
    case Op::add:
      return "+";
    case Op::subtract:
      return "-";
    case Op::multiply:
      return "*";
    case Op::divide:
      return "/";
    case Op::floor_divide:
      return "//";
    case Op::modulo:
      return "%";
    case Op::power:
      return "** or pow()";
    case Op::less:
      return "<";
    case Op::less_equal:
      return "<=";
    case Op::greater:
      return ">";
    case Op::greater_equal:
      return ">=";
    default:
      return "?";
  }
}

[[noreturn]] void fail_operands(Op op, const Value& left, const Value& right) {
  raise("unsupported operand type(s) for {}: '{}' and '{}'", op_text(op), type_name(left), type_name(right));
}

[[noreturn]] void fail_overflow(Op op) {
  raise("the result of '{}' does not fit in 64 bits", op_text(op));
}

int64_t floor_divide(int64_t left, int64_t right) {
  const int64_t quotient = left / right;
  return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

int64_t floor_modulo(int64_t left, int64_t right) {
  const int64_t rest = left % right;
  return rest != 0 && (rest < 0) != (right < 0) ? rest + right : rest;
}

Value integer_power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) raise("0.0 cannot be raised to a negative power");
    return Value::floating(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) fail_overflow(Op::power);
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) fail_overflow(Op::power);
  }
  return Value::integer(result);
}

Value integer_binary(Op op, int64_t left, int64_t right) {
  const bool divides = op == Op::divide || op == Op::floor_divide || op == Op::modulo;
  if (divides && right == 0) raise("{}", op == Op::divide ? "division by zero" : "integer division or modulo by zero");
  int64_t result = 0;
  bool overflow = false;
  switch (op) {
    case Op::add:
      overflow = __builtin_add_overflow(left, right, &result);
      break;
    case Op::subtract:
      overflow = __builtin_sub_overflow(left, right, &result);
      break;
    case Op::multiply:
      overflow = __builtin_mul_overflow(left, right, &result);
      break;
    case Op::divide:
      return Value::floating(static_cast<double>(left) / static_cast<double>(right));
    case Op::power:
      return integer_power(left, right);
    case Op::floor_divide:
    case Op::modulo:
      if (right == -1) {  // INT64_MIN / -1 traps
        if (op == Op::floor_divide) overflow = __builtin_sub_overflow(int64_t{0}, left, &result);
      } else {
        result = op == Op::modulo ? floor_modulo(left, right) : floor_divide(left, right);
      }
      break;
    default:
      break;
  }
  if (overflow) fail_overflow(op);
  return Value::integer(result);
}

// Python's float floor division and modulo: the remainder has the divisor's sign.
Value float_divmod(Op op, double left, double right) {
  double rest = std::fmod(left, right);
  double quotient = (left - rest) / right;
  if (rest != 0) {
    if ((right < 0) != (rest < 0)) {
      rest += right;
      quotient -= 1;
    }
  } else {
    rest = std::copysign(0.0, right);
  }
  if (op == Op::modulo) return Value::floating(rest);
  if (quotient == 0) return Value::floating(std::copysign(0.0, left / right));
  const double floored = std::floor(quotient);
  return Value::floating(quotient - floored > 0.5 ? floored + 1 : floored);
}

Value float_power(double base, double exponent) {
  if (base == 0 && exponent < 0) raise("0.0 cannot be raised to a negative power");
  if (base < 0 && std::isfinite(base) && std::isfinite(exponent) && exponent != std::floor(exponent)) {
    raise("complex numbers are not supported: a negative number to a fractional power");
  }
  const double result = std::pow(base, exponent);
  if (std::isinf(result) && std::isfinite(base) && std::isfinite(exponent)) raise("numerical result out of range");
  return Value::floating(result);
}

Value float_binary(Op op, double left, double right) {
  switch (op) {
    case Op::add:
      return Value::floating(left + right);
    case Op::subtract:
      return Value::floating(left - right);
    case Op::multiply:
      return Value::floating(left * right);
    case Op::power:
      return float_power(left, right);
    default:
      break;
  }
  if (right == 0) raise("{}", op == Op::divide ? "float division by zero" : "float floor division or modulo by zero");
  return op == Op::divide ? Value::floating(left / right) : float_divmod(op, left, right);
}

bool is_list(const Value& value) {
  return value.is(Kind::list) || value.is(Kind::tuple);
}

Value join_texts(Interpreter& in, const Value& left, const Value& right) {
  const bool markup = left.is_markup() || right.is_markup();
  const auto part = [&](const Value& value) {
    return markup && !value.is_markup() ? escape_html(value.as_string()) : value.as_string();
  };
  in.reserve_text(left.as_string().size() + right.as_string().size());
  return in.make_string(part(left) + part(right), markup);
}

Value add(Interpreter& in, const Value& left, const Value& right) {
  if (left.is_string() && right.is_string()) return join_texts(in, left, right);
  if (is_list(left) && left.kind() == right.kind()) {
    in.reserve_items(left.items().size() + right.items().size());
    std::vector<Value> items;
    items.reserve(left.items().size() + right.items().size());
    items.insert(items.end(), left.items().begin(), left.items().end());
    items.insert(items.end(), right.items().begin(), right.items().end());
    return left.is(Kind::list) ? in.make_list(std::move(items)) : in.make_tuple(std::move(items));
  }
  if (left.is_string()) {
    raise("can only concatenate str (not \"{}\") to str", type_name(right));
  }
  if (is_list(left)) {
    raise("can only concatenate {} (not \"{}\") to {}", type_name(left), type_name(right), type_name(left));
  }
  fail_operands(Op::add, left, right);
}

Value repeat(Interpreter& in, const Value& sequence, int64_t count) {
  const size_t times = count > 0 ? static_cast<size_t>(count) : 0;
  size_t total = 0;
  const size_t size = sequence.is_string() ? sequence.as_string().size() : sequence.items().size();
  if (__builtin_mul_overflow(size, times, &total)) raise("a text or list repeated {} times is too long", count);
  if (sequence.is_string()) {
    in.reserve_text(total);
    std::string text;
    text.reserve(total);
    for (size_t round = 0; size > 0 && round < times; ++round) text += sequence.as_string();
    return in.make_string(std::move(text), sequence.is_markup());
  }
  in.reserve_items(total);
  std::vector<Value> items;
  items.reserve(total);
  for (size_t round = 0; size > 0 && round < times; ++round) {
    items.insert(items.end(), sequence.items().begin(), sequence.items().end());
  }
  return sequence.is(Kind::list) ? in.make_list(std::move(items)) : in.make_tuple(std::move(items));
}

bool compare_order(Op op, int order) {
  switch (op) {
    case Op::less:
      return order < 0;
    case Op::less_equal:
      return order <= 0;
    case Op::greater:
      return order > 0;
    default:
      return order >= 0;
  }
}

bool compare_lists(Interpreter& in, Op op, const Value& left, const Value& right) {
  const auto& a = left.items();
  const auto& b = right.items();
  in.step(std::min(a.size(), b.size()));
  for (size_t index = 0; index < std::min(a.size(), b.size()); ++index) {
    if (!equal(a[index], b[index])) return compare(in, op, a[index], b[index]);
  }
  return compare_order(op, a.size() < b.size() ? -1 : a.size() > b.size() ? 1 : 0);
}

bool contains_item(Interpreter& in, const Value& container, const Value& item) {
  const Next next = in.iterate(container);
  for (Value other; next(other);) {
    in.step();
    if (equal(other, item)) return true;
  }
  return false;
}

// One bound of a slice: the index, or a fault.
int64_t slice_bound(const Value& bound) {
  if (!bound.is_int()) raise("slice indices must be integers or None or have an __index__ method");
  return bound.as_int();
}

struct SliceRange {
  int64_t start, stop, step, count;
};

// As PySlice_AdjustIndices.
SliceRange slice_range(int64_t size, const Value* start, const Value* stop, const Value* step) {
  const int64_t stride = step != nullptr ? slice_bound(*step) : 1;
  if (stride == 0) raise("slice step cannot be zero");
  const bool backwards = stride < 0;
  const auto clip = [&](const Value* bound, int64_t missing) {
    if (bound == nullptr) return missing;
    int64_t index = slice_bound(*bound);
    if (index < 0) index = std::max<int64_t>(index < -size ? -1 : index + size, backwards ? -1 : 0);
    return std::min(index, backwards ? size - 1 : size);
  };
  const int64_t first = clip(start, backwards ? size - 1 : 0);
  const int64_t last = clip(stop, backwards ? -1 : size);
  int64_t count = 0;
  if (backwards && last < first) count = (first - last - 1) / (stride == INT64_MIN ? INT64_MAX : -stride) + 1;
  if (!backwards && first < last) count = (last - first - 1) / stride + 1;
  return {first, last, stride, count};
}

Value slice_text(Interpreter& in, const Value& container, const SliceRange& range) {
  const std::string_view text = container.as_string();
  std::string out;
  if (range.step == 1) {
    const size_t begin = byte_offset(text, static_cast<size_t>(range.start));
    const size_t size = byte_offset(text.substr(begin), static_cast<size_t>(range.count));
    out = text.substr(begin, size);
  } else {
    std::vector<size_t> offsets;  // of every code point
    for (size_t at = 0; at < text.size(); next_code_point(text, at)) offsets.push_back(at);
    offsets.push_back(text.size());
    in.reserve_items(offsets.size());
    int64_t index = range.start;
    for (int64_t taken = 0; taken < range.count; ++taken, index += taken < range.count ? range.step : 0) {
      const auto at = static_cast<size_t>(index);
      out += text.substr(offsets[at], offsets[at + 1] - offsets[at]);
    }
  }
  return in.make_string(std::move(out), container.is_markup());
}

}  // namespace

void fail_undefined(const Value& value) {
  raise("{}", as<UndefinedObject>(value).message());
}

bool truth(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
    case Kind::integer:
      return value.as_int() != 0;
    case Kind::floating:
      return value.as_double() != 0;
    case Kind::string:
      return !value.as_string().empty();
    case Kind::list:
    case Kind::tuple:
      return !value.items().empty();
    case Kind::dict:
      return !value.as_dict().empty();
    case Kind::object:
      break;
  }
  if (is_object(value, ObjectType::range)) return as<RangeObject>(value).size > 0;
  if (is_object(value, ObjectType::view)) return !as<ViewObject>(value).dict.as_dict().empty();
  return true;
}

int64_t length_of(const Value& value) {
  switch (value.kind()) {
    case Kind::undefined:
      return 0;
    case Kind::string:
      return static_cast<int64_t>(count_code_points(value.as_string()));
    case Kind::list:
    case Kind::tuple:
      return static_cast<int64_t>(value.items().size());
    case Kind::dict:
      return static_cast<int64_t>(value.as_dict().size());
    default:
      break;
  }
  if (is_object(value, ObjectType::range)) return as<RangeObject>(value).size;
  if (is_object(value, ObjectType::view)) return static_cast<int64_t>(as<ViewObject>(value).dict.as_dict().size());
  raise("object of type '{}' has no len()", type_name(value));
}

Value binary(Interpreter& in, Op op, const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) {
    if (left.is_int() && right.is_int()) return integer_binary(op, left.as_int(), right.as_int());
    return float_binary(op, left.as_double(), right.as_double());
  }
  if (op == Op::modulo && left.is_string()) {
    if (left.is_markup()) raise("'%' on text marked safe is not supported; drop the filter 'safe'");
    return in.make_string(format_percent(in, left.as_string(), right));
  }
  if (left.is_undefined()) fail_undefined(left);
  if (right.is_undefined()) fail_undefined(right);
  if (op == Op::add) return add(in, left, right);
  if (op == Op::multiply) {
    const auto is_sequence = [](const Value& value) { return value.is_string() || is_list(value); };
    if (is_sequence(left) && right.is_int()) return repeat(in, left, right.as_int());
    if (is_sequence(right) && left.is_int()) return repeat(in, right, left.as_int());
    if (is_sequence(left)) raise("can't multiply sequence by non-int of type '{}'", type_name(right));
  }
  fail_operands(op, left, right);
}

Value negate(const Value& value) {
  if (value.is_undefined()) fail_undefined(value);
  if (value.is(Kind::floating)) return Value::floating(-value.as_double());
  if (!value.is_int()) raise("bad operand type for unary -: '{}'", type_name(value));
  return integer_binary(Op::subtract, 0, value.as_int());
}

Value positive(const Value& value) {
  if (value.is_undefined()) fail_undefined(value);
  if (value.is(Kind::floating)) return value;
  if (!value.is_int()) raise("bad operand type for unary +: '{}'", type_name(value));
  return Value::integer(value.as_int());
}

bool compare(Interpreter& in, Op op, const Value& left, const Value& right) {
  if (op == Op::equal) return equal(left, right);
  if (op == Op::not_equal) return !equal(left, right);
  if (op == Op::in) return contains(in, right, left);
  if (op == Op::not_in) return !contains(in, right, left);
  if (left.is_number() && right.is_number()) {
    if (left.is_int() && right.is_int()) {
      return compare_order(op, left.as_int() < right.as_int() ? -1 : left.as_int() > right.as_int() ? 1 : 0);
    }
    const double a = left.as_double();
    const double b = right.as_double();
    if (std::isnan(a) || std::isnan(b)) return false;
    return compare_order(op, a < b ? -1 : a > b ? 1 : 0);
  }
  if (left.is_string() && right.is_string()) return compare_order(op, left.as_string().compare(right.as_string()));
  if (is_list(left) && left.kind() == right.kind()) return compare_lists(in, op, left, right);
  if (left.is_undefined()) fail_undefined(left);
  if (right.is_undefined()) fail_undefined(right);
  raise("'{}' not supported between instances of '{}' and '{}'", op_text(op), type_name(left), type_name(right));
}

bool less_than(Interpreter& in, const Value& left, const Value& right) {
  in.step();
  return compare(in, Op::less, left, right);
}

bool contains(Interpreter& in, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::string:
      if (!item.is_string()) raise("'in <string>' requires string as left operand, not {}", type_name(item));
      in.step(container.as_string().size() / 64);
      return container.as_string().find(item.as_string()) != std::string::npos;
    case Kind::dict:
      if (!hashable(item)) raise("unhashable type: '{}'", type_name(item));
      return container.as_dict().find(item) != nullptr;
    case Kind::list:
    case Kind::tuple:
    case Kind::undefined:
      return contains_item(in, container, item);
    case Kind::object:
      break;
    default:
      raise("argument of type '{}' is not iterable", type_name(container));
  }
  if (is_object(container, ObjectType::view) && as<ViewObject>(container).kind == ViewKind::keys) {
    return contains(in, as<ViewObject>(container).dict, item);
  }
  return contains_item(in, container, item);
}

int64_t resolve_index(int64_t index, int64_t size) {
  if (index < -size || index >= size) return -1;
  return index < 0 ? index + size : index;
}

Value slice(Interpreter& in, const Value& container, const Value* start, const Value* stop, const Value* step) {
  if (container.is_undefined()) fail_undefined(container);
  const bool is_range = is_object(container, ObjectType::range);
  if (container.is(Kind::dict)) raise("unhashable type: 'slice'");
  if (!container.is_string() && !is_list(container) && !is_range) {
    raise("'{}' object is not subscriptable", type_name(container));
  }
  const SliceRange range = slice_range(length_of(container), start, stop, step);
  if (container.is_string()) return slice_text(in, container, range);
  if (is_range) {
    const auto& source = as<RangeObject>(container);
    return make_object<RangeObject>(source.start + source.step * range.start, source.start + source.step * range.stop,
                                    source.step * range.step, range.count);
  }
  std::vector<Value> items;
  in.reserve_items(static_cast<size_t>(range.count));
  items.reserve(static_cast<size_t>(range.count));
  int64_t index = range.start;
  for (int64_t taken = 0; taken < range.count; ++taken, index += taken < range.count ? range.step : 0) {
    items.push_back(container.items()[static_cast<size_t>(index)]);
  }
  return container.is(Kind::list) ? in.make_list(std::move(items)) : in.make_tuple(std::move(items));
}

}  // namespace minfer::chat::jinja
