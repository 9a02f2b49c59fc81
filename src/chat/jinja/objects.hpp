// The interpreter's own values: undefined, iterators, loops, macros, namespaces, bound methods ... They live inside one
// rendering. Namespaces and captured scopes are the only ones that can form cycles; the interpreter empties them at its
// end.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chat/jinja/ast.hpp"

namespace minfer::chat::jinja {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keyword;
};

// Produces the next item; false at the end.
using Next = std::function<bool(Value& item)>;
using MethodFunction = Value (*)(Interpreter& in, const Value& self, const Arguments& arguments);
using GlobalFunction = Value (*)(Interpreter& in, const Arguments& arguments);

enum class ObjectType : uint8_t {
  undefined,
  range,
  view,
  iterator,
  space,
  macro,
  loop,
  function,
  method,
  cycler,
  joiner
};

struct JinjaObject : Object {
  JinjaObject(ObjectType type_in, uint32_t depth_in) : Object(depth_in), type(type_in) {}
  const ObjectType type;
};

struct UndefinedObject : JinjaObject {
  UndefinedObject() : JinjaObject(ObjectType::undefined, 1) {}
  std::string message() const;
  std::string hint;         // the whole message, where it is not one of the two below
  std::string name;         // "'name' is undefined", or "'<owner>' has no attribute 'name'"
  std::string owner;        // "dict object"; empty: a variable
  bool is_element = false;  // "<owner> has no element <name>"
};

struct RangeObject : JinjaObject {
  RangeObject(int64_t start_in, int64_t stop_in, int64_t step_in, int64_t size_in)
      : JinjaObject(ObjectType::range, 1), start(start_in), stop(stop_in), step(step_in), size(size_in) {}
  Value at(int64_t index) const { return Value::integer(start + step * index); }
  bool equals(const Object& other) const override;  // the same numbers
  int64_t start, stop, step, size;
};

// dict.keys(), .values(), .items().
enum class ViewKind : uint8_t { keys, values, items };
struct ViewObject : JinjaObject {
  ViewObject(Value dict_in, ViewKind kind_in)
      : JinjaObject(ObjectType::view, dict_in.depth() + 1), dict(std::move(dict_in)), kind(kind_in) {}
  Value dict;
  ViewKind kind;
};

struct IteratorObject : JinjaObject {
  IteratorObject(Next next_in, uint32_t inner_depth)
      : JinjaObject(ObjectType::iterator, inner_depth + 1), next(std::move(next_in)) {}
  Next next;
};

struct NamespaceObject : JinjaObject {
  NamespaceObject() : JinjaObject(ObjectType::space, 1) {}
  Dict attributes;
};

struct Scope {
  explicit Scope(std::shared_ptr<Scope> parent_in) : parent(std::move(parent_in)) {}
  const Value* find(int slot) const {
    for (const auto& [other, value] : variables) {
      if (other == slot) return &value;
    }
    return nullptr;
  }
  void set(int slot, Value value);
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<int, Value>> variables;
  bool captured = false;  // by a macro: the interpreter empties it at its end
};

struct MacroObject : JinjaObject {
  MacroObject(const MacroDefinition& definition_in, std::shared_ptr<Scope> scope_in)
      : JinjaObject(ObjectType::macro, 1), definition(definition_in), scope(std::move(scope_in)) {}
  const MacroDefinition& definition;
  std::shared_ptr<Scope> scope;
};

// The variable `loop`. Like jinja2's, it runs ahead of the body only where the template asks (last, nextitem, length).
struct LoopObject : JinjaObject {
  LoopObject(Value iterable_in, Next next_in, int64_t depth0_in)
      : JinjaObject(ObjectType::loop, iterable_in.depth() + 1),
        iterable(std::move(iterable_in)),
        next(std::move(next_in)),
        depth0(depth0_in) {}
  bool advance();  // to the next item, in `current`
  bool peek();     // whether there is another one, in `after`
  Value iterable;
  Next next;
  int64_t depth0;
  int64_t index0 = -1;
  std::optional<int64_t> length;
  bool has_after = false;
  bool at_end = false;
  Value after, current, before;
  std::optional<std::vector<Value>> last_changed;
  const Stmt* recursive = nullptr;  // the loop statement, where it is recursive
  std::shared_ptr<Scope> scope;     // around it
};

struct FunctionObject : JinjaObject {
  FunctionObject(const char* name_in, GlobalFunction call_in)
      : JinjaObject(ObjectType::function, 1), name(name_in), call(call_in) {}
  const char* name;
  GlobalFunction call;
};

struct MethodObject : JinjaObject {
  MethodObject(Value self_in, std::string name_in, MethodFunction call_in)
      : JinjaObject(ObjectType::method, self_in.depth() + 1),
        self(std::move(self_in)),
        name(std::move(name_in)),
        call(call_in) {}
  Value self;
  std::string name;
  MethodFunction call;
};

struct CyclerObject : JinjaObject {
  CyclerObject(std::vector<Value> items_in, uint32_t inner_depth)
      : JinjaObject(ObjectType::cycler, inner_depth + 1), items(std::move(items_in)) {}
  std::vector<Value> items;
  size_t position = 0;
};

struct JoinerObject : JinjaObject {
  explicit JoinerObject(Value separator_in)
      : JinjaObject(ObjectType::joiner, separator_in.depth() + 1), separator(std::move(separator_in)) {}
  Value separator;
  bool used = false;
};

// The object of a Value of kind object or undefined.
inline JinjaObject& object_of(const Value& value) {
  return static_cast<JinjaObject&>(*value.object());
}
inline bool is_object(const Value& value, ObjectType type) {
  return value.is(Kind::object) && object_of(value).type == type;
}
template <class T>
T& as(const Value& value) {
  return static_cast<T&>(*value.object());
}

template <class T, class... Args>
Value make_object(Args&&... args) {
  auto object = std::make_shared<T>(std::forward<Args>(args)...);
  const Kind kind = object->type == ObjectType::undefined ? Kind::undefined : Kind::object;
  return Value::object(kind, std::move(object));
}

Value undefined_name(std::string name);
Value undefined_hint(std::string message);
Value undefined_attribute(const Value& owner, const std::string& name);

// The name of a value's Python type: "str", "NoneType", "dict_items" ...
std::string type_name(const Value& value);
// How jinja2 names an object in messages: "dict object", "None", "jinja2.runtime.Macro object".
std::string owner_name(const Value& value);

}  // namespace minfer::chat::jinja
