// What can be said of shapes once all are known: which listed values the other keywords leave, which shapes some finite
// document has (a shape that needs itself has none), and that the branches of a oneOf have no document in common.
#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "engine/grammar/schema/json_values.hpp"
#include "engine/grammar/schema/shapes.hpp"

namespace minfer::engine::grammar::schema {
namespace {

using chat::Kind;
using chat::Value;

constexpr size_t kMaxChecks = 2'000'000;

uint8_t type_of(const Value& value) {
  switch (value.kind()) {
    case Kind::boolean:
      return kBoolean;
    case Kind::integer:
    case Kind::floating:
      return is_whole_number(value) ? kInteger : kFraction;
    case Kind::string:
      return kString;
    case Kind::list:
      return kArray;
    case Kind::dict:
      return kObject;
    default:
      return kNull;
  }
}

// Whether one value is valid at a location or of a shape.
class Validator {
 public:
  explicit Validator(Shapes& shapes) : shapes_(shapes) {}

  bool valid(const Value& value, LocationId location) {
    return std::any_of(shapes_.locations[location].begin(), shapes_.locations[location].end(),
                       [&](ShapeId id) { return is_of(value, shapes_.shapes[id], true); });
  }

  bool is_of(const Value& value, const Shape& shape, bool check_values) {
    if (++checks_ > kMaxChecks) {
      fail(ErrorCode::invalid_input,
           "JSON schema: its enum and const take more than {} checks against its other keywords; make it smaller",
           kMaxChecks);
    }
    const uint8_t type = type_of(value);
    if ((shape.types & type) == 0) {
      return false;
    }
    if (check_values && shape.values && std::none_of(shape.values->begin(), shape.values->end(), [&](const Value& one) {
          return json_equal(one, value);
        })) {
      return false;
    }
    switch (type) {
      case kInteger:
      case kFraction:
        return within(shape.number, value);
      case kString:
        return string_fits(value.as_string(), shape.string);
      case kArray:
        return array_fits(value.items(), shape.array);
      case kObject:
        return object_fits(value.as_dict(), shape.object);
      default:
        return true;
    }
  }

 private:
  bool string_fits(const std::string& text, const StringLimits& limits) {
    const uint64_t length = code_points(text);
    return length >= limits.least && (!limits.most || length <= *limits.most) &&
           std::all_of(limits.patterns.begin(), limits.patterns.end(), [&](RegexId pattern) {
             return shapes_.pool.matches(found_inside(shapes_.pool, pattern), text);
           });
  }

  bool array_fits(const std::vector<Value>& items, const ArrayLimits& limits) {
    if (items.size() < limits.least || (limits.most && items.size() > *limits.most)) {
      return false;
    }
    for (size_t i = 0; i < items.size(); ++i) {
      const std::optional<LocationId> place = i < limits.prefix.size() ? limits.prefix[i] : limits.rest;
      if (!place || !valid(items[i], *place)) {
        return false;
      }
    }
    return true;
  }

  bool object_fits(const chat::Dict& object, const ObjectLimits& limits) {
    if (object.size() < limits.least || (limits.most && object.size() > *limits.most)) {
      return false;
    }
    size_t listed = 0;
    for (const ObjectLimits::Property& property : limits.properties) {
      const Value* value = object.find(property.name);
      if (value == nullptr ? property.required : !valid(*value, property.value)) {
        return false;
      }
      listed += value == nullptr ? 0 : 1;
    }
    return listed == object.size() ||
           std::all_of(object.entries().begin(), object.entries().end(),
                       [&](const auto& entry) { return extra_fits(entry.first.as_string(), entry.second, limits); });
  }

  bool extra_fits(const std::string& name, const Value& value, const ObjectLimits& limits) {
    return std::any_of(limits.properties.begin(), limits.properties.end(),
                       [&](const auto& one) { return one.name == name; }) ||
           std::any_of(limits.extras.begin(), limits.extras.end(), [&](const ObjectLimits::Extra& extra) {
             return shapes_.pool.matches(extra.regex, name) && valid(value, extra.value);
           });
  }

  Shapes& shapes_;
  size_t checks_ = 0;
};

// The types of a shape of which there is a document, as far as is known.
uint8_t possible_types(const Shapes& shapes, const Shape& shape) {
  uint8_t types = shape.types;
  if (shape.number_dfa && shape.number_dfa->states.empty()) {
    types &= ~(kInteger | kFraction);
  }
  if (shape.string_plan && shape.string_plan->never) {
    types &= ~kString;
  }
  const ArrayLimits& array = shape.array;
  bool elements = !array.most || array.least <= *array.most;
  for (size_t i = 0; i < std::min<uint64_t>(array.least, array.prefix.size()); ++i) {
    elements = elements && shapes.possible(array.prefix[i]);
  }
  if (array.least > array.prefix.size()) {
    elements = elements && array.rest && shapes.possible(*array.rest);
  }
  if (!elements) {
    types &= ~kArray;
  }
  const ObjectLimits& object = shape.object;
  uint64_t required = 0;
  uint64_t all = 0;
  bool properties = true;
  for (const ObjectLimits::Property& property : object.properties) {
    const bool possible = shapes.possible(property.value);
    required += property.required ? 1 : 0;
    all += possible ? 1 : 0;
    properties = properties && (possible || !property.required);
  }
  const bool extra = std::any_of(object.extras.begin(), object.extras.end(),
                                 [&](const ObjectLimits::Extra& one) { return shapes.possible(one.value); });
  if (!properties || (object.most && (required > *object.most || object.least > *object.most)) ||
      (!extra && all < object.least)) {
    types &= ~kObject;
  }
  return types;
}

// The locations of a shape's children.
std::vector<LocationId> children_of(const Shape& shape) {
  std::vector<LocationId> children = shape.array.prefix;
  if (shape.array.rest) {
    children.push_back(*shape.array.rest);
  }
  for (const ObjectLimits::Property& property : shape.object.properties) {
    children.push_back(property.value);
  }
  for (const ObjectLimits::Extra& extra : shape.object.extras) {
    children.push_back(extra.value);
  }
  return children;
}

// Marks shapes as possible from those without needs upwards: each is looked at again when a child became possible.
void spread_possible(Shapes& shapes) {
  std::vector<std::vector<ShapeId>> users(shapes.locations.size());
  std::vector<std::vector<LocationId>> places(shapes.shapes.size());
  std::vector<ShapeId> todo;
  std::vector<bool> queued(shapes.shapes.size(), true);
  for (ShapeId id = 0; id < shapes.shapes.size(); ++id) {
    todo.push_back(id);
    for (const LocationId child : children_of(shapes.shapes[id])) {
      users[child].push_back(id);
    }
  }
  for (LocationId place = 0; place < shapes.locations.size(); ++place) {
    for (const ShapeId id : shapes.locations[place]) {
      places[id].push_back(place);
    }
  }
  while (!todo.empty()) {
    const ShapeId id = todo.back();
    todo.pop_back();
    queued[id] = false;
    Shape& shape = shapes.shapes[id];
    const bool listed = shape.values && shape.possible;
    if (!listed && (shape.possible || shape.values || possible_types(shapes, shape) == 0)) {
      continue;
    }
    shape.possible = true;
    for (const LocationId place : places[id]) {
      for (const ShapeId user : users[place]) {
        if (!shapes.shapes[user].possible && !queued[user]) {
          queued[user] = true;
          todo.push_back(user);
        }
      }
    }
  }
}

// Whether no document is of both: decided by types, values, sizes and required properties.
class DisjointCheck {
 public:
  explicit DisjointCheck(const Shapes& shapes) : shapes_(shapes), copy_(shapes), validator_(copy_) {}

  bool locations(LocationId left, LocationId right) {
    const auto [entry, is_new] = known_.try_emplace({std::min(left, right), std::max(left, right)}, false);
    if (!is_new) {
      return entry->second;  // in progress: not shown
    }
    if (known_.size() > kMaxChecks / 10) {
      fail(ErrorCode::invalid_input,
           "JSON schema: its oneOf takes too many comparisons of branches; make it smaller, or use anyOf");
    }
    for (const ShapeId a : shapes_.locations[left]) {
      for (const ShapeId b : shapes_.locations[right]) {
        if (!shapes_pair(shapes_.shapes[a], shapes_.shapes[b])) {
          return false;
        }
      }
    }
    return known_[{std::min(left, right), std::max(left, right)}] = true;
  }

 private:
  bool shapes_pair(const Shape& a, const Shape& b) {
    if (!a.possible || !b.possible) {
      return true;
    }
    if (a.values || b.values) {
      const Shape& listed = a.values ? a : b;
      const Shape& other = a.values ? b : a;
      return std::none_of(listed.values->begin(), listed.values->end(),
                          [&](const Value& value) { return validator_.is_of(value, other, true); });
    }
    const uint8_t both = a.types & b.types;
    const bool number = (both & (kInteger | kFraction)) != 0 && !apart(a.number, b.number);
    const bool string =
        (both & kString) != 0 && !sizes_apart(a.string.least, a.string.most, b.string.least, b.string.most);
    const bool array = (both & kArray) != 0 && !sizes_apart(a.array.least, a.array.most, b.array.least, b.array.most);
    const bool object = (both & kObject) != 0 && !objects(a.object, b.object);
    return (both & (kNull | kBoolean)) == 0 && !number && !string && !array && !object;
  }

  static bool sizes_apart(uint64_t a_least, std::optional<uint64_t> a_most, uint64_t b_least,
                          std::optional<uint64_t> b_most) {
    return (a_most && *a_most < b_least) || (b_most && *b_most < a_least);
  }

  bool objects(const ObjectLimits& a, const ObjectLimits& b) {
    return sizes_apart(a.least, a.most, b.least, b.most) || told_by_property(a, b) || told_by_property(b, a);
  }

  // A property that `a` requires, and of which `b` has no or only other values.
  bool told_by_property(const ObjectLimits& a, const ObjectLimits& b) {
    for (const ObjectLimits::Property& property : a.properties) {
      if (!property.required) {
        continue;
      }
      const auto other = std::find_if(b.properties.begin(), b.properties.end(),
                                      [&](const auto& one) { return one.name == property.name; });
      if (other != b.properties.end()) {
        if (!shapes_.possible(other->value) || locations(property.value, other->value)) {
          return true;
        }
      } else if (std::none_of(b.extras.begin(), b.extras.end(), [&](const ObjectLimits::Extra& extra) {
                   return copy_.pool.matches(extra.regex, property.name) && !locations(property.value, extra.value);
                 })) {
        return true;
      }
    }
    return false;
  }

  const Shapes& shapes_;
  Shapes copy_;  // the validator's expressions grow
  Validator validator_;
  std::map<std::pair<LocationId, LocationId>, bool> known_;
};

}  // namespace

void find_possible(Shapes& shapes) {
  Validator validator(shapes);
  for (Shape& shape : shapes.shapes) {
    if (shape.values) {
      std::vector<Value> kept;
      for (const Value& value : *shape.values) {
        if (validator.is_of(value, shape, false)) {
          kept.push_back(value);
        }
      }
      shape.values = std::move(kept);
      shape.possible = !shape.values->empty();
    }
  }
  spread_possible(shapes);
  for (Shape& shape : shapes.shapes) {
    if (!shape.values) {
      shape.types = possible_types(shapes, shape);
    }
  }
}

void check_disjoint(const Shapes& shapes) {
  if (shapes.disjoint.empty()) {
    return;
  }
  DisjointCheck check_pairs(shapes);
  for (const Disjoint& pair : shapes.disjoint) {
    if (!check_pairs.locations(pair.first_location, pair.second_location)) {
      fail(ErrorCode::unsupported,
           "JSON schema: {}: no document may be of two branches, which can't be shown for branches {} and {} (by type, "
           "const, enum, a "
           "required property of such, or sizes); use anyOf",
           pair.pointer, pair.first, pair.second);
    }
  }
}

}  // namespace minfer::engine::grammar::schema
