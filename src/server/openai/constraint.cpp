// What an answer is held to. See constraint.hpp.
// One thread compiles (Service::start); any looks for what is compiled already.
#include "server/openai/constraint.hpp"

#include <utility>

#include "engine/grammar/gbnf.hpp"
#include "engine/grammar/json_schema.hpp"
#include "server/api_error.hpp"
#include "server/json_writer.hpp"
#include "server/tagged_arguments.hpp"
#include "server/tool_grammar.hpp"

namespace minfer::server::openai {

namespace grammar = engine::grammar;
namespace {

// A longer schema is compiled each time.
constexpr size_t kMostKeyBytes = size_t{256} << 10;

}  // namespace

Constraint read_response_format(Fields format, bool flat) {
  enum Type : size_t { text, json_object, json_schema };
  Constraint constraint;
  constraint.param = format.path("type");
  format.require("type", "one of text, json_object, json_schema");
  const size_t type = *format.choice("type", {"text", "json_object", "json_schema"});
  const auto read_schema = [&constraint](Fields& fields) {
    fields.text("name");
    fields.text("description");
    fields.boolean("strict");
    constraint.param = fields.path("schema");
    if (fields.object("schema")) {
      constraint.kind = Constraint::Kind::json_schema;
      constraint.schema = *fields.find("schema");
    }
  };
  if (type == json_object) {
    constraint.kind = Constraint::Kind::json_object;
    read_schema(format);  // as llama.cpp's users send it
  } else if (type == json_schema && flat) {
    read_schema(format);
  } else if (type == json_schema) {
    format.require("json_schema", "an object with the schema");
    Fields wrapped = *format.object("json_schema");
    read_schema(wrapped);
    wrapped.finish();
  }
  if (type == json_schema && constraint.kind == Constraint::Kind::none) {
    fail_field(constraint.param, fmt::format("{} is missing; expected a JSON Schema", constraint.param));
  }
  format.finish();
  return constraint;
}

Constraint read_constraint(Fields& fields) {
  Constraint constraint;
  if (auto format = fields.object("response_format")) constraint = read_response_format(*format, false);
  if (const auto gbnf = fields.text("grammar")) {
    if (constraint.kind != Constraint::Kind::none) {
      fail_field("grammar", "grammar and response_format can't both hold; leave one of them out");
    }
    constraint.kind = Constraint::Kind::gbnf;
    constraint.gbnf = *gbnf;
    constraint.param = "grammar";
  }
  return constraint;
}

namespace {

// The characters that are not among `known`.
grammar::NodeId others(grammar::AstBuilder& builder, const std::string& known) {
  std::vector<grammar::CodeRange> ranges;
  for (const char c : known) ranges.push_back({static_cast<uint32_t>(c), static_cast<uint32_t>(c)});
  return builder.code_class(std::move(ranges), true);
}

// How many characters of `mark` end the text "its first `matched` ones, then `next`".
size_t matched_after(std::string_view mark, size_t matched, char next) {
  std::string text(mark.substr(0, matched));
  text += next;
  size_t length = text.size();
  while (!mark.starts_with(std::string_view(text).substr(text.size() - length))) --length;
  return length;
}

}  // namespace

// An automaton with a rule a state: how much of the mark the text so far ends with.
grammar::NodeId add_after_mark(grammar::AstBuilder& builder, std::string_view mark, grammar::NodeId rest) {
  std::string known;
  for (const char c : mark) {
    if (known.find(c) == std::string::npos) known += c;
  }
  std::vector<grammar::RuleId> states;
  for (size_t i = 0; i < mark.size(); ++i) states.push_back(builder.declare(fmt::format("mark-{}", i)));
  const auto go = [&](grammar::NodeId first, size_t matched) {
    return builder.sequence({first, matched == mark.size() ? rest : builder.reference(states[matched])});
  };
  for (size_t i = 0; i < mark.size(); ++i) {
    std::vector<grammar::NodeId> ways{go(others(builder, known), 0)};
    for (const char c : known) ways.push_back(go(builder.literal(std::string_view(&c, 1)), matched_after(mark, i, c)));
    builder.define(states[i], builder.alternatives(std::move(ways)));
  }
  return builder.reference(states[0]);
}

namespace {

std::string key_of(const GrammarWish& wish) {
  const Constraint& constraint = wish.constraint;
  const ToolUse& tools = wish.tools;
  JsonWriter json;
  json.begin_array().integer(static_cast<int64_t>(constraint.kind)).value(constraint.schema).string(constraint.gbnf);
  json.boolean(tools.required).boolean(tools.parallel).boolean(wish.in_reasoning).begin_array();
  for (const chat::ToolSignature& tool : tools.tools) json.string(tool.name).value(tool.parameters);
  json.end_array().end_array();
  return json.take();
}

}  // namespace

chat::OutputFormat answer_format(const chat::OutputFormat& format, const Constraint& constraint, const ToolUse& tools) {
  chat::OutputFormat chosen = format;
  const bool is_json =
      constraint.kind == Constraint::Kind::json_object || constraint.kind == Constraint::Kind::json_schema;
  if (!tools.tools.empty() && (tools.required || is_json)) chosen.tools = &forced_tool_syntax(format, tools.tools);
  return chosen;
}

GrammarCache::Compiled GrammarCache::cached(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto place = places_.find(key);
  if (place == places_.end()) return nullptr;
  if (engine::grammar::is_spent(*place->second->grammar)) {
    const auto entry = place->second;
    places_.erase(place);
    entries_.erase(entry);
    return nullptr;
  }
  entries_.splice(entries_.begin(), entries_, place->second);
  return place->second->grammar;
}

void GrammarCache::keep(const std::string& key, const Compiled& grammar) {
  const std::lock_guard lock(mutex_);
  if (key.size() > kMostKeyBytes || places_.contains(key)) return;
  entries_.push_front({key, grammar});
  places_.emplace(entries_.front().key, entries_.begin());
  if (entries_.size() <= kMostGrammars) return;
  places_.erase(entries_.back().key);
  entries_.pop_back();
}

namespace {

// Schemas are read as authors mostly mean them: an object that lists properties has no others.
constexpr grammar::SchemaOptions kSchemaOptions{.open = false};

// What an answer is, behind its reasoning: calls, a document, or where both may be either of them.
grammar::NodeId add_answer(grammar::AstBuilder& builder, const GrammarWish& wish) {
  const ToolUse& tools = wish.tools;
  std::vector<grammar::NodeId> ways;
  if (!tools.tools.empty()) ways.push_back(add_tool_calls(builder, wish.format, tools.tools, tools.parallel));
  if (tools.required) return ways.front();
  grammar::NodeId document = wish.constraint.kind == Constraint::Kind::json_schema
                                 ? grammar::add_json_schema(builder, wish.constraint.schema, kSchemaOptions)
                                 : grammar::add_json_object(builder, kSchemaOptions);
  if (wish.format.tools->channels) {
    document = builder.sequence({add_marks(builder, "<|channel|>final<|message|>"), document});
  }
  ways.push_back(document);
  return ways.size() == 1 ? ways.front() : builder.alternatives(std::move(ways));
}

// What a model with channels thinks before it answers: any number of messages.
grammar::NodeId add_analysis(grammar::AstBuilder& builder) {
  const grammar::NodeId text = builder.repeat(builder.code_class({}, true), 0, std::nullopt);
  const grammar::NodeId message = builder.sequence(
      {add_marks(builder, "<|channel|>analysis<|message|>"), text, add_marks(builder, "<|end|><|start|>assistant")});
  return builder.repeat(message, 0, std::nullopt);
}

// Errors: those of the front ends.
grammar::Ast make_ast(const GrammarWish& wish) {
  const chat::OutputFormat& format = wish.format;
  if (wish.constraint.kind == Constraint::Kind::gbnf) {
    return grammar::parse_gbnf(wish.constraint.gbnf, wish.constraint.param);
  }
  grammar::AstBuilder builder;
  grammar::NodeId node = add_answer(builder, wish);
  if (wish.in_reasoning && format.reasoning != nullptr) {
    const grammar::NodeId spaces = builder.repeat(builder.code_class({{'\n', '\n'}, {' ', ' '}}), 0, 4);
    node = add_after_mark(builder, format.reasoning->close, builder.sequence({spaces, node}));
  }
  if (format.tools->channels) node = builder.sequence({add_analysis(builder), node});
  const grammar::RuleId root = builder.declare("root");
  builder.define(root, node);
  return std::move(builder).finish(root);
}

}  // namespace

GrammarCache::Compiled GrammarCache::known(const GrammarWish& wish) {
  return cached(key_of(wish));
}

GrammarCache::Compiled GrammarCache::find(const GrammarWish& wish) {
  if (wish.is_free()) return nullptr;
  const std::string key = key_of(wish);
  if (Compiled found = cached(key)) return found;
  try {
    const Compiled compiled = grammar::compile(make_ast(wish), tokens_);
    // Too ambiguous a grammar mostly shows at its beginning: better here than in a step that others share.
    grammar::Matcher(compiled).mask();
    keep(key, compiled);
    return compiled;
  } catch (const Error& error) {
    throw ApiFailure(grammar_error(error, wish.param()));
  }
}

// Those of a GBNF text's lines name it as its field is called.
ApiError grammar_error(const Error& error, const std::string& param) {
  std::string_view message = error.what();
  if (message.starts_with(grammar::kErrorPrefix)) message.remove_prefix(grammar::kErrorPrefix.size());
  const bool is_named = message.starts_with(param + ", ");
  return {.status = 400,
          .message = is_named ? std::string(message) : fmt::format("{}: {}", param, message),
          .param = param,
          .code = error.code() == ErrorCode::unsupported ? "unsupported_schema" : "invalid_schema"};
}

}  // namespace minfer::server::openai
