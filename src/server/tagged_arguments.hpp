// Arguments between tags in the grammar of forced tool calls: a parameter after another in the schema's order, text as
// it is and other values as JSON. Apart from tool_grammar.cpp because only here a schema is taken apart by its
// properties. Limits of the form: a text stands without quotes, so that of its schema only listed values can be held
// to.
#pragma once

#include <string_view>

#include "chat/tool_syntax.hpp"
#include "chat/value.hpp"
#include "engine/grammar/ast.hpp"

namespace minfer::server {

// A piece of a syntax: each mark in it ("<tool_call>", "[ARGS]") a literal of its own.
engine::grammar::NodeId add_marks(engine::grammar::AstBuilder& builder, std::string_view piece);

// Whether arguments of this schema can be written between tags and held to it: an object that lists its properties and
// no others, each either JSON of a type other than string, or a string that is free or listed.
bool can_tag_arguments(const chat::ToolSyntax& syntax, const chat::Value& parameters);
// The arguments of an object's schema for which can_tag_arguments is true. Errors: those of add_json_schema.
engine::grammar::NodeId add_tagged_arguments(engine::grammar::AstBuilder& builder, const chat::ToolSyntax& syntax,
                                             const chat::Value& parameters);

}  // namespace minfer::server
