// Schemas by id: keywords that are known, those that are annotations alone, and the rest, which is refused with the
// reason and a way out where there is one.
#include "engine/grammar/schema/schema_store.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.hpp"

namespace minfer::engine::grammar::schema {
namespace {

using chat::Kind;
using chat::Value;

constexpr std::array<std::string_view, 30> kKeywords = {"$defs",
                                                        "$ref",
                                                        "additionalProperties",
                                                        "allOf",
                                                        "anyOf",
                                                        "const",
                                                        "definitions",
                                                        "enum",
                                                        "exclusiveMaximum",
                                                        "exclusiveMinimum",
                                                        "format",
                                                        "items",
                                                        "maxItems",
                                                        "maxLength",
                                                        "maxProperties",
                                                        "maximum",
                                                        "minItems",
                                                        "minLength",
                                                        "minProperties",
                                                        "minimum",
                                                        "multipleOf",
                                                        "nullable",
                                                        "oneOf",
                                                        "pattern",
                                                        "patternProperties",
                                                        "prefixItems",
                                                        "properties",
                                                        "required",
                                                        "type",
                                                        "uniqueItems"};

// They say nothing of which documents are valid.
constexpr std::array<std::string_view, 16> kAnnotations = {
    "$comment",      "$schema", "contentEncoding", "contentMediaType",
    "contentSchema", "default", "deprecated",      "description",
    "discriminator", "example", "examples",        "externalDocs",
    "readOnly",      "title",   "writeOnly",       "xml"};

struct Refusal {
  std::string_view keyword;
  std::string_view instead;
};
constexpr std::array<Refusal, 16> kRefusals = {{
    {"not", "list what is allowed"},
    {"if", "write the cases as anyOf"},
    {"then", "write the cases as anyOf"},
    {"else", "write the cases as anyOf"},
    {"contains", "give items, which holds for all of them"},
    {"minContains", "give items, which holds for all of them"},
    {"maxContains", "give items, which holds for all of them"},
    {"dependentRequired", "write the cases as anyOf"},
    {"dependentSchemas", "write the cases as anyOf"},
    {"dependencies", "write the cases as anyOf"},
    {"unevaluatedProperties", "give additionalProperties beside all the properties"},
    {"unevaluatedItems", "give items beside prefixItems"},
    {"additionalItems", "give prefixItems and items, as in draft 2020-12"},
    {"propertyNames", "give patternProperties and additionalProperties: false"},
    {"$dynamicRef", "give $ref"},
    {"$anchor", "refer by JSON pointer"},
}};

// "~1" for "/" and "~0" for "~".
std::string escaped(std::string_view token) {
  std::string out;
  for (const char c : token) {
    out += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  }
  return out;
}

int hex_digit(char c) {
  const size_t place = std::string_view("0123456789abcdefABCDEF").find(c);
  return place == std::string_view::npos ? -1 : static_cast<int>(place < 16 ? place : place - 6);
}

// A step of a reference: percent-encoded, then escaped.
std::string unescaped(std::string_view token) {
  std::string bytes;
  for (size_t i = 0; i < token.size(); ++i) {
    if (token[i] == '%' && i + 2 < token.size() && hex_digit(token[i + 1]) >= 0 && hex_digit(token[i + 2]) >= 0) {
      bytes += static_cast<char>(hex_digit(token[i + 1]) * 16 + hex_digit(token[i + 2]));
      i += 2;
    } else {
      bytes += token[i];
    }
  }
  std::string out;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const bool escape = bytes[i] == '~' && i + 1 < bytes.size() && (bytes[i + 1] == '0' || bytes[i + 1] == '1');
    out += escape ? (bytes[i + 1] == '0' ? '~' : '/') : bytes[i];
    i += escape ? 1 : 0;
  }
  return out;
}

template <size_t n>
bool is_one_of(const std::array<std::string_view, n>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

SchemaStore::SchemaStore(Value document, std::string_view at) : document_(std::move(document)) {
  entries_.push_back({Value::dict({}), 0, "#"});
  entries_.push_back({Value::dict({}), 0, "#"});
  whole_ = add(document_, 0, "#");
  root_ = find_at(std::string(at), "#");
}

SchemaId SchemaStore::add(const Value& value, SchemaId parent, std::string step) {
  if (value.is(Kind::boolean)) {
    return value.as_bool() ? kAnything : kNothing;
  }
  if (!value.is(Kind::dict)) {
    fail(ErrorCode::invalid_input, "JSON schema: {}{} is no schema; an object or a boolean is expected",
         entries_.size() > 2 ? pointer(parent) : "", step);
  }
  if (value.as_dict().empty()) {
    return kAnything;
  }
  const auto [known, is_new] = known_.try_emplace(value.object().get(), static_cast<SchemaId>(entries_.size()));
  if (is_new) {
    if (entries_.size() > kMaxSchemas) {
      fail(ErrorCode::invalid_input, "JSON schema: more than {} schemas in one document; make it smaller", kMaxSchemas);
    }
    entries_.push_back({value, parent, std::move(step)});
    check_keywords(known->second);
  }
  return known->second;
}

SchemaId SchemaStore::child(SchemaId parent, std::string_view key, std::string_view index, const Value& value) {
  std::string step = "/" + std::string(key);
  if (!index.empty() || key == "properties" || key == "patternProperties") {
    step += "/" + escaped(index);
  }
  return add(value, parent, std::move(step));
}

void SchemaStore::check_keywords(SchemaId id) const {
  for (const auto& [key, value] : keywords(id).entries()) {
    const std::string& name = key.as_string();
    if (is_one_of(kKeywords, name) || is_one_of(kAnnotations, name) || name.starts_with("x-")) {
      continue;
    }
    if (name == "$id") {
      if (entries_[id].step == "#") {
        continue;
      }
      fail(ErrorCode::unsupported,
           "JSON schema: {} in an inner schema is not supported; remove it and refer by JSON pointer",
           pointer(id, name));
    }
    const auto refusal =
        std::find_if(kRefusals.begin(), kRefusals.end(), [&](const Refusal& one) { return one.keyword == name; });
    fail(ErrorCode::unsupported, "JSON schema: {}: the keyword '{}' is not supported; {}", pointer(id, name), name,
         refusal != kRefusals.end() ? refusal->instead : "remove it");
  }
  if (const Value* unique = find(id, "uniqueItems");
      unique != nullptr && (!unique->is(Kind::boolean) || unique->as_bool())) {
    fail(ErrorCode::unsupported,
         "JSON schema: {}: the keyword 'uniqueItems' is not supported; remove it, or give a maxItems of 1",
         pointer(id, "uniqueItems"));
  }
}

SchemaId SchemaStore::resolve(SchemaId from) {
  const Value& ref = *find(from, "$ref");
  if (!ref.is_string()) {
    fail(ErrorCode::invalid_input, "JSON schema: {} is no string; \"#/$defs/NAME\" is expected", pointer(from, "$ref"));
  }
  return find_at(ref.as_string(), pointer(from, "$ref"));
}

SchemaId SchemaStore::find_at(const std::string& text, const std::string& where) {
  if (text != "#" && !text.starts_with("#/")) {
    fail(ErrorCode::unsupported,
         "JSON schema: {}: '{}' is not within this document; put it under $defs and refer to \"#/$defs/NAME\"", where,
         text);
  }
  const Value* at = &document_;
  std::string step = "#";
  for (size_t i = 1; i < text.size();) {
    const size_t end = std::min(text.find('/', i + 1), text.size());
    const std::string token = unescaped(std::string_view(text).substr(i + 1, end - i - 1));
    const Value* next = nullptr;
    if (at->is(Kind::dict)) {
      next = at->as_dict().find(token);
    } else if (at->is(Kind::list)) {
      const bool is_index =
          !token.empty() && token.size() < 9 && token.find_first_not_of("0123456789") == std::string::npos;
      const size_t index = is_index ? static_cast<size_t>(std::stoul(token)) : at->items().size();
      next = index < at->items().size() ? &at->items()[index] : nullptr;
    }
    if (next == nullptr) {
      fail(ErrorCode::invalid_input, "JSON schema: {}: there is nothing at '{}'; refer to a schema of this document",
           where, text);
    }
    at = next;
    step += "/" + escaped(token);
    i = end;
  }
  if (at == &document_) {
    return whole_;
  }
  return add(*at, kAnything, step);
}

std::string SchemaStore::pointer(SchemaId id) const {
  std::string out;
  for (;;) {
    const Entry& entry = entries_[id];
    out.insert(0, entry.step);
    if (entry.step.starts_with("#")) {
      return out;
    }
    id = entry.parent;
  }
}

std::string SchemaStore::pointer(SchemaId id, std::string_view keyword) const {
  return pointer(id) + "/" + escaped(keyword);
}

}  // namespace minfer::engine::grammar::schema
