// Locations and their branches: references are followed, allOf is gathered, anyOf and oneOf multiply. A schema that is
// met again on the way to itself without any content between is an error; met twice side by side it counts once.
#include "engine/grammar/schema/shapes.hpp"

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "engine/grammar/schema/shape_builder.hpp"

namespace minfer::engine::grammar::schema {
namespace {

using chat::Kind;
using chat::Value;

// Keywords that lead to other schemas for the same place, or mean nothing: all others make a schema "plain" content.
constexpr std::array<std::string_view, 6> kCombining = {"$ref", "allOf", "anyOf", "oneOf", "$defs", "definitions"};

constexpr size_t kShapeSteps = 20;
constexpr size_t kCellsAStep = 16;

bool has_own_keywords(const chat::Dict& keywords) {
  return std::any_of(keywords.entries().begin(), keywords.entries().end(), [](const auto& entry) {
    return std::find(kCombining.begin(), kCombining.end(), entry.first.as_string()) == kCombining.end();
  });
}

}  // namespace

bool Shapes::possible(LocationId location) const {
  return std::any_of(locations[location].begin(), locations[location].end(),
                     [this](ShapeId id) { return shapes[id].possible; });
}

Shapes make_shapes(const Value& schema, const SchemaOptions& options) {
  return ShapeBuilder(schema, options).build();
}

Shapes ShapeBuilder::build() {
  out_.root = location({{store_.root()}});
  while (!todo_.empty()) {
    const auto [location, members] = std::move(todo_.front());
    todo_.pop_front();
    Branch branch;
    for (const Member& member : members) {
      branch.todo.push_back({member, {}});
    }
    expand(location, std::move(branch));
  }
  return std::move(out_);
}

void ShapeBuilder::step(size_t count) {
  steps_ += count;
  if (steps_ > kMaxSteps) {
    fail(ErrorCode::invalid_input,
         "JSON schema: its anyOf, oneOf, allOf and references multiply to more than {} steps; make it smaller or "
         "flatter",
         kMaxSteps);
  }
}

// An automaton counts by its size.
void ShapeBuilder::charge(const Dfa& dfa) {
  step(1 + dfa.states.size() * dfa.symbols.size() / kCellsAStep);
}

LocationId ShapeBuilder::location(const Members& members) {
  Members key;
  for (const Member& member : members) {
    if (member.id == kNothing) {
      key = {member};
      break;
    }
    if (member.id != kAnything) {
      key.push_back(member);
    }
  }
  const Members ordered = key;
  std::sort(key.begin(), key.end());
  key.erase(std::unique(key.begin(), key.end()), key.end());
  const auto [entry, is_new] = known_locations_.try_emplace(key, static_cast<LocationId>(out_.locations.size()));
  if (is_new) {
    step();
    out_.locations.emplace_back();
    todo_.push_back({entry->second, ordered});
  }
  return entry->second;
}

void ShapeBuilder::expand(LocationId location, Branch branch) {
  step();
  while (!branch.todo.empty()) {
    if (!expand_member(branch)) {
      return;
    }
  }
  if (!branch.choices.empty()) {
    take_choice(location, std::move(branch));
    return;
  }
  const ShapeId id = shape(branch.plain);
  std::vector<ShapeId>& shapes = out_.locations[location];
  if (std::find(shapes.begin(), shapes.end(), id) == shapes.end()) {
    if (shapes.size() >= kMaxAlternatives) {
      fail(ErrorCode::invalid_input,
           "JSON schema: {}: more than {} alternatives in one place; make it smaller or flatter",
           out_.shapes[id].pointer, kMaxAlternatives);
    }
    shapes.push_back(id);
  }
}

// False: nothing is valid.
bool ShapeBuilder::expand_member(Branch& branch) {
  auto [member, chain] = std::move(branch.todo.front());
  branch.todo.pop_front();
  const SchemaId id = member.id;
  if (id == kNothing) {
    return false;
  }
  if (id == kAnything) {
    return true;
  }
  step();
  const chat::Dict& keywords = store_.keywords(id);
  if (member.own_alone) {
    if (std::find(branch.plain.begin(), branch.plain.end(), id) == branch.plain.end() && has_own_keywords(keywords)) {
      branch.plain.push_back(id);
    }
    return true;
  }
  if (std::find(chain.begin(), chain.end(), id) != chain.end()) {
    fail(
        ErrorCode::invalid_input,
        "JSON schema: {} refers to itself without any content between; a property or an element is expected on the way",
        store_.pointer(id));
  }
  if (!branch.expanded.insert(id).second) {
    return true;
  }
  if (has_own_keywords(keywords) && std::find(branch.plain.begin(), branch.plain.end(), id) == branch.plain.end()) {
    branch.plain.push_back(id);
  }
  chain.push_back(id);
  if (const Value* all = typed(id, "allOf", Kind::list, "a list of schemas")) {
    for (size_t i = all->items().size(); i-- > 0;) {
      branch.todo.push_front({{store_.child(id, "allOf", std::to_string(i), all->items()[i])}, chain});
    }
  }
  if (keywords.find("$ref") != nullptr) {
    branch.todo.push_front({{store_.resolve(id)}, chain});
  }
  for (const std::string_view keyword : {std::string_view("anyOf"), std::string_view("oneOf")}) {
    if (keywords.find(keyword) != nullptr) {
      branch.choices.push_back({id, keyword});
      branch.choice_chains.push_back(chain);
    }
  }
  return true;
}

void ShapeBuilder::take_choice(LocationId location, Branch branch) {
  const auto [id, keyword] = branch.choices.back();
  const std::vector<SchemaId> chain = branch.choice_chains.back();
  branch.choices.pop_back();
  branch.choice_chains.pop_back();
  const std::vector<Value>& ways = typed(id, keyword, Kind::list, "a list of schemas")->items();
  if (ways.empty()) {
    wrong(id, keyword, "a list of at least one schema");
  }
  for (size_t i = 0; i < ways.size(); ++i) {
    Branch one = branch;
    one.todo.push_back({{store_.child(id, keyword, std::to_string(i), ways[i])}, chain});
    expand(location, std::move(one));
  }
  if (keyword == "oneOf") {
    require_disjoint(id, ways);
  }
}

void ShapeBuilder::require_disjoint(SchemaId schema, const std::vector<Value>& branches) {
  if (!checked_choices_.insert(schema).second) {
    return;
  }
  std::vector<LocationId> locations;
  for (size_t i = 0; i < branches.size(); ++i) {
    const SchemaId branch = store_.child(schema, "oneOf", std::to_string(i), branches[i]);
    locations.push_back(location({{schema, true}, {branch}}));
  }
  for (size_t i = 0; i < branches.size(); ++i) {
    for (size_t j = i + 1; j < branches.size(); ++j) {
      step();
      out_.disjoint.push_back({store_.pointer(schema, "oneOf"), i, j, locations[i], locations[j]});
    }
  }
}

ShapeId ShapeBuilder::shape(const std::vector<SchemaId>& plain) {
  std::vector<SchemaId> key = plain;
  std::sort(key.begin(), key.end());
  const auto [entry, is_new] = known_shapes_.try_emplace(key, static_cast<ShapeId>(out_.shapes.size()));
  const ShapeId id = entry->second;
  if (!is_new) {
    return id;
  }
  if (out_.shapes.size() >= kMaxShapes) {
    fail(ErrorCode::invalid_input, "JSON schema: more than {} combinations of its schemas; make it smaller or flatter",
         kMaxShapes);
  }
  step(kShapeSteps);
  out_.shapes.emplace_back();
  Shape shape;
  shape.pointer = plain.empty() ? "#" : store_.pointer(plain.front());
  for (const SchemaId member : plain) {
    step();
    add_types(shape, member);
    add_values(shape, member);
    add_number(shape, member);
    add_string_limits(shape, member);
    add_sizes(shape, member);
  }
  if (!options_.open) {
    const auto says = [&](std::string_view keyword) {
      return std::any_of(plain.begin(), plain.end(),
                         [&](SchemaId member) { return store_.find(member, keyword) != nullptr; });
    };
    if (!says("type") && !shape.values) {
      const uint8_t array = says("items") || says("prefixItems") ? static_cast<uint8_t>(kArray) : shape.types;
      shape.types = says("properties") ? static_cast<uint8_t>(kObject) : array;
    }
  }
  join_array(shape, plain);
  join_object(shape, plain);
  finish_scalars(shape);
  out_.shapes[id] = std::move(shape);
  return id;
}

}  // namespace minfer::engine::grammar::schema
