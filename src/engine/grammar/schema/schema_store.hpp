// The schemas inside one document: each object that stands where a schema does gets an id, its JSON pointer (for
// messages) and a check of its keywords by name, the first time it is met. References ($ref) are resolved within the
// document. Holds the document; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "chat/value.hpp"

namespace minfer::engine::grammar::schema {

using SchemaId = uint32_t;
inline constexpr SchemaId kAnything = 0;  // true, {}
inline constexpr SchemaId kNothing = 1;   // false

inline constexpr size_t kMaxSchemas = 50'000;  // in one document, each counted where it is met

class SchemaStore {
 public:
  // `at`: which schema of the document is the root, a JSON pointer. Errors: as child() and resolve().
  SchemaStore(chat::Value document, std::string_view at);
  SchemaId root() const { return root_; }
  // The schema `value`, found under `key` (and then `index`, where not empty) of `parent`. Errors: invalid_input where
  // it is no schema; unsupported for a keyword that is not in the subset.
  SchemaId child(SchemaId parent, std::string_view key, std::string_view index, const chat::Value& value);
  // What the $ref of `from` says. Errors: unsupported beyond this document, invalid_input where nothing is there.
  SchemaId resolve(SchemaId from);

  const chat::Dict& keywords(SchemaId id) const { return entries_[id].value.as_dict(); }
  const chat::Value* find(SchemaId id, std::string_view keyword) const { return keywords(id).find(keyword); }
  // "#/properties/a"; with a keyword: "#/properties/a/minimum".
  std::string pointer(SchemaId id) const;
  std::string pointer(SchemaId id, std::string_view keyword) const;
  size_t size() const { return entries_.size(); }

 private:
  // What stands at a pointer, which `where` gives.
  SchemaId find_at(const std::string& pointer, const std::string& where);

  struct Entry {
    chat::Value value;
    SchemaId parent = 0;
    std::string step;  // from the parent: "/properties/a"; the root's: "#"
  };

  SchemaId add(const chat::Value& value, SchemaId parent, std::string step);
  void check_keywords(SchemaId id) const;

  chat::Value document_;
  std::vector<Entry> entries_;
  std::map<const void*, SchemaId> known_;
  SchemaId whole_ = 0;  // the document itself
  SchemaId root_ = 0;
};

}  // namespace minfer::engine::grammar::schema
