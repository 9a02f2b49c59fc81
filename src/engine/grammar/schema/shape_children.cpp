// Arrays and objects of a shape: what each of its schemas says of an element or a property, joined place by place. A
// property's schemas are, of each object schema, the one listed under its name and those of the patterns that match it,
// else additionalProperties. Names that are not listed fall into classes by the patterns that they match.
#include <algorithm>

#include "base/error.hpp"
#include "base/utf8.hpp"
#include "engine/grammar/code_ranges.hpp"
#include "engine/grammar/schema/shape_builder.hpp"

namespace minfer::engine::grammar::schema {
namespace {

using chat::Kind;
using chat::Value;

// Any text but `names`: their prefix tree, and one state for all texts that have left it.
Dfa other_than(const std::vector<ObjectLimits::Property>& names, std::string_view where) {
  std::map<uint32_t, size_t> symbol_of;
  std::vector<std::vector<uint32_t>> texts;
  size_t most_states = 2;
  for (const ObjectLimits::Property& property : names) {
    std::vector<uint32_t>& codes = texts.emplace_back();
    for (size_t i = 0; i < property.name.size();) {
      const Utf8Step step = utf8_step(property.name, i);
      codes.push_back(step.character);
      symbol_of.try_emplace(step.character, symbol_of.size());
      i += step.size_bytes;
    }
    most_states += codes.size();
  }
  if (most_states * (symbol_of.size() + 1) > kMaxDfaCells) {
    fail(ErrorCode::invalid_input,
         "JSON schema: {}: the names of its {} properties are too long for an automaton of all others; give "
         "additionalProperties: false",
         where, names.size());
  }
  Dfa dfa;
  std::vector<CodeRange> all;
  dfa.symbols.resize(symbol_of.size());
  for (const auto& [code, symbol] : symbol_of) {
    dfa.symbols[symbol] = {{code, code}};
    all.push_back({code, code});
  }
  dfa.symbols.push_back(inverted(normalized(std::move(all))));
  constexpr int32_t kOther = 1;
  dfa.states.assign(2, {true, std::vector<int32_t>(dfa.symbols.size(), kOther)});
  for (const std::vector<uint32_t>& codes : texts) {
    size_t state = 0;
    for (const uint32_t code : codes) {
      const size_t symbol = symbol_of.at(code);
      if (dfa.states[state].next[symbol] == kOther) {
        dfa.states[state].next[symbol] = static_cast<int32_t>(dfa.states.size());
        dfa.states.push_back({true, std::vector<int32_t>(dfa.symbols.size(), kOther)});
      }
      state = static_cast<size_t>(dfa.states[state].next[symbol]);
    }
    dfa.states[state].accepts = false;
  }
  return dfa;
}

}  // namespace

void ShapeBuilder::join_array(Shape& shape, const std::vector<SchemaId>& plain) {
  ArrayLimits& array = shape.array;
  if ((shape.types & kArray) == 0) {
    return;
  }
  const auto prefix_of = [&](SchemaId id) -> const std::vector<Value>* {
    const Value* prefix = typed(id, "prefixItems", Kind::list, "a list of schemas");
    return prefix == nullptr ? nullptr : &prefix->items();
  };
  size_t longest = 0;
  for (const SchemaId id : plain) {
    if (const std::vector<Value>* prefix = prefix_of(id)) {
      longest = std::max(longest, prefix->size());
    }
    if (const Value* items = store_.find(id, "items"); items != nullptr && items->is(Kind::list)) {
      wrong(id, "items", "one schema (a list of them is prefixItems since draft 2020-12)");
    }
  }
  for (size_t i = 0; i <= longest; ++i) {
    Members members;
    for (const SchemaId id : plain) {
      const std::vector<Value>* prefix = prefix_of(id);
      if (prefix != nullptr && i < prefix->size()) {
        members.push_back({store_.child(id, "prefixItems", std::to_string(i), (*prefix)[i])});
      } else if (const Value* items = store_.find(id, "items")) {
        members.push_back({store_.child(id, "items", "", *items)});
      }
    }
    const bool never =
        std::any_of(members.begin(), members.end(), [](const Member& one) { return one.id == kNothing; });
    if (never) {
      array.most = std::min(array.most.value_or(i), static_cast<uint64_t>(i));
      return;
    }
    (i < longest ? array.prefix.emplace_back() : array.rest.emplace()) = location(members);
  }
}

ShapeBuilder::Group ShapeBuilder::group_of(SchemaId id) {
  Group group{.id = id};
  if (const Value* properties = typed(id, "properties", Kind::dict, "an object of schemas")) {
    group.properties = &properties->as_dict();
  }
  if (const Value* patterns = typed(id, "patternProperties", Kind::dict, "an object of schemas")) {
    for (const auto& [pattern, value] : patterns->as_dict().entries()) {
      const std::string where = "JSON schema: " + store_.pointer(id, "patternProperties");
      const RegexId surely = parse_pattern(out_.pool, pattern.as_string(), false, where);
      const RegexId maybe = parse_pattern(out_.pool, pattern.as_string(), true, where);
      group.patterns.push_back({found_inside(out_.pool, surely),
                                found_inside(out_.pool, maybe),
                                {store_.child(id, "patternProperties", pattern.as_string(), value)}});
    }
  }
  if (const Value* others = store_.find(id, "additionalProperties")) {
    group.others = Member{store_.child(id, "additionalProperties", "", *others)};
    group.open = false;
  }
  return group;
}

// The schemas of a property that some group lists or requires.
Members ShapeBuilder::of_name(const std::vector<Group>& groups, const std::string& name) {
  Members members;
  for (const Group& group : groups) {
    const Value* listed = group.properties == nullptr ? nullptr : group.properties->find(name);
    bool covered = listed != nullptr;
    if (listed != nullptr) {
      members.push_back({store_.child(group.id, "properties", name, *listed)});
    }
    for (const NamePattern& pattern : group.patterns) {
      if (out_.pool.matches(pattern.maybe, name)) {
        members.push_back(pattern.value);
        covered = covered || out_.pool.matches(pattern.surely, name);
      }
    }
    if (!covered && group.others) {
      members.push_back(*group.others);
    }
  }
  return members;
}

void ShapeBuilder::join_object(Shape& shape, const std::vector<SchemaId>& plain) {
  if ((shape.types & kObject) == 0) {
    return;
  }
  std::vector<Group> groups;
  std::vector<std::string> names;
  std::set<std::string> listed;
  std::set<std::string> required;
  for (const SchemaId id : plain) {
    const Group& group = groups.emplace_back(group_of(id));
    if (group.properties != nullptr) {
      for (const auto& [name, value] : group.properties->entries()) {
        if (listed.insert(name.as_string()).second) {
          names.push_back(name.as_string());
        }
      }
    }
  }
  for (const SchemaId id : plain) {
    if (const Value* list = typed(id, "required", Kind::list, "a list of names")) {
      for (const Value& name : list->items()) {
        if (!name.is_string()) {
          wrong(id, "required", "a list of names");
        }
        required.insert(name.as_string());
        if (listed.insert(name.as_string()).second) {
          names.push_back(name.as_string());
        }
      }
    }
  }
  for (const std::string& name : names) {
    step();
    shape.object.properties.push_back({name, location(of_name(groups, name)), required.count(name) > 0});
  }
  add_extras(shape, groups);
}

void ShapeBuilder::add_extras(Shape& shape, const std::vector<Group>& groups) {
  size_t patterns = 0;
  bool closed = false;
  for (const Group& group : groups) {
    patterns += group.patterns.size();
    closed = closed || (group.properties != nullptr && group.open && group.patterns.empty());
  }
  if (!options_.open && closed && patterns == 0 && std::none_of(groups.begin(), groups.end(), [](const Group& group) {
        return group.others && group.others->id != kNothing;
      })) {
    return;
  }
  if (patterns > kMaxNamePatterns) {
    fail(ErrorCode::unsupported,
         "JSON schema: {}: {} patternProperties that meet in one object; at most {} are supported", shape.pointer,
         patterns, kMaxNamePatterns);
  }
  for (uint32_t chosen = 0; chosen < (1U << patterns); ++chosen) {
    add_extra(shape, groups, chosen);
  }
}

// Properties that are not listed and match just the patterns `chosen` (a bit each).
void ShapeBuilder::add_extra(Shape& shape, const std::vector<Group>& groups, uint32_t chosen) {
  step();
  Members members;
  std::vector<RegexId> conditions;
  size_t number = 0;
  for (const Group& group : groups) {
    bool covered = false;
    for (const NamePattern& pattern : group.patterns) {
      const bool matches = (chosen >> number++ & 1) != 0;
      conditions.push_back(matches ? pattern.surely : out_.pool.inverse(pattern.maybe));
      if (matches) {
        covered = true;
        members.push_back(pattern.value);
      }
    }
    if (!covered && group.others) {
      members.push_back(*group.others);
    }
  }
  if (std::any_of(members.begin(), members.end(), [](const Member& one) { return one.id == kNothing; })) {
    return;
  }
  ObjectLimits& object = shape.object;
  ObjectLimits::Extra extra{std::nullopt, out_.pool.both(conditions), 0};
  if (conditions.empty()) {
    if (!object.properties.empty()) {
      extra.names = other_than(object.properties, shape.pointer);
    }
  } else {
    std::vector<RegexId> listed;
    for (const ObjectLimits::Property& property : object.properties) {
      listed.push_back(out_.pool.literal(property.name));
    }
    extra.names = make_dfa(out_.pool, out_.pool.both({extra.regex, out_.pool.inverse(out_.pool.either(listed))}));
    if (!extra.names) {
      fail(ErrorCode::unsupported,
           "JSON schema: {}: the names of patternProperties take more than {} states; shorten the patterns",
           shape.pointer, kMaxDfaStates);
    }
    if (extra.names->states.empty()) {
      return;
    }
  }
  if (extra.names) {
    charge(*extra.names);
  }
  extra.value = location(members);
  object.extras.push_back(std::move(extra));
}

}  // namespace minfer::engine::grammar::schema
