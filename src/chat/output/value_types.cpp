// Types of a schema: type, enum, const, anyOf, oneOf, allOf and references into the schema itself.
#include "chat/output/value_types.hpp"

#include "chat/output/argument_readers.hpp"
#include "chat/output/json_scanner.hpp"
#include "chat/output_parser.hpp"

namespace minfer::chat::output {

namespace {

constexpr int kMostSchemaDepth = 16;

const Value* field(const Value& value, std::string_view key) {
  return value.is(Kind::dict) ? value.as_dict().find(key) : nullptr;
}

uint8_t type_named(const Value& name) {
  if (!name.is_string()) return 0;
  const std::string& text = name.as_string();
  if (text == "string") return TypeSet::text;
  if (text == "integer" || text == "number") return TypeSet::number;
  if (text == "boolean") return TypeSet::boolean;
  if (text == "null") return TypeSet::none;
  if (text == "array") return TypeSet::list;
  if (text == "object") return TypeSet::dict;
  return TypeSet::any;
}

uint8_t type_of(const Value& value) {
  switch (value.kind()) {
    case Kind::string:
      return TypeSet::text;
    case Kind::boolean:
      return TypeSet::boolean;
    case Kind::integer:
    case Kind::floating:
      return TypeSet::number;
    case Kind::none:
      return TypeSet::none;
    case Kind::list:
      return TypeSet::list;
    default:
      return TypeSet::dict;
  }
}

// "#/$defs/a/b" in `root`; null where it leads nowhere.
const Value* referred(const Value& root, std::string_view path) {
  if (!path.starts_with("#")) return nullptr;
  path.remove_prefix(1);
  const Value* at = &root;
  while (at != nullptr && path.starts_with("/")) {
    path.remove_prefix(1);
    const std::string_view step = path.substr(0, path.find('/'));
    at = field(*at, step);
    path.remove_prefix(step.size());
  }
  return path.empty() ? at : nullptr;
}

uint8_t types_of(const Value& schema, const Value& root, int depth);

template <class Join>
uint8_t types_of_all(const Value& schemas, const Value& root, int depth, uint8_t start, Join&& join) {
  if (!schemas.is(Kind::list)) return TypeSet::any;
  uint8_t bits = start;
  for (const Value& schema : schemas.items())
    bits = static_cast<uint8_t>(join(bits, types_of(schema, root, depth + 1)));
  return bits;
}

uint8_t types_of(const Value& schema, const Value& root, int depth) {
  if (depth > kMostSchemaDepth || !schema.is(Kind::dict)) return TypeSet::any;
  const auto either = [](int left, int right) { return left | right; };
  const auto both = [](int left, int right) { return left & right; };
  int bits = TypeSet::any;
  if (const Value* type = field(schema, "type"); type != nullptr) {
    if (type->is(Kind::list)) {
      int listed = 0;
      for (const Value& name : type->items()) listed |= type_named(name);
      bits &= listed;
    } else {
      bits &= type_named(*type);
    }
  }
  if (const Value* values = field(schema, "enum"); values != nullptr && values->is(Kind::list)) {
    int listed = 0;
    for (const Value& value : values->items()) listed |= type_of(value);
    bits &= listed;
  }
  if (const Value* value = field(schema, "const"); value != nullptr) bits &= type_of(*value);
  if (const Value* choices = field(schema, "anyOf"); choices != nullptr)
    bits &= types_of_all(*choices, root, depth, 0, either);
  if (const Value* choices = field(schema, "oneOf"); choices != nullptr)
    bits &= types_of_all(*choices, root, depth, 0, either);
  if (const Value* parts = field(schema, "allOf"); parts != nullptr)
    bits &= types_of_all(*parts, root, depth, TypeSet::any, both);
  if (const Value* path = field(schema, "$ref"); path != nullptr && path->is_string()) {
    if (const Value* target = referred(root, path->as_string()); target != nullptr)
      bits &= types_of(*target, root, depth + 1);
  }
  return static_cast<uint8_t>(bits);
}

// Of JSON text that was read before.
uint8_t type_of_json(std::string_view json) {
  switch (json.front()) {
    case '"':
      return TypeSet::text;
    case '{':
      return TypeSet::dict;
    case '[':
      return TypeSet::list;
    case 't':
    case 'f':
      return TypeSet::boolean;
    case 'n':
      return TypeSet::none;
    default:
      return TypeSet::number;
  }
}

// A list or dictionary as Python writes it, read as the one argument of a call.
bool read_python(std::string_view text, std::string& json) {
  if (!text.starts_with('{') && !text.starts_with('[')) return false;
  constexpr std::string_view kBegin = "{\"v\": ";
  std::string call = "v=" + std::string(text) + ")";
  std::string arguments;
  const Match match = make_literal_reader(ArgumentStyle::python)->read(call, true, arguments);
  if (match.fit != Fit::yes || match.size + 1 != call.size()) return false;
  json = arguments.substr(kBegin.size(), arguments.size() - kBegin.size() - 1);
  return true;
}

}  // namespace

TypeSet parameter_types(const Value& parameters, std::string_view key) {
  const Value* properties = field(parameters, "properties");
  const Value* schema = properties == nullptr ? nullptr : field(*properties, key);
  if (schema == nullptr) return {};
  const uint8_t bits = types_of(*schema, parameters, 0);
  return {bits == 0 ? static_cast<uint8_t>(TypeSet::any) : bits};
}

std::string json_of_text(std::string_view text, TypeSet types) {
  std::string json;
  // A quoted value is a JSON string only where nothing says that a string is meant: else the quotes are its own.
  const bool is_value =
      !types.only_text() && (read_json(trimmed(text), kMaxArgumentDepth, json) || read_python(trimmed(text), json));
  if (is_value) {
    const uint8_t type = type_of_json(json);
    if ((types.bits & type) != 0 && (type != TypeSet::text || types.bits == TypeSet::any)) return json;
  }
  json = "\"";
  append_escaped(json, text);
  return json + "\"";
}

}  // namespace minfer::chat::output
