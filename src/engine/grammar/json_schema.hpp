// JSON Schema (2020-12, a named subset) to grammar nodes: every text that the nodes match is a JSON document that
// validates, objects' properties in the schema's order, and between tokens at most the whitespace that SchemaOptions
// allows. A keyword outside the subset is refused by name with its JSON pointer, never ignored; annotations (title,
// description, default, examples, $comment, $schema, $id at the root ...) mean nothing here and are let through.
// Source: https://json-schema.org/draft/2020-12. Oracle: Python's jsonschema.
#pragma once

#include <string_view>

#include "chat/value.hpp"
#include "engine/grammar/ast.hpp"

namespace minfer::engine::grammar {

struct SchemaOptions {
  // Whitespace between tokens: at most this many spaces or newlines in a row. 0: compact JSON alone.
  uint32_t most_whitespace = 16;
  // What a schema leaves open is allowed, as the standard says. False: as authors mostly mean it, an object that lists
  // properties and says nothing of additionalProperties has no others, and a schema without a type that has properties
  // (items) is an object's (an array's).
  bool open = true;
  // Which schema of the document to hold to: a JSON pointer, "#/properties/a". References are within the document.
  std::string_view at = "#";
};

// A node for documents of `schema` (an object, or true). Errors: invalid_input for a schema that is wrong, can't be met
// or exceeds a limit; unsupported for a keyword that is not in the subset.
NodeId add_json_schema(AstBuilder& builder, const chat::Value& schema, const SchemaOptions& options = {});
// Any JSON object, as response_format json_object asks.
NodeId add_json_object(AstBuilder& builder, const SchemaOptions& options = {});

}  // namespace minfer::engine::grammar
