// The grammar of forced tool calls: what the model's own syntax writes around name and arguments, with the arguments
// held to the tool's schema. Read back by chat::OutputParser of the same format. Pure functions; any thread.
#pragma once

#include <span>

#include "chat/output_parser.hpp"
#include "engine/grammar/ast.hpp"

namespace minfer::server {

// The syntax in which calls can be forced: that of `format`, or the generic one where arguments are not JSON (as in
// Gemma 4 and LFM2) or a text between tags couldn't be held to its schema. The caller gives it to the parser as well.
const chat::ToolSyntax& forced_tool_syntax(const chat::OutputFormat& format,
                                           std::span<const chat::ToolSignature> tools);

// One call of one of `tools` (at least one), or with `parallel` one or more where the syntax has that. `format.tools`
// is what forced_tool_syntax says. Schemas are read as authors mean them (SchemaOptions::open is false), and a tool
// without one takes any object. Errors: those of add_json_schema, naming the tool.
engine::grammar::NodeId add_tool_calls(engine::grammar::AstBuilder& builder, const chat::OutputFormat& format,
                                       std::span<const chat::ToolSignature> tools, bool parallel);

}  // namespace minfer::server
