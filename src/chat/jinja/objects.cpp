// Names and messages of the interpreter's own values, and the loop's stepping. See objects.hpp.
#include "chat/jinja/objects.hpp"

#include "chat/jinja/text.hpp"

namespace minfer::chat::jinja {

std::string UndefinedObject::message() const {
  if (!hint.empty()) return hint;
  if (owner.empty()) return quote(name) + " is undefined";
  if (is_element) return owner + " has no element " + name;
  return quote(owner) + " has no attribute " + quote(name);
}

bool RangeObject::equals(const Object& other) const {
  const auto* range = dynamic_cast<const RangeObject*>(&other);
  if (range == nullptr || range->size != size) return false;
  return size == 0 || (range->start == start && (size == 1 || range->step == step));
}

void Scope::set(int slot, Value value) {
  for (auto& [other, old] : variables) {
    if (other == slot) {
      old = std::move(value);
      return;
    }
  }
  variables.emplace_back(slot, std::move(value));
}

bool LoopObject::peek() {
  if (has_after) return true;
  if (at_end) return false;
  has_after = next(after);
  at_end = !has_after;
  return has_after;
}

bool LoopObject::advance() {
  if (!peek()) return false;
  ++index0;
  before = std::move(current);
  current = std::move(after);
  after = Value();
  has_after = false;
  return true;
}

Value undefined_name(std::string name) {
  Value value = make_object<UndefinedObject>();
  as<UndefinedObject>(value).name = std::move(name);
  return value;
}

Value undefined_hint(std::string message) {
  Value value = make_object<UndefinedObject>();
  as<UndefinedObject>(value).hint = std::move(message);
  return value;
}

Value undefined_attribute(const Value& owner, const std::string& name) {
  Value value = make_object<UndefinedObject>();
  auto& object = as<UndefinedObject>(value);
  object.name = name;
  object.owner = owner_name(owner);
  return value;
}

namespace {

const char* object_type_name(const JinjaObject& object) {
  switch (object.type) {
    case ObjectType::undefined:
      return "Undefined";
    case ObjectType::range:
      return "range";
    case ObjectType::iterator:
      return "generator";
    case ObjectType::space:
      return "TemplateNamespace";
    case ObjectType::macro:
      return "Macro";
    case ObjectType::loop:
      return "LoopContext";
    case ObjectType::function:
      return "function";
    case ObjectType::method:
      return "builtin_function_or_method";
    case ObjectType::cycler:
      return "Cycler";
    case ObjectType::joiner:
      return "Joiner";
    case ObjectType::view:
      break;
  }
  switch (static_cast<const ViewObject&>(object).kind) {
    case ViewKind::keys:
      return "dict_keys";
    case ViewKind::values:
      return "dict_values";
    case ViewKind::items:
      break;
  }
  return "dict_items";
}

const char* module_of(ObjectType type) {
  switch (type) {
    case ObjectType::undefined:
    case ObjectType::macro:
    case ObjectType::loop:
      return "jinja2.runtime.";
    case ObjectType::cycler:
    case ObjectType::joiner:
      return "jinja2.utils.";
    default:
      return "";
  }
}

}  // namespace

std::string type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::none:
      return "NoneType";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
      return "int";
    case Kind::floating:
      return "float";
    case Kind::string:
      return value.is_markup() ? "Markup" : "str";
    case Kind::list:
      return "list";
    case Kind::tuple:
      return "tuple";
    case Kind::dict:
      return "dict";
    case Kind::undefined:
    case Kind::object:
      break;
  }
  return object_type_name(object_of(value));
}

std::string owner_name(const Value& value) {
  if (value.is_none()) return "None";
  const bool has_module = value.is(Kind::object) || value.is_undefined();
  return (has_module ? module_of(object_of(value).type) : "") + type_name(value) + " object";
}

}  // namespace minfer::chat::jinja
