// The tests: what may follow `is`, in one table by name, operators and their aliases included. Each takes the value on
// the left and the arguments in parentheses and returns whether it holds. Oracle: jinja2's tests.py.
#include <unicode/uchar.h>

#include "chat/jinja/arguments.hpp"
#include "chat/jinja/parser.hpp"
#include "chat/jinja/text.hpp"

namespace minfer::chat::jinja {
namespace {

using In = Interpreter;
using Args = Arguments;

int64_t modulo(In& in, const Value& value, const Value& divisor) {
  const Value rest = binary(in, Op::modulo, value, divisor);
  return rest.is_int() ? rest.as_int() : rest.as_double() == 0 ? 0 : rest.as_double() == 1 ? 1 : 2;
}

bool test_odd(In& in, const Value& value, const Args& args) {
  expect_none(args);
  return modulo(in, value, Value::integer(2)) == 1;
}
bool test_even(In& in, const Value& value, const Args& args) {
  expect_none(args);
  return modulo(in, value, Value::integer(2)) == 0;
}
bool test_divisibleby(In& in, const Value& value, const Args& args) {
  return modulo(in, value, bind(args, 1, "num")[0]) == 0;
}
template <class Predicate>
bool plain(const Args& args, const Predicate& predicate) {
  expect_none(args);
  return predicate();
}
bool test_defined(In&, const Value& v, const Args& a) {
  return plain(a, [&] { return !v.is_undefined(); });
}
bool test_undefined(In&, const Value& v, const Args& a) {
  return plain(a, [&] { return v.is_undefined(); });
}
bool test_none(In&, const Value& v, const Args& a) {
  return plain(a, [&] { return v.is_none(); });
}
bool test_boolean(In&, const Value& v, const Args& a) {
  return plain(a, [&] { return v.is(Kind::boolean); });
}
bool test_true(In&, const Value& v, const Args& a) {
  return plain(a, [&] { return v.is(Kind::boolean) && v.as_bool(); });
}
bool test_false(In&, const Value& v, const Args& a) {
  return plain(a, [&] { return v.is(Kind::boolean) && !v.as_bool(); });
}
bool test_integer(In&, const Value& v, const Args& a) {
  return plain(a, [&] { return v.is(Kind::integer); });
}
bool test_float(In&, const Value& v, const Args& a) {
  return plain(a, [&] { return v.is(Kind::floating); });
}
bool test_number(In&, const Value& v, const Args& a) {
  return plain(a, [&] { return v.is_number(); });
}
bool test_string(In&, const Value& v, const Args& a) {
  return plain(a, [&] { return v.is_string(); });
}
bool test_mapping(In&, const Value& v, const Args& a) {
  return plain(a, [&] { return v.is(Kind::dict); });
}
bool test_escaped(In&, const Value& v, const Args& a) {
  return plain(a, [&] { return v.is_markup(); });
}

bool test_sequence(In&, const Value& v, const Args& a) {
  return plain(a, [&] {
    return v.is_string() || v.is(Kind::list) || v.is(Kind::tuple) || v.is(Kind::dict) || v.is_undefined() ||
           is_object(v, ObjectType::range);
  });
}

bool test_iterable(In& in, const Value& v, const Args& a) {
  expect_none(a);
  if (is_object(v, ObjectType::loop)) return true;
  try {
    in.iterate(v);
  } catch (const RenderFailure&) {
    return false;
  }
  return true;
}

bool test_callable(In&, const Value& v, const Args& a) {
  expect_none(a);
  if (v.is_undefined()) return true;  // calling it raises, but it can be called
  return is_object(v, ObjectType::function) || is_object(v, ObjectType::method) || is_object(v, ObjectType::macro) ||
         is_object(v, ObjectType::joiner) || is_object(v, ObjectType::loop);
}

bool test_sameas(In&, const Value& v, const Args& a) {
  const Value& other = bind(a, 1, "other")[0];
  if (v.kind() != other.kind()) return false;
  const bool shared = v.is(Kind::list) || v.is(Kind::tuple) || v.is(Kind::dict) || v.is(Kind::object);
  return shared ? v.object() == other.object() : equal(v, other);
}

bool test_in(In& in, const Value& v, const Args& a) {
  return contains(in, bind(a, 1, "seq")[0], v);
}

template <Op op>
bool test_compare(In& in, const Value& v, const Args& a) {
  if (a.positional.size() != 1 || !a.keyword.empty()) raise("takes exactly one argument");
  return compare(in, op, v, a.positional[0]);
}

// str.islower and isupper: some cased code point, and none of the other case.
bool has_case(In& in, const Value& v, bool upper) {
  const std::string text = in.text_of(v);
  in.reserve_text(text.size());
  bool cased = false;
  for (size_t at = 0; at < text.size();) {
    const auto code = static_cast<UChar32>(next_code_point(text, at));
    const bool is_upper = u_hasBinaryProperty(code, UCHAR_UPPERCASE) != 0;
    const bool is_lower = u_hasBinaryProperty(code, UCHAR_LOWERCASE) != 0;
    if ((upper ? is_lower : is_upper) || u_charType(code) == U_TITLECASE_LETTER) return false;
    cased = cased || is_upper || is_lower;
  }
  return cased;
}
bool test_lower(In& in, const Value& v, const Args& a) {
  expect_none(a);
  return has_case(in, v, false);
}
bool test_upper(In& in, const Value& v, const Args& a) {
  expect_none(a);
  return has_case(in, v, true);
}

bool test_filter(In& in, const Value& v, const Args& a) {
  expect_none(a);
  if (!hashable(v)) raise("unhashable type: '{}'", type_name(v));
  return v.is_string() && find_filter(in.text_of(v)) != nullptr;
}
bool test_test(In& in, const Value& v, const Args& a) {
  expect_none(a);
  if (!hashable(v)) raise("unhashable type: '{}'", type_name(v));
  return v.is_string() && find_test(in.text_of(v)) != nullptr;
}

struct Entry {
  std::string_view name;
  TestFunction function;
};

constexpr Entry kTests[] = {
    {"!=", test_compare<Op::not_equal>},
    {"<", test_compare<Op::less>},
    {"<=", test_compare<Op::less_equal>},
    {"==", test_compare<Op::equal>},
    {">", test_compare<Op::greater>},
    {">=", test_compare<Op::greater_equal>},
    {"boolean", test_boolean},
    {"callable", test_callable},
    {"defined", test_defined},
    {"divisibleby", test_divisibleby},
    {"eq", test_compare<Op::equal>},
    {"equalto", test_compare<Op::equal>},
    {"escaped", test_escaped},
    {"even", test_even},
    {"false", test_false},
    {"filter", test_filter},
    {"float", test_float},
    {"ge", test_compare<Op::greater_equal>},
    {"greaterthan", test_compare<Op::greater>},
    {"gt", test_compare<Op::greater>},
    {"in", test_in},
    {"integer", test_integer},
    {"iterable", test_iterable},
    {"le", test_compare<Op::less_equal>},
    {"lessthan", test_compare<Op::less>},
    {"lower", test_lower},
    {"lt", test_compare<Op::less>},
    {"mapping", test_mapping},
    {"ne", test_compare<Op::not_equal>},
    {"none", test_none},
    {"number", test_number},
    {"odd", test_odd},
    {"sameas", test_sameas},
    {"sequence", test_sequence},
    {"string", test_string},
    {"test", test_test},
    {"true", test_true},
    {"undefined", test_undefined},
    {"upper", test_upper},
};

}  // namespace

TestFunction find_test(std::string_view name) {
  const Entry* entry = find_entry(kTests, name);
  return entry == nullptr ? nullptr : entry->function;
}

}  // namespace minfer::chat::jinja
