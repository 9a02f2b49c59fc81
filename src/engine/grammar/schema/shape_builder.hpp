// How shapes are made, shared by its three parts: locations and branches (shapes.cpp), scalar keywords
// (shape_keywords.cpp), arrays and objects (shape_children.cpp). For those files alone.
#pragma once

#include <utility>

#include "engine/grammar/schema/shapes.hpp"

namespace minfer::engine::grammar::schema {

// A schema that must hold at a place: with all its keywords, or only those that are no reference and no combination.
struct Member {
  SchemaId id;
  bool own_alone = false;
  auto operator<=>(const Member&) const = default;
};
using Members = std::vector<Member>;

class ShapeBuilder {
 public:
  ShapeBuilder(const chat::Value& schema, const SchemaOptions& options)
      : store_(schema, options.at), options_(options) {}
  Shapes build();

 private:
  // What is still to do for one branch of a location.
  struct Branch {
    std::deque<std::pair<Member, std::vector<SchemaId>>> todo;   // with the schemas that led here
    std::vector<std::pair<SchemaId, std::string_view>> choices;  // anyOf and oneOf not yet taken
    std::vector<std::vector<SchemaId>> choice_chains;
    std::set<SchemaId> expanded;
    std::vector<SchemaId> plain;
  };

  LocationId location(const Members& members);
  void expand(LocationId location, Branch branch);
  bool expand_member(Branch& branch);
  void take_choice(LocationId location, Branch branch);
  void require_disjoint(SchemaId schema, const std::vector<chat::Value>& branches);
  ShapeId shape(const std::vector<SchemaId>& plain);
  void step(size_t count = 1);
  void charge(const Dfa& dfa);

  // shape_keywords.cpp
  void add_types(Shape& shape, SchemaId id);
  void add_values(Shape& shape, SchemaId id);
  void add_number(Shape& shape, SchemaId id);
  void add_string_limits(Shape& shape, SchemaId id);
  void add_sizes(Shape& shape, SchemaId id);
  void finish_scalars(Shape& shape);
  uint64_t count(SchemaId id, std::string_view keyword, const chat::Value& value) const;
  [[noreturn]] void wrong(SchemaId id, std::string_view keyword, std::string_view expected) const;

  // shape_children.cpp
  struct NamePattern {
    RegexId surely;  // names that match by every validator
    RegexId maybe;   // by some
    Member value;
  };
  struct Group {  // what one schema says of an object's properties
    SchemaId id = kAnything;
    const chat::Dict* properties = nullptr;
    std::vector<NamePattern> patterns{};
    std::optional<Member> others{};
    bool open = true;  // without additionalProperties
  };
  void join_array(Shape& shape, const std::vector<SchemaId>& plain);
  void join_object(Shape& shape, const std::vector<SchemaId>& plain);
  Group group_of(SchemaId id);
  Members of_name(const std::vector<Group>& groups, const std::string& name);
  void add_extras(Shape& shape, const std::vector<Group>& groups);
  void add_extra(Shape& shape, const std::vector<Group>& groups, uint32_t chosen);
  const chat::Value* typed(SchemaId id, std::string_view keyword, chat::Kind kind, std::string_view expected) const;

  SchemaStore store_;
  SchemaOptions options_;
  Shapes out_;
  std::map<Members, LocationId> known_locations_;
  std::map<std::vector<SchemaId>, ShapeId> known_shapes_;
  std::deque<std::pair<LocationId, Members>> todo_;
  std::set<SchemaId> checked_choices_;
  std::map<std::string, std::shared_ptr<const Dfa>> numbers_;
  std::map<std::string, std::shared_ptr<const StringPlan>> strings_;
  size_t steps_ = 0;
};

}  // namespace minfer::engine::grammar::schema
