// Arrays and objects of a schema's grammar. An object's properties come in their order; from each place on, the rest is
// one rule, entered by what was written last. Where numbers of properties count, a rule stands for each place and
// number.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "engine/grammar/schema/emit.hpp"
#include "engine/grammar/schema/json_values.hpp"

namespace minfer::engine::grammar::schema {
namespace {

constexpr size_t kMaxInlineElements = 32;       // of a prefix before a rule of its own
constexpr uint64_t kMaxCountedStates = 20'000;  // places by numbers of an object whose properties count

uint32_t as_count(uint64_t count) {
  return static_cast<uint32_t>(std::min<uint64_t>(count, kMaxRepeat));
}

// Elements of which a grammar can hold no more than kMaxRepeat.
std::optional<uint32_t> as_most(std::optional<uint64_t> most) {
  return most ? std::optional(as_count(*most)) : std::nullopt;
}

}  // namespace

RuleId Emitter::rule_of(NodeId node, const std::string& name) {
  const RuleId rule = builder_.declare(name);
  builder_.define(rule, node);
  return rule;
}

NodeId Emitter::separated(NodeId item) {
  Parts parts;
  token(parts, ",", true);
  parts.push_back(item);
  return builder_.sequence(std::move(parts));
}

NodeId Emitter::close(std::string_view bracket) {
  Parts parts;
  space(parts);
  token(parts, bracket, false);
  return builder_.sequence(std::move(parts));
}

// What follows `index` elements (at least one), of `most` at most.
NodeId Emitter::array_tail(const ArrayLimits& array, size_t index, uint64_t most) {
  if (index >= most) {
    return builder_.literal("");
  }
  if (index >= array.prefix.size()) {
    const bool bounded = array.most.has_value() || !array.rest || !shapes_.possible(*array.rest);
    const uint64_t least = array.least > index ? array.least - index : 0;
    return builder_.repeat(separated(location(*array.rest)), as_count(least),
                           bounded ? as_most(std::max(most - index, least)) : std::nullopt);
  }
  NodeId rest = array_tail(array, index + 1, most);
  if (index % kMaxInlineElements == 0) {
    rest = builder_.reference(rule_of(rest, "elements"));
  }
  const NodeId element = builder_.sequence({separated(location(array.prefix[index])), rest});
  return index < array.least ? element : builder_.optional(element);
}

NodeId Emitter::array(const Shape& shape) {
  const ArrayLimits& array = shape.array;
  if (array.least > kMaxRepeat) {
    fail(ErrorCode::invalid_input, "JSON schema: {}/minItems: {}; the limit is {}", shape.pointer, array.least,
         kMaxRepeat);
  }
  // Elements up to the first that can't be.
  uint64_t most = array.most.value_or(UINT64_MAX);
  for (size_t i = 0; i < array.prefix.size(); ++i) {
    if (!shapes_.possible(array.prefix[i])) {
      most = std::min<uint64_t>(most, i);
    }
  }
  if (!array.rest || !shapes_.possible(*array.rest)) {
    most = std::min<uint64_t>(most, array.prefix.size());
  }
  Parts parts;
  token(parts, "[", true);
  if (most > 0) {
    const LocationId first = array.prefix.empty() ? *array.rest : array.prefix[0];
    const NodeId elements = builder_.sequence({location(first), array_tail(array, 1, most), close("]")});
    parts.push_back(array.least > 0 ? elements : builder_.alternatives({elements, builder_.literal("]")}));
  } else {
    token(parts, "]", false);
  }
  return builder_.sequence(std::move(parts));
}

NodeId Emitter::property(const ObjectLimits::Property& property) {
  Parts parts;
  token(parts, json_quoted(property.name) + ":", true);
  parts.push_back(location(property.value));
  return builder_.sequence(std::move(parts));
}

// A property of another name.
NodeId Emitter::extras(const Shape& shape) {
  Parts ways;
  for (const ObjectLimits::Extra& extra : shape.object.extras) {
    if (!shapes_.possible(extra.value)) {
      continue;
    }
    Parts parts;
    if (extra.names) {
      token(parts, "\"", false);
      parts.push_back(add_dfa(builder_, *extra.names, add_string_class, "\":", "name"));
    } else {
      const std::string key = key_of(StringLimits{});
      const bool is_new = shared_.count(key) == 0;
      const RuleId any_string = shared_rule(key, "string");
      if (is_new) {
        builder_.define(any_string, add_string(builder_, shapes_.pool, StringPlan{}));
      }
      parts.push_back(builder_.reference(any_string));
      token(parts, ":", false);
    }
    space(parts);
    parts.push_back(location(extra.value));
    ways.push_back(builder_.sequence(std::move(parts)));
  }
  return ways.size() == 1 ? ways[0] : builder_.alternatives(std::move(ways));
}

NodeId Emitter::object(const Shape& shape) {
  const ObjectLimits& object = shape.object;
  std::vector<ObjectLimits::Property> properties;
  uint64_t required = 0;
  for (const ObjectLimits::Property& property : object.properties) {
    if (shapes_.possible(property.value)) {
      properties.push_back(property);
      required += property.required ? 1 : 0;
    }
  }
  std::optional<RuleId> extra;
  if (std::any_of(object.extras.begin(), object.extras.end(),
                  [&](const auto& one) { return shapes_.possible(one.value); })) {
    extra = rule_of(extras(shape), shape.pointer + " (other property)");
  }
  const bool counts = object.least > required || (object.most && (extra || *object.most < properties.size()));
  Parts parts;
  token(parts, "{", true);
  parts.push_back(counts ? counted_object(shape, properties, extra) : object_in_order(properties, extra));
  return builder_.sequence(std::move(parts));
}

// After the "{": properties in their order, then others.
NodeId Emitter::object_in_order(const std::vector<ObjectLimits::Property>& properties, std::optional<RuleId> extra) {
  const auto first_required = std::find_if(properties.begin(), properties.end(),
                                           [](const ObjectLimits::Property& one) { return one.required; });
  const auto starts =
      static_cast<size_t>(first_required - properties.begin());  // any up to here may be the first written
  Parts rest;                                                    // what follows the last possible start
  for (size_t i = starts + 1; i < properties.size(); ++i) {
    const NodeId item = separated(property(properties[i]));
    rest.push_back(properties[i].required ? item : builder_.optional(item));
  }
  if (extra) {
    rest.push_back(builder_.repeat(separated(builder_.reference(*extra)), 0, std::nullopt));
  }
  rest.push_back(close("}"));
  if (starts == 0 && !properties.empty()) {
    rest.insert(rest.begin(), property(properties[0]));
    return builder_.sequence(std::move(rest));
  }
  RuleId tail = rule_of(builder_.sequence(std::move(rest)), "properties");
  Parts ways;
  if (starts < properties.size()) {
    const RuleId item = rule_of(property(properties[starts]), "property");
    ways.push_back(builder_.sequence({builder_.reference(item), builder_.reference(tail)}));
    tail = rule_of(builder_.sequence({separated(builder_.reference(item)), builder_.reference(tail)}), "properties");
  } else {
    if (extra) {
      ways.push_back(builder_.sequence({builder_.reference(*extra), builder_.reference(tail)}));
    }
    ways.push_back(builder_.literal("}"));
  }
  for (size_t i = starts; i-- > 0;) {
    const RuleId item = rule_of(property(properties[i]), "property");
    ways.push_back(builder_.sequence({builder_.reference(item), builder_.reference(tail)}));
    tail =
        rule_of(builder_.sequence({builder_.optional(separated(builder_.reference(item))), builder_.reference(tail)}),
                "properties");
  }
  return builder_.alternatives(std::move(ways));
}

// After the last listed property, of which `emitted` were written. Others may repeat a name, so that of the number
// asked for they are counted as one.
std::optional<NodeId> Emitter::counted_end(const Shape& shape, uint64_t emitted, std::optional<RuleId> extra) {
  const ObjectLimits& object = shape.object;
  if (object.most && emitted > *object.most) {
    return std::nullopt;
  }
  const uint64_t missing = object.least > emitted ? object.least - emitted : 0;
  const std::optional<uint64_t> more = object.most ? std::optional(*object.most - emitted) : std::nullopt;
  const NodeId end = emitted > 0 ? close("}") : builder_.literal("}");
  if (missing == 0 && (!extra || more == 0U)) {
    return end;
  }
  if (missing > 1 || !extra || more == 0U) {
    return std::nullopt;
  }
  const auto least = static_cast<uint32_t>(missing);
  if (emitted > 0) {
    return builder_.sequence({builder_.repeat(separated(builder_.reference(*extra)), least, as_most(more)), end});
  }
  const std::optional<uint64_t> after_first = more ? std::optional(*more - 1) : std::nullopt;
  const NodeId some =
      builder_.sequence({builder_.reference(*extra),
                         builder_.repeat(separated(builder_.reference(*extra)), 0, as_most(after_first)), close("}")});
  return missing == 1 ? some : builder_.alternatives({some, end});
}

NodeId Emitter::counted_object(const Shape& shape, const std::vector<ObjectLimits::Property>& properties,
                               std::optional<RuleId> extra) {
  const ObjectLimits& object = shape.object;
  // Numbers beyond this one are all alike.
  const uint64_t cap = std::min<uint64_t>(properties.size(), object.most ? *object.most : object.least);
  if ((properties.size() + 1) * (cap + 1) > kMaxCountedStates) {
    fail(ErrorCode::invalid_input,
         "JSON schema: {}: minProperties or maxProperties with {} optional properties, counted to {}: more than {} "
         "states; make it "
         "smaller",
         shape.pointer, properties.size(), cap, kMaxCountedStates);
  }
  // By number written: what follows, from the end backwards.
  std::vector<std::optional<NodeId>> after;
  for (uint64_t emitted = 0; emitted <= cap; ++emitted) {
    after.push_back(counted_end(shape, emitted, extra));
  }
  for (size_t i = properties.size(); i-- > 0;) {
    const RuleId item = rule_of(property(properties[i]), "property");
    std::vector<std::optional<RuleId>> rules;
    after.resize(std::min<uint64_t>(cap, i + 1) + 1);  // no more are written by then
    for (const std::optional<NodeId>& node : after) {
      rules.push_back(node ? std::optional(rule_of(*node, "properties")) : std::nullopt);
    }
    after.resize(std::min<uint64_t>(cap, i) + 1);
    for (uint64_t emitted = 0; emitted < after.size(); ++emitted) {
      const bool may_add = emitted < cap || !object.most;
      const std::optional<RuleId> next = may_add ? rules[std::min(emitted + 1, cap)] : std::nullopt;
      Parts ways;
      if (next) {
        const NodeId name = builder_.reference(item);
        ways.push_back(builder_.sequence({emitted > 0 ? separated(name) : name, builder_.reference(*next)}));
      }
      if (!properties[i].required && rules[emitted]) {
        ways.push_back(builder_.reference(*rules[emitted]));
      }
      after[emitted] = ways.empty() ? std::nullopt : std::optional(builder_.alternatives(std::move(ways)));
    }
  }
  if (!after[0]) {
    fail(ErrorCode::unsupported,
         "JSON schema: {}: minProperties {} needs properties that it does not list, whose names a grammar can't keep "
         "apart; list them, "
         "or ask for one more than are required",
         shape.pointer, object.least);
  }
  return *after[0];
}

}  // namespace minfer::engine::grammar::schema
