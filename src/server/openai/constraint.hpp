// What an answer is held to: response_format, a grammar of the request's own, or calls of tools; and the cache of the
// grammars compiled from them, so that a schema that comes again costs nothing.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "chat/output_parser.hpp"
#include "engine/grammar/ast.hpp"
#include "engine/grammar/grammar.hpp"
#include "server/api_error.hpp"
#include "server/openai/fields.hpp"

namespace minfer::server::openai {

inline constexpr size_t kMostGrammars = 64;  // in the cache

struct Constraint {
  enum class Kind : uint8_t { none, json_object, json_schema, gbnf };
  Kind kind = Kind::none;
  chat::Value schema;  // with json_schema
  std::string gbnf;    // with gbnf
  std::string param;   // the field that asks for it, for messages
};

// Which calls the answer may or must have.
struct ToolUse {
  std::vector<chat::ToolSignature> tools;  // that may be called
  bool required = false;                   // the answer is calls, and nothing else
  bool parallel = true;                    // more than one
};

// `format`: {"type": "text" | "json_object" | "json_schema", ...}, with the schema in `format.json_schema` or, where
// `flat`, in `format` itself. Errors: ApiFailure.
Constraint read_response_format(Fields format, bool flat);
// The fields response_format and grammar of a request. Errors: ApiFailure, where both are given.
Constraint read_constraint(Fields& fields);

// What the grammar of an answer is made of: both of them. `in_reasoning`: the answer begins within reasoning, and what
// holds it comes behind the closing mark. `format` has a syntax in which calls can be forced, where there are tools
// (answer_format).
struct GrammarWish {
  Constraint constraint;
  ToolUse tools;
  chat::OutputFormat format;
  bool in_reasoning = false;

  // The answer is free: it has no grammar.
  bool is_free() const { return constraint.kind == Constraint::Kind::none && !tools.required; }
  // The field that asks for it.
  std::string param() const { return tools.required ? "tools" : constraint.param; }
};

// An error of a grammar as a client is told of it: with the field that asked for the grammar. Others are api_error()'s.
ApiError grammar_error(const Error& error, const std::string& param);

class GrammarCache {
 public:
  explicit GrammarCache(std::shared_ptr<const engine::grammar::TokenTable> tokens) : tokens_(std::move(tokens)) {}

  using Compiled = std::shared_ptr<const engine::grammar::Grammar>;

  // What `wish` asks for, where that is not free: null where it is not in the cache. Any thread.
  Compiled known(const GrammarWish& wish);
  // The same, compiled in the caller's thread where it is not there: up to a second. Errors: ApiFailure, naming the
  // field.
  Compiled find(const GrammarWish& wish);

 private:
  struct Entry {
    std::string key;
    Compiled grammar;
  };

  Compiled cached(const std::string& key);
  void keep(const std::string& key, const Compiled& grammar);

  std::shared_ptr<const engine::grammar::TokenTable> tokens_;
  std::mutex mutex_;
  std::list<Entry> entries_;  // the latest used first
  std::unordered_map<std::string_view, std::list<Entry>::iterator> places_;
};

// The format of answers under both: the model's own, unless calls can't be forced in it.
chat::OutputFormat answer_format(const chat::OutputFormat& format, const Constraint& constraint, const ToolUse& tools);

// A node for any text up to and with `mark` (not empty, ASCII), then `rest`.
engine::grammar::NodeId add_after_mark(engine::grammar::AstBuilder& builder, std::string_view mark,
                                       engine::grammar::NodeId rest);

}  // namespace minfer::server::openai
