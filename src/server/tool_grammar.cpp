// The grammar of forced tool calls. The marks of a syntax become literals of their own, because a control token of the
// vocabulary is matched by a literal that is exactly its text.
#include "server/tool_grammar.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "engine/grammar/json_schema.hpp"
#include "server/tagged_arguments.hpp"

namespace minfer::server {
namespace {

namespace grammar = engine::grammar;
using chat::ToolSignature;
using chat::ToolSyntax;
using grammar::AstBuilder;
using grammar::NodeId;

// The schema of a tool's arguments, which are an object whatever it says.
chat::Value schema_of(const ToolSignature& tool) {
  chat::Dict schema;
  if (tool.parameters.is(chat::Kind::dict)) {
    schema = tool.parameters.as_dict();
  } else if (!tool.parameters.is_none() && !(tool.parameters.is(chat::Kind::boolean) && tool.parameters.as_bool())) {
    fail(ErrorCode::invalid_input, "its parameters are no JSON schema; an object is expected");
  }
  if (schema.find("type") == nullptr) {
    schema.set("type", chat::Value::string("object"));
  }
  return chat::Value::dict(std::move(schema));
}

NodeId add_arguments(AstBuilder& builder, const ToolSyntax& syntax, const ToolSignature& tool) {
  try {
    const chat::Value schema = schema_of(tool);
    if (syntax.arguments == chat::ArgumentStyle::tagged) {
      return add_tagged_arguments(builder, syntax, schema);
    }
    return grammar::add_json_schema(builder, schema, {.open = false});
  } catch (const Error& error) {
    fail(error.code(), "tool '{}': {}", tool.name, error.what());
  }
}

// One call without the pieces around all of them.
NodeId add_call(AstBuilder& builder, const ToolSyntax& syntax, std::span<const ToolSignature> tools) {
  std::vector<NodeId> ways;
  for (const ToolSignature& tool : tools) {
    ways.push_back(builder.sequence(
        {builder.literal(tool.name), add_marks(builder, syntax.name_end), add_arguments(builder, syntax, tool)}));
  }
  return builder.sequence({add_marks(builder, syntax.call_begin), builder.alternatives(std::move(ways)),
                           add_marks(builder, syntax.call_end)});
}

}  // namespace

const ToolSyntax& forced_tool_syntax(const chat::OutputFormat& format, std::span<const ToolSignature> tools) {
  const auto fits = [&](const ToolSignature& tool) { return can_tag_arguments(*format.tools, tool.parameters); };
  const bool own =
      format.tools->arguments == chat::ArgumentStyle::json ||
      (format.tools->arguments == chat::ArgumentStyle::tagged && std::all_of(tools.begin(), tools.end(), fits));
  return own ? *format.tools : chat::generic_tool_syntax();
}

NodeId add_tool_calls(AstBuilder& builder, const chat::OutputFormat& format, std::span<const ToolSignature> tools,
                      bool parallel) {
  const ToolSyntax& syntax = *format.tools;
  check(!tools.empty(), "a tool call has a tool");
  const grammar::RuleId call = builder.declare("tool call");
  builder.define(call, add_call(builder, syntax, tools));
  std::vector<NodeId> parts = {add_marks(builder, syntax.prefix), builder.reference(call)};
  if (parallel && syntax.parallel) {
    const NodeId next = builder.sequence({add_marks(builder, syntax.separator), builder.reference(call)});
    parts.push_back(builder.repeat(next, 0, static_cast<uint32_t>(chat::kMaxCalls - 1)));
  }
  parts.push_back(add_marks(builder, syntax.suffix));
  return builder.sequence(std::move(parts));
}

}  // namespace minfer::server
