// Arguments between tags: which schemas can be written so, and the grammar of those.
#include "server/tagged_arguments.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "chat/output/value_types.hpp"
#include "engine/grammar/json_schema.hpp"
#include "engine/grammar/schema/dfa.hpp"
#include "engine/grammar/schema/regex.hpp"

namespace minfer::server {
namespace {

namespace grammar = engine::grammar;
using chat::Kind;
using chat::ToolSyntax;
using chat::Value;
using chat::output::TypeSet;
using grammar::AstBuilder;
using grammar::NodeId;

constexpr std::array<std::string_view, 6> kAnnotations = {"title",   "description", "default",
                                                          "example", "examples",    "$comment"};
constexpr std::array<std::string_view, 7> kObjectKeywords = {"type",  "properties",  "required", "additionalProperties",
                                                             "$defs", "definitions", "$schema"};

// Whether the schema has no keywords but these and annotations.
bool has_only(const chat::Dict& schema, std::initializer_list<std::string_view> keywords) {
  return std::all_of(schema.entries().begin(), schema.entries().end(), [&](const auto& entry) {
    const std::string& name = entry.first.as_string();
    return std::find(keywords.begin(), keywords.end(), name) != keywords.end() ||
           std::find(kAnnotations.begin(), kAnnotations.end(), name) != kAnnotations.end();
  });
}

bool is_type(const Value* type, std::string_view name) {
  return type != nullptr && type->is_string() && type->as_string() == name;
}

// Whether any text is valid: a string without limits, perhaps or null (which the parser reads of "null").
bool is_free_text(const Value& schema) {
  if (!schema.is(Kind::dict)) {
    return false;
  }
  const chat::Dict& keywords = schema.as_dict();
  const Value* type = keywords.find("type");
  if (has_only(keywords, {"type"}) && type != nullptr) {
    return is_type(type, "string") || (type->is(Kind::list) && type->items().size() == 2 &&
                                       std::any_of(type->items().begin(), type->items().end(),
                                                   [](const Value& one) { return is_type(&one, "string"); }) &&
                                       std::any_of(type->items().begin(), type->items().end(),
                                                   [](const Value& one) { return is_type(&one, "null"); }));
  }
  const Value* ways = keywords.find("anyOf");
  return has_only(keywords, {"anyOf"}) && ways != nullptr && ways->is(Kind::list) && ways->items().size() == 2 &&
         std::any_of(ways->items().begin(), ways->items().end(), is_free_text) &&
         std::any_of(ways->items().begin(), ways->items().end(), [](const Value& way) {
           return way.is(Kind::dict) && has_only(way.as_dict(), {"type"}) &&
                  is_type(way.as_dict().find("type"), "null");
         });
}

// The texts of a string that is listed; empty: it is not.
std::vector<std::string> listed_texts(const Value& schema, std::string_view end) {
  std::vector<std::string> texts;
  if (!schema.is(Kind::dict) || !has_only(schema.as_dict(), {"type", "enum", "const"})) {
    return texts;
  }
  const Value* type = schema.as_dict().find("type");
  const Value* values = schema.as_dict().find("enum");
  const Value* value = schema.as_dict().find("const");
  if ((type != nullptr && !is_type(type, "string")) || (values == nullptr) == (value == nullptr) ||
      (values != nullptr && !values->is(Kind::list))) {
    return texts;
  }
  for (const Value& one : values != nullptr ? values->items() : std::vector<Value>{*value}) {
    if (!one.is_string() || one.as_string().find(end) != std::string::npos) {
      return {};
    }
    texts.push_back(one.as_string());
  }
  return texts;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \n";
  const size_t first = text.find_first_not_of(kSpace);
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(kSpace) + 1 - first);
}

// Text in which the mark is not.
NodeId text_without(AstBuilder& builder, std::string_view mark) {
  grammar::schema::RegexPool pool;
  const grammar::schema::RegexId inside =
      pool.concat(pool.any_text(), pool.concat(pool.literal(mark), pool.any_text()));
  const auto dfa = grammar::schema::make_dfa(pool, pool.inverse(inside));
  check(dfa.has_value(), "a mark has a small automaton");
  const grammar::schema::WriteClass write = [](AstBuilder& to, const std::vector<grammar::CodeRange>& ranges) {
    return to.code_class(ranges);
  };
  return grammar::schema::add_dfa(builder, *dfa, write, "", "text");
}

// A step of a JSON pointer.
std::string escaped(std::string_view name) {
  std::string out;
  for (const char c : name) {
    out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  }
  return out;
}

NodeId add_parameter(AstBuilder& builder, const ToolSyntax& syntax, const Value& parameters, const std::string& name,
                     const Value& schema) {
  const std::string_view end = trimmed(syntax.parameter_end);
  std::vector<NodeId> ways;
  for (const std::string& text : listed_texts(schema, end)) {
    ways.push_back(builder.literal(text));
  }
  const bool is_text = !ways.empty() || is_free_text(schema);
  if (ways.empty()) {
    const std::string at = "#/properties/" + escaped(name);
    ways.push_back(is_text ? text_without(builder, end)
                           : grammar::add_json_schema(builder, parameters, {.open = false, .at = at}));
  }
  const std::string_view name_end =
      is_text && !syntax.text_name_end.empty() ? syntax.text_name_end : syntax.parameter_name_end;
  return builder.sequence({add_marks(builder, syntax.parameter_begin), builder.literal(name),
                           add_marks(builder, name_end), builder.alternatives(std::move(ways)),
                           add_marks(builder, syntax.parameter_end)});
}

}  // namespace

NodeId add_marks(AstBuilder& builder, std::string_view piece) {
  std::vector<NodeId> parts;
  while (!piece.empty()) {
    // The next mark: from an opening bracket to its closing one, without another between.
    size_t begin = piece.find_first_of("<[");
    size_t end = std::string_view::npos;
    while (begin != std::string_view::npos) {
      end = piece.find_first_of("<[>]", begin + 1);
      if (end != std::string_view::npos && piece[end] == (piece[begin] == '<' ? '>' : ']') && end > begin + 1) {
        break;
      }
      begin = piece.find_first_of("<[", begin + 1);
      end = std::string_view::npos;
    }
    if (begin == std::string_view::npos) {
      parts.push_back(builder.literal(piece));
      break;
    }
    if (begin > 0) {
      parts.push_back(builder.literal(piece.substr(0, begin)));
    }
    parts.push_back(builder.literal(piece.substr(begin, end + 1 - begin)));
    piece.remove_prefix(end + 1);
  }
  return builder.sequence(std::move(parts));
}

bool can_tag_arguments(const ToolSyntax& syntax, const Value& parameters) {
  if (syntax.cdata || !parameters.is(Kind::dict)) {
    return false;
  }
  const chat::Dict& keywords = parameters.as_dict();
  const Value* properties = keywords.find("properties");
  const Value* required = keywords.find("required");
  if (properties == nullptr || !properties->is(Kind::dict) || (required != nullptr && !required->is(Kind::list)) ||
      (keywords.find("type") != nullptr && !is_type(keywords.find("type"), "object")) ||
      !std::all_of(keywords.entries().begin(), keywords.entries().end(), [](const auto& entry) {
        const std::string& name = entry.first.as_string();
        return std::find(kObjectKeywords.begin(), kObjectKeywords.end(), name) != kObjectKeywords.end() ||
               std::find(kAnnotations.begin(), kAnnotations.end(), name) != kAnnotations.end();
      })) {
    return false;
  }
  const chat::Dict& listed = properties->as_dict();
  const auto known = [&](const Value& name) { return name.is_string() && listed.find(name.as_string()) != nullptr; };
  if (required != nullptr && !std::all_of(required->items().begin(), required->items().end(), known)) {
    return false;
  }
  const std::string_view end = trimmed(syntax.parameter_end);
  return std::all_of(listed.entries().begin(), listed.entries().end(), [&](const auto& entry) {
    const std::string& name = entry.first.as_string();
    const bool plain_name = !name.empty() && name.find_first_of("<>\"\n ") == std::string::npos;
    const bool has_text = (chat::output::parameter_types(parameters, name).bits & TypeSet::text) != 0;
    return plain_name && (!has_text || is_free_text(entry.second) || !listed_texts(entry.second, end).empty());
  });
}

NodeId add_tagged_arguments(AstBuilder& builder, const ToolSyntax& syntax, const Value& parameters) {
  const chat::Dict& keywords = parameters.as_dict();
  const Value* required = keywords.find("required");
  std::vector<NodeId> parts;
  for (const auto& [name, schema] : keywords.find("properties")->as_dict().entries()) {
    const NodeId part = add_parameter(builder, syntax, parameters, name.as_string(), schema);
    const auto is_name = [&key = name](const Value& one) { return chat::equal(one, key); };
    const bool must = required != nullptr && std::any_of(required->items().begin(), required->items().end(), is_name);
    parts.push_back(must ? part : builder.optional(part));
  }
  return builder.sequence(std::move(parts));
}

}  // namespace minfer::server
