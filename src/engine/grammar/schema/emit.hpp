// Writes shapes as grammar nodes: objects and arrays as a rule each, strings and numbers as rules that equal ones share
// (so that the automaton has one place for them), listed values as a prefix tree. Between tokens whitespace only where
// writers put it: after { [ , : and before } ]. One thread; an Emitter serves one schema.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/grammar/json_schema.hpp"
#include "engine/grammar/schema/shapes.hpp"

namespace minfer::engine::grammar::schema {

class Emitter {
 public:
  Emitter(AstBuilder& builder, const Shapes& shapes, const SchemaOptions& options)
      : builder_(builder), shapes_(shapes), options_(options) {}
  // The node of all documents; the root is possible.
  NodeId emit();

 private:
  using Parts = std::vector<NodeId>;

  NodeId location(LocationId id);
  // The node of a shape's documents; its values are written by location().
  void add_types(ShapeId id, Parts& ways);
  NodeId string(const Shape& shape);
  NodeId number(const Shape& shape);
  RuleId shared_rule(const std::string& key, const std::string& name);
  void define_pending();

  // Whitespace, where it is allowed.
  void space(Parts& parts);
  void token(Parts& parts, std::string_view text, bool space_after);

  // emit_children.cpp
  NodeId array(const Shape& shape);
  NodeId array_tail(const ArrayLimits& array, size_t index, uint64_t most);
  NodeId object(const Shape& shape);
  NodeId property(const ObjectLimits::Property& property);
  NodeId extras(const Shape& shape);
  NodeId object_in_order(const std::vector<ObjectLimits::Property>& properties, std::optional<RuleId> extra);
  NodeId counted_object(const Shape& shape, const std::vector<ObjectLimits::Property>& properties,
                        std::optional<RuleId> extra);
  std::optional<NodeId> counted_end(const Shape& shape, uint64_t emitted, std::optional<RuleId> extra);
  NodeId separated(NodeId item);
  NodeId close(std::string_view bracket);
  RuleId rule_of(NodeId node, const std::string& name);

  // emit_values.cpp
  NodeId values(const std::vector<chat::Value>& values);
  NodeId value(const chat::Value& value);
  NodeId texts(const std::vector<std::string>& sorted, size_t first, size_t last, size_t from, uint32_t depth);

  AstBuilder& builder_;
  const Shapes& shapes_;
  SchemaOptions options_;
  std::map<std::string, RuleId> shared_;
  std::map<std::pair<ShapeId, Type>, RuleId> containers_;
  std::deque<std::pair<ShapeId, Type>> pending_;
  std::optional<RuleId> space_;
};

}  // namespace minfer::engine::grammar::schema
