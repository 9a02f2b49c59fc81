// A schema in a form that is easy to write as a grammar: at each place of a document (a location) any one of some
// shapes, each a plain conjunction of what types, values, sizes and children may be. References, allOf, anyOf and oneOf
// are gone: allOf and references add their keywords to a shape, anyOf and oneOf make one a branch. Locations and shapes
// are found by the set of schemas that they come from, so that recursion ends; children are locations. One thread; a
// ShapeBuilder serves one schema. Limits: kMaxShapes, kMaxAlternatives a location, kMaxSteps in all (a shape and an
// automaton count as many).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/grammar/json_schema.hpp"
#include "engine/grammar/schema/numbers.hpp"
#include "engine/grammar/schema/regex.hpp"
#include "engine/grammar/schema/schema_store.hpp"
#include "engine/grammar/schema/strings.hpp"

namespace minfer::engine::grammar::schema {

inline constexpr size_t kMaxShapes = 20'000;
inline constexpr size_t kMaxAlternatives = 4096;
inline constexpr size_t kMaxSteps = 200'000;
inline constexpr size_t kMaxNamePatterns = 4;  // patternProperties that meet in one object

using LocationId = uint32_t;
using ShapeId = uint32_t;

// Bits of a set of types; a number is either whole or not.
enum Type : uint8_t {
  kNull = 1,
  kBoolean = 2,
  kInteger = 4,
  kFraction = 8,
  kString = 16,
  kArray = 32,
  kObject = 64,
  kAllTypes = 127
};

struct ArrayLimits {
  std::vector<LocationId> prefix;
  std::optional<LocationId> rest;  // none: no more elements
  uint64_t least = 0;
  std::optional<uint64_t> most;
};

struct ObjectLimits {
  struct Property {
    std::string name;
    LocationId value;
    bool required;
  };
  // Properties of other names.
  struct Extra {
    std::optional<Dfa> names;  // none: any name
    RegexId regex;             // of the patterns among that, for a name that is not listed
    LocationId value;
  };
  std::vector<Property> properties;  // in the schema's order
  std::vector<Extra> extras;
  uint64_t least = 0;
  std::optional<uint64_t> most;
};

struct Shape {
  std::string pointer;  // of the schema, for messages
  uint8_t types = kAllTypes;
  std::optional<std::vector<chat::Value>> values;  // of enum and const: only these
  NumberLimits number;
  std::shared_ptr<const Dfa> number_dfa;  // of a number with limits; equal limits share it
  StringLimits string;
  std::shared_ptr<const StringPlan> string_plan;  // of a string; likewise
  ArrayLimits array;
  ObjectLimits object;
  bool possible = false;  // some finite document is of this shape (find_possible)
};

// Two branches of a oneOf, which must not have a document in common.
struct Disjoint {
  std::string pointer;
  size_t first;
  size_t second;
  LocationId first_location;
  LocationId second_location;
};

struct Shapes {
  std::vector<std::vector<ShapeId>> locations;  // the shapes of each; none: nothing is valid there
  std::vector<Shape> shapes;
  std::vector<Disjoint> disjoint;
  LocationId root = 0;
  RegexPool pool;

  bool possible(LocationId location) const;
};

// Limits of numbers and of strings as text: equal for equal limits.
std::string key_of(const NumberLimits& limits, bool integer);
std::string key_of(const StringLimits& limits);

// Errors: see add_json_schema.
Shapes make_shapes(const chat::Value& schema, const SchemaOptions& options);

// Leaves of `values` those that the other limits of their shape allow, and marks the possible shapes.
void find_possible(Shapes& shapes);
// Errors: unsupported where two branches of a oneOf can't be shown to have no document in common.
void check_disjoint(const Shapes& shapes);

}  // namespace minfer::engine::grammar::schema
