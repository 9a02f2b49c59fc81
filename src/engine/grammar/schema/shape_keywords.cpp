// Keywords of types, values, numbers, strings and sizes: read, checked and joined with those of the shape's other
// schemas.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/error.hpp"
#include "engine/grammar/schema/json_values.hpp"
#include "engine/grammar/schema/shape_builder.hpp"

namespace minfer::engine::grammar::schema {
namespace {

using chat::Kind;
using chat::Value;

struct TypeName {
  std::string_view name;
  uint8_t types;
};
constexpr std::array<TypeName, 7> kTypeNames = {{{"null", kNull},
                                                 {"boolean", kBoolean},
                                                 {"integer", kInteger},
                                                 {"number", kInteger | kFraction},
                                                 {"string", kString},
                                                 {"array", kArray},
                                                 {"object", kObject}}};

constexpr size_t kMaxValues = 50'000;  // of one enum

bool is_number(const Value& value) {
  return value.is(Kind::integer) || value.is(Kind::floating);
}

}  // namespace

void ShapeBuilder::wrong(SchemaId id, std::string_view keyword, std::string_view expected) const {
  fail(ErrorCode::invalid_input, "JSON schema: {}: {} is expected", store_.pointer(id, keyword), expected);
}

const Value* ShapeBuilder::typed(SchemaId id, std::string_view keyword, Kind kind, std::string_view expected) const {
  const Value* value = store_.find(id, keyword);
  if (value != nullptr && !value->is(kind)) {
    wrong(id, keyword, expected);
  }
  return value;
}

uint64_t ShapeBuilder::count(SchemaId id, std::string_view keyword, const Value& value) const {
  const double number = is_number(value) ? value.as_double() : -1;
  if (!is_number(value) || !is_whole_number(value) || number < 0 || number > 1e15) {
    wrong(id, keyword, "a whole number from 0 to 10^15");
  }
  return static_cast<uint64_t>(number);
}

void ShapeBuilder::add_types(Shape& shape, SchemaId id) {
  const Value* type = store_.find(id, "type");
  const Value* nullable = typed(id, "nullable", Kind::boolean, "true or false");
  if (type == nullptr) {
    return;
  }
  constexpr std::string_view kExpected =
      "one of null, boolean, integer, number, string, array and object, or a list of them";
  const std::vector<Value> names = type->is(Kind::list) ? type->items() : std::vector<Value>{*type};
  if (names.empty()) {
    wrong(id, "type", kExpected);
  }
  uint8_t types = nullable != nullptr && nullable->as_bool() ? kNull : 0;
  for (const Value& name : names) {
    const auto known = std::find_if(kTypeNames.begin(), kTypeNames.end(), [&](const TypeName& one) {
      return name.is_string() && one.name == name.as_string();
    });
    if (known == kTypeNames.end()) {
      wrong(id, "type", kExpected);
    }
    types |= known->types;
  }
  shape.types &= types;
}

void ShapeBuilder::add_values(Shape& shape, SchemaId id) {
  const auto restrict = [&](std::vector<Value> values) {
    if (!shape.values) {
      shape.values = std::move(values);
      return;
    }
    std::erase_if(*shape.values, [&](const Value& one) {
      return std::none_of(values.begin(), values.end(), [&](const Value& other) { return json_equal(one, other); });
    });
  };
  if (const Value* values = typed(id, "enum", Kind::list, "a list of values")) {
    if (values->items().size() > kMaxValues) {
      fail(ErrorCode::invalid_input, "JSON schema: {}: {} values; the limit is {}", store_.pointer(id, "enum"),
           values->items().size(), kMaxValues);
    }
    restrict(values->items());
  }
  if (const Value* value = store_.find(id, "const")) {
    restrict({*value});
  }
}

void ShapeBuilder::add_number(Shape& shape, SchemaId id) {
  struct Keyword {
    std::string_view name;
    bool is_least;
    bool exclusive;
  };
  constexpr std::array<Keyword, 4> kBounds = {{{"minimum", true, false},
                                               {"exclusiveMinimum", true, true},
                                               {"maximum", false, false},
                                               {"exclusiveMaximum", false, true}}};
  for (const Keyword& keyword : kBounds) {
    if (const Value* value = store_.find(id, keyword.name)) {
      if (!is_number(*value)) {
        wrong(id, keyword.name, "a number (draft 4's true is a number of its own since draft 6)");
      }
      (keyword.is_least ? raise_least : lower_most)(shape.number, {*value, keyword.exclusive});
    }
  }
  const Value* multiple = store_.find(id, "multipleOf");
  if (multiple == nullptr) {
    return;
  }
  if (!is_number(*multiple) || multiple->as_double() <= 0) {
    wrong(id, "multipleOf", "a number above 0");
  }
  if (!is_whole_number(*multiple) || multiple->as_double() > 1e15) {
    fail(ErrorCode::unsupported,
         "JSON schema: {}: a fraction, of which validators find multiples by binary arithmetic that is not exact, or "
         "above 10^15; give "
         "a whole number, or a pattern of a string",
         store_.pointer(id, "multipleOf"));
  }
  const auto divisor = static_cast<int64_t>(multiple->as_double());
  const int64_t before = shape.number.multiple_of.value_or(1);
  const long double both =
      static_cast<long double>(divisor) / static_cast<long double>(std::gcd(divisor, before)) * before;
  if (both > 1e15L) {
    fail(ErrorCode::unsupported, "JSON schema: {}: together with another multipleOf above 10^15; give one of them",
         store_.pointer(id, "multipleOf"));
  }
  shape.number.multiple_of = std::lcm(divisor, before);
}

void ShapeBuilder::add_string_limits(Shape& shape, SchemaId id) {
  StringLimits& limits = shape.string;
  if (const Value* value = store_.find(id, "minLength")) {
    limits.least = std::max(limits.least, count(id, "minLength", *value));
  }
  if (const Value* value = store_.find(id, "maxLength")) {
    const uint64_t most = count(id, "maxLength", *value);
    limits.most = std::min(limits.most.value_or(most), most);
  }
  const auto add = [&](RegexId regex) {
    if (std::find(limits.patterns.begin(), limits.patterns.end(), regex) == limits.patterns.end()) {
      limits.patterns.push_back(regex);
    }
  };
  if (const Value* value = typed(id, "pattern", Kind::string, "a regular expression")) {
    add(parse_pattern(out_.pool, value->as_string(), false, "JSON schema: " + store_.pointer(id, "pattern")));
  }
  if (const Value* value = typed(id, "format", Kind::string, "the name of a format")) {
    add(format_regex(out_.pool, value->as_string(), store_.pointer(id, "format")));
  }
}

void ShapeBuilder::add_sizes(Shape& shape, SchemaId id) {
  const auto raise = [&](std::string_view keyword, uint64_t& least) {
    if (const Value* value = store_.find(id, keyword)) {
      least = std::max(least, count(id, keyword, *value));
    }
  };
  const auto lower = [&](std::string_view keyword, std::optional<uint64_t>& most) {
    if (const Value* value = store_.find(id, keyword)) {
      const uint64_t size = count(id, keyword, *value);
      most = std::min(most.value_or(size), size);
    }
  };
  raise("minItems", shape.array.least);
  lower("maxItems", shape.array.most);
  raise("minProperties", shape.object.least);
  lower("maxProperties", shape.object.most);
}

void ShapeBuilder::finish_scalars(Shape& shape) {
  // Values that are listed are checked one by one: no automaton is needed.
  if (shape.values) {
    return;
  }
  const NumberLimits& number = shape.number;
  if ((shape.types & (kInteger | kFraction)) != 0 && (number.least || number.most || number.multiple_of)) {
    const bool integer = (shape.types & kFraction) == 0;
    std::shared_ptr<const Dfa>& dfa = numbers_[key_of(number, integer)];
    if (dfa == nullptr) {
      dfa = std::make_shared<const Dfa>(
          apart(number, number) ? Dfa{} : number_dfa(number, integer, "JSON schema: " + shape.pointer));
      charge(*dfa);
    }
    shape.number_dfa = dfa;
  }
  if ((shape.types & kString) != 0) {
    std::shared_ptr<const StringPlan>& plan = strings_[key_of(shape.string)];
    if (plan == nullptr) {
      plan = std::make_shared<const StringPlan>(plan_string(out_.pool, shape.string, shape.pointer));
      if (plan->dfa) {
        charge(*plan->dfa);
      }
    }
    shape.string_plan = plan;
  }
}

std::string key_of(const NumberLimits& limits, bool integer) {
  const auto bound_key = [](const std::optional<Bound>& bound) {
    return bound ? json_scalar(bound->value) + (bound->exclusive ? "!" : "") : "none";
  };
  return fmt::format("number {} {} {} {}", integer, bound_key(limits.least), bound_key(limits.most),
                     limits.multiple_of.value_or(0));
}

std::string key_of(const StringLimits& limits) {
  std::string key = fmt::format("string {} {}", limits.least, limits.most ? fmt::format("{}", *limits.most) : "");
  for (const RegexId pattern : limits.patterns) {
    key += fmt::format(" {}", pattern);
  }
  return key;
}

}  // namespace minfer::engine::grammar::schema
