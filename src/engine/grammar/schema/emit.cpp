// Locations, scalars and whitespace of a schema's grammar.
#include "engine/grammar/schema/emit.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace minfer::engine::grammar::schema {
namespace {

constexpr std::string_view kDigit = "09";

NodeId digits(AstBuilder& builder, uint32_t least, uint32_t most) {
  return builder.repeat(builder.code_class({{static_cast<uint32_t>(kDigit[0]), static_cast<uint32_t>(kDigit[1])}}),
                        least, most);
}

// A whole number without leading zeros; `zero_too`: -0 as well.
NodeId whole_number(AstBuilder& builder, bool negative_zero) {
  const auto magnitude = [&](bool zero) {
    const NodeId many = builder.sequence({builder.code_class({{'1', '9'}}), digits(builder, 0, kMaxDigits - 1)});
    return zero ? builder.alternatives({builder.literal("0"), many}) : many;
  };
  if (negative_zero) {
    return builder.sequence({builder.optional(builder.literal("-")), magnitude(true)});
  }
  return builder.alternatives({magnitude(true), builder.sequence({builder.literal("-"), magnitude(false)})});
}

// Any number that is finite as a double: the exponent is at most 277, the digits before the point kMaxDigits.
NodeId any_number(AstBuilder& builder) {
  const NodeId fraction = builder.sequence({builder.literal("."), digits(builder, 1, kMaxDigits)});
  const NodeId large =
      builder.sequence({builder.code_class({{'1', '2'}}), builder.code_class({{'0', '7'}}), digits(builder, 1, 1)});
  const NodeId up =
      builder.sequence({builder.optional(builder.literal("+")), builder.alternatives({digits(builder, 1, 2), large})});
  const NodeId down = builder.sequence({builder.literal("-"), digits(builder, 1, 3)});
  const NodeId exponent =
      builder.sequence({builder.code_class({{'e', 'e'}, {'E', 'E'}}), builder.alternatives({up, down})});
  return builder.sequence({whole_number(builder, true), builder.optional(fraction), builder.optional(exponent)});
}

NodeId add_plain_class(AstBuilder& builder, const std::vector<CodeRange>& ranges) {
  return builder.code_class(ranges);
}

}  // namespace

NodeId Emitter::emit() {
  const NodeId root = location(shapes_.root);
  define_pending();
  return root;
}

void Emitter::define_pending() {
  while (!pending_.empty()) {
    const auto key = pending_.front();
    pending_.pop_front();
    const Shape& shape = shapes_.shapes[key.first];
    builder_.define(containers_.at(key), key.second == kArray ? array(shape) : object(shape));
  }
}

NodeId Emitter::location(LocationId id) {
  Parts ways;
  std::vector<chat::Value> listed;
  for (const ShapeId shape_id : shapes_.locations[id]) {
    const Shape& shape = shapes_.shapes[shape_id];
    if (shape.possible && shape.values) {
      listed.insert(listed.end(), shape.values->begin(), shape.values->end());
    } else if (shape.possible) {
      add_types(shape_id, ways);
    }
  }
  if (!listed.empty()) {
    ways.push_back(values(listed));
  }
  return ways.size() == 1 ? ways[0] : builder_.alternatives(std::move(ways));
}

void Emitter::add_types(ShapeId id, Parts& ways) {
  const Shape& shape = shapes_.shapes[id];
  if ((shape.types & kNull) != 0) {
    ways.push_back(builder_.literal("null"));
  }
  if ((shape.types & kBoolean) != 0) {
    ways.push_back(builder_.alternatives({builder_.literal("true"), builder_.literal("false")}));
  }
  if ((shape.types & (kInteger | kFraction)) != 0) {
    ways.push_back(number(shape));
  }
  if ((shape.types & kString) != 0) {
    ways.push_back(string(shape));
  }
  for (const Type type : {kArray, kObject}) {
    if ((shape.types & type) != 0) {
      const auto [entry, is_new] = containers_.try_emplace({id, type}, 0);
      if (is_new) {
        entry->second = builder_.declare(fmt::format("{} ({})", shape.pointer, type == kArray ? "array" : "object"));
        pending_.push_back({id, type});
      }
      ways.push_back(builder_.reference(entry->second));
    }
  }
}

// The rule of equal keys: its second user finds it defined.
RuleId Emitter::shared_rule(const std::string& key, const std::string& name) {
  const auto [entry, is_new] = shared_.try_emplace(key, 0);
  if (is_new) {
    entry->second = builder_.declare(name);
  }
  return entry->second;
}

NodeId Emitter::string(const Shape& shape) {
  const std::string key = key_of(shape.string);
  const bool is_new = shared_.count(key) == 0;
  const RuleId rule = shared_rule(key, "string");
  if (is_new) {
    builder_.define(rule, add_string(builder_, shapes_.pool, *shape.string_plan));
  }
  return builder_.reference(rule);
}

NodeId Emitter::number(const Shape& shape) {
  const bool integer = (shape.types & kFraction) == 0;
  const std::string key = key_of(shape.number, integer);
  const bool is_new = shared_.count(key) == 0;
  const RuleId rule = shared_rule(key, integer ? "integer" : "number");
  if (is_new) {
    builder_.define(rule, shape.number_dfa ? add_dfa(builder_, *shape.number_dfa, add_plain_class, "", "number")
                          : integer        ? whole_number(builder_, false)
                                           : any_number(builder_));
  }
  return builder_.reference(rule);
}

void Emitter::space(Parts& parts) {
  if (options_.most_whitespace == 0) {
    return;
  }
  if (!space_) {
    space_ = builder_.declare("whitespace");
    builder_.define(*space_,
                    builder_.repeat(builder_.code_class({{' ', ' '}, {'\n', '\n'}}), 0, options_.most_whitespace));
  }
  parts.push_back(builder_.reference(*space_));
}

void Emitter::token(Parts& parts, std::string_view text, bool space_after) {
  parts.push_back(builder_.literal(text));
  if (space_after) {
    space(parts);
  }
}

}  // namespace minfer::engine::grammar::schema
