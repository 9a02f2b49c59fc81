// Expressions: evaluation, lookups of attributes and items, calls, iteration. The half of Interpreter that makes
// values; interpreter.cpp is the half that runs statements and counts limits. Each evaluated node costs a step and a
// level of depth, constants and names excepted: they cannot nest. See interpreter.hpp.
#include <algorithm>

#include "chat/jinja/interpreter.hpp"
#include "chat/jinja/operators.hpp"
#include "chat/jinja/present.hpp"
#include "chat/jinja/scopes.hpp"
#include "chat/jinja/text.hpp"

namespace minfer::chat::jinja {
namespace {

// Marks a failure inside `work` as coming from the construct, unless something nearer did.
template <class Work>
auto within(const char* what, std::string_view name, const Work& work) {
  try {
    return work();
  } catch (RenderFailure& failure) {
    if (failure.construct.empty() && !failure.by_template) failure.construct = fmt::format("{} '{}'", what, name);
    throw;
  }
}

Value unsafe_attribute(const Value& object, const std::string& name) {
  return undefined_hint(fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, type_name(object)));
}

}  // namespace

Value Interpreter::evaluate(const Expr& expr) {
  if (expr.kind == ExprKind::constant) return expr.constant;
  if (expr.kind == ExprKind::name) return evaluate_name(expr);
  const Level level(*this);
  step();
  line_ = expr.line;
  return evaluate_node(expr);
}

Value Interpreter::evaluate_node(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::constant:
      return expr.constant;
    case ExprKind::name:
    case ExprKind::namespace_target:
      return evaluate_name(expr);
    case ExprKind::list:
    case ExprKind::tuple:
      return evaluate_items(expr);
    case ExprKind::dict:
      return evaluate_dict(expr);
    case ExprKind::negate:
      return negate(evaluate(*expr.children[0]));
    case ExprKind::plus:
      return positive(evaluate(*expr.children[0]));
    case ExprKind::logical_not:
      return Value::boolean(!truth(evaluate(*expr.children[0])));
    case ExprKind::binary: {
      const Value left = evaluate(*expr.children[0]);
      return binary(*this, expr.op, left, evaluate(*expr.children[1]));
    }
    case ExprKind::compare:
      return evaluate_compare(expr);
    case ExprKind::logical_and: {
      Value left = evaluate(*expr.children[0]);
      return truth(left) ? evaluate(*expr.children[1]) : left;
    }
    case ExprKind::logical_or: {
      Value left = evaluate(*expr.children[0]);
      return truth(left) ? left : evaluate(*expr.children[1]);
    }
    case ExprKind::concat:
      return evaluate_concat(expr);
    case ExprKind::conditional:
      return evaluate_conditional(expr);
    case ExprKind::attribute:
      return get_attribute(evaluate(*expr.children[0]), expr.text);
    case ExprKind::item: {
      const Value object = evaluate(*expr.children[0]);
      return get_item(object, evaluate(*expr.children[1]));
    }
    case ExprKind::slice_item:
      return evaluate_slice(expr);
    case ExprKind::call:
      return evaluate_call(expr, nullptr);
    case ExprKind::filter:
      return evaluate_filter(expr);
    case ExprKind::test:
      return evaluate_test(expr);
  }
  return Value();
}

Value Interpreter::evaluate_name(const Expr& expr) {
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get()) {
    step();
    const Value* found = scope->find(expr.slot);
    if (found != nullptr) return *found;
  }
  return context_[static_cast<size_t>(expr.slot)];
}

Value Interpreter::evaluate_items(const Expr& expr) {
  std::vector<Value> items;
  items.reserve(expr.children.size());
  for (const ExprPtr& child : expr.children) items.push_back(evaluate(*child));
  return expr.kind == ExprKind::list ? make_list(std::move(items)) : make_tuple(std::move(items));
}

Value Interpreter::evaluate_dict(const Expr& expr) {
  Dict dict;
  for (size_t index = 0; index + 1 < expr.children.size(); index += 2) {
    const Value key = evaluate(*expr.children[index]);
    if (!hashable(key)) raise("unhashable type: '{}'", type_name(key));
    dict.set(key, evaluate(*expr.children[index + 1]));
  }
  return make_dict(std::move(dict));
}

// a < b < c is (a < b) and (b < c), each operand evaluated once.
Value Interpreter::evaluate_compare(const Expr& expr) {
  Value left = evaluate(*expr.children[0]);
  for (size_t index = 0; index < expr.ops.size(); ++index) {
    Value right = evaluate(*expr.children[index + 1]);
    if (!compare(*this, expr.ops[index], left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Interpreter::evaluate_concat(const Expr& expr) {
  std::string text;
  for (const ExprPtr& child : expr.children) {
    const Value part = evaluate(*child);
    if (part.is_string()) {
      reserve_text(text.size() + part.as_string().size());
      text += part.as_string();
    } else {
      append_text(*this, text, part);
    }
  }
  return make_string(std::move(text));
}

Value Interpreter::evaluate_conditional(const Expr& expr) {
  if (truth(evaluate(*expr.children[0]))) return evaluate(*expr.children[1]);
  if (expr.children[2] != nullptr) return evaluate(*expr.children[2]);
  return undefined_hint(fmt::format(
      "the inline if-expression on line {} evaluated to false and no else section was defined.", expr.line));
}

Value Interpreter::evaluate_slice(const Expr& expr) {
  const Value object = evaluate(*expr.children[0]);
  std::optional<Value> bounds[3];
  for (size_t index = 0; index < 3; ++index) {
    if (expr.children[index + 1] != nullptr) bounds[index] = evaluate(*expr.children[index + 1]);
  }
  const auto pointer = [](const std::optional<Value>& bound) { return bound && !bound->is_none() ? &*bound : nullptr; };
  return slice(*this, object, pointer(bounds[0]), pointer(bounds[1]), pointer(bounds[2]));
}

void Interpreter::expand_arguments(const Expr& expr, Arguments& arguments) {
  if (expr.star != nullptr) {
    for (Value& item : collect(evaluate(*expr.star))) arguments.positional.push_back(std::move(item));
  }
  if (expr.star_star == nullptr) return;
  const Value extra = evaluate(*expr.star_star);
  if (!extra.is(Kind::dict)) raise("argument after ** must be a mapping, not {}", type_name(extra));
  for (const auto& [key, value] : extra.as_dict().entries()) {
    if (!key.is_string()) raise("keywords must be strings");
    for (const auto& other : arguments.keyword) {
      if (other.first == key.as_string()) raise("got multiple values for keyword argument '{}'", key.as_string());
    }
    arguments.keyword.emplace_back(key.as_string(), value);
  }
}

Arguments Interpreter::evaluate_arguments(const Expr& expr) {
  Arguments arguments;
  for (size_t index = 1; index < expr.children.size(); ++index) {
    arguments.positional.push_back(evaluate(*expr.children[index]));
  }
  for (const Keyword& keyword : expr.keywords) arguments.keyword.emplace_back(keyword.name, evaluate(*keyword.value));
  if (expr.star != nullptr || expr.star_star != nullptr) expand_arguments(expr, arguments);
  return arguments;
}

// `caller`: the body of a call block, passed as a keyword argument.
Value Interpreter::evaluate_call(const Expr& expr, const Value* caller) {
  const Expr& callee = *expr.children[0];
  const auto arguments_of = [&] {
    Arguments arguments = evaluate_arguments(expr);
    if (caller != nullptr) arguments.keyword.emplace_back("caller", *caller);
    return arguments;
  };
  if (callee.kind == ExprKind::attribute) {  // a method, without binding it first
    const Value self = evaluate(*callee.children[0]);
    if (const MethodFunction method = find_method(self, callee.text); method != nullptr) {
      const Arguments arguments = arguments_of();
      return within("method", callee.text, [&] { return method(*this, self, arguments); });
    }
    const Value function = get_attribute(self, callee.text);
    return call(function, arguments_of());
  }
  const Value function = evaluate(callee);
  return call(function, arguments_of());
}

Value Interpreter::evaluate_filter(const Expr& expr) {
  const Value input = expr.children[0] != nullptr ? evaluate(*expr.children[0]) : *block_input_;
  if (expr.filter == nullptr) raise("No filter named '{}' found.", expr.text);
  const Arguments arguments = evaluate_arguments(expr);
  return within("filter", expr.text, [&] { return expr.filter(*this, input, arguments); });
}

Value Interpreter::evaluate_test(const Expr& expr) {
  const Value input = evaluate(*expr.children[0]);
  if (expr.test == nullptr) raise("No test named '{}' found.", expr.text);
  const Arguments arguments = evaluate_arguments(expr);
  return Value::boolean(within("test", expr.text, [&] { return expr.test(*this, input, arguments); }));
}

FilterFunction find_filter(std::string_view name);
TestFunction find_test(std::string_view name);

Value Interpreter::call_filter(std::string_view name, const Value& input, const Arguments& arguments) {
  const Level level(*this);
  step();
  const FilterFunction filter = find_filter(name);
  if (filter == nullptr) raise("No filter named '{}'.", name);
  return within("filter", name, [&] { return filter(*this, input, arguments); });
}

bool Interpreter::call_test(std::string_view name, const Value& input, const Arguments& arguments) {
  const Level level(*this);
  step();
  const TestFunction test = find_test(name);
  if (test == nullptr) raise("No test named '{}'.", name);
  return within("test", name, [&] { return test(*this, input, arguments); });
}

Value Interpreter::loop_attribute(const Value& loop, const std::string& name) {
  auto& state = as<LoopObject>(loop);
  const auto length = [&] {
    if (!state.length) {
      if (!is_object(state.iterable, ObjectType::iterator)) {
        state.length = length_of(state.iterable);
      } else {  // run ahead to count
        std::vector<Value> rest;
        for (Value item; state.next(item);) {
          step();
          rest.push_back(item);
        }
        state.length = static_cast<int64_t>(rest.size()) + state.index0 + 1 + (state.has_after ? 1 : 0);
        state.next = iterate(make_list(std::move(rest)));
      }
    }
    return *state.length;
  };
  if (name == "index") return Value::integer(state.index0 + 1);
  if (name == "index0") return Value::integer(state.index0);
  if (name == "first") return Value::boolean(state.index0 == 0);
  if (name == "last") return Value::boolean(!state.peek());
  if (name == "length") return Value::integer(length());
  if (name == "revindex") return Value::integer(length() - state.index0);
  if (name == "revindex0") return Value::integer(length() - state.index0 - 1);
  if (name == "depth") return Value::integer(state.depth0 + 1);
  if (name == "depth0") return Value::integer(state.depth0);
  if (name == "previtem") return state.index0 == 0 ? undefined_hint("there is no previous item") : state.before;
  if (name == "nextitem") return state.peek() ? state.after : undefined_hint("there is no next item");
  return undefined_attribute(loop, name);
}

Value Interpreter::get_attribute(const Value& object, const std::string& name) {
  if (object.is_undefined()) fail_undefined(object);
  if (const MethodFunction method = find_method(object, name); method != nullptr) {
    return make_object<MethodObject>(object, name, method);
  }
  if (is_mutator(object, name) || name.starts_with("__")) return unsafe_attribute(object, name);
  if (object.is(Kind::dict)) {
    const Value* found = object.as_dict().find(name);
    if (found != nullptr) return *found;
  } else if (object.is(Kind::object)) {
    switch (object_of(object).type) {
      case ObjectType::loop:
        return loop_attribute(object, name);
      case ObjectType::space: {
        const Value* found = as<NamespaceObject>(object).attributes.find(name);
        if (found != nullptr) return *found;
        break;
      }
      case ObjectType::macro:
        if (name == "name") return make_string(as<MacroObject>(object).definition.name);
        break;
      case ObjectType::cycler:
        if (name == "current") return as<CyclerObject>(object).items[as<CyclerObject>(object).position];
        break;
      default:
        break;
    }
  }
  return undefined_attribute(object, name);
}

Value Interpreter::get_item(const Value& object, const Value& key) {
  if (object.is_undefined()) fail_undefined(object);
  if (object.is(Kind::dict)) {
    const Value* found = hashable(key) ? object.as_dict().find(key) : nullptr;
    if (found != nullptr) return *found;
  } else if (key.is_int()) {
    if (object.is(Kind::list) || object.is(Kind::tuple)) {
      const int64_t index = resolve_index(key.as_int(), static_cast<int64_t>(object.items().size()));
      if (index >= 0) return object.items()[static_cast<size_t>(index)];
    } else if (object.is_string()) {
      const std::string& text = object.as_string();
      step(text.size() / 64);
      const int64_t index = resolve_index(key.as_int(), static_cast<int64_t>(count_code_points(text)));
      if (index >= 0) {
        const size_t begin = byte_offset(text, static_cast<size_t>(index));
        const std::string_view rest = std::string_view(text).substr(begin);
        return make_string(std::string(rest.substr(0, byte_offset(rest, 1))));
      }
    } else if (is_object(object, ObjectType::range)) {
      const auto& range = as<RangeObject>(object);
      const int64_t index = resolve_index(key.as_int(), range.size);
      if (index >= 0) return range.at(index);
    }
  }
  if (key.is_string()) {
    // An item that is not there may still be an attribute; a dict's keys have been looked at.
    return get_attribute(object, key.as_string());
  }
  Value undefined = make_object<UndefinedObject>();
  auto& state = as<UndefinedObject>(undefined);
  state.owner = owner_name(object);
  state.is_element = true;
  append_repr(*this, state.name, key);
  return undefined;
}

Next Interpreter::iterate(const Value& iterable) {
  switch (iterable.kind()) {
    case Kind::list:
    case Kind::tuple:
      return [iterable, index = size_t{0}](Value& item) mutable {
        if (index >= iterable.items().size()) return false;
        item = iterable.items()[index++];
        return true;
      };
    case Kind::dict:
      return [iterable, index = size_t{0}](Value& item) mutable {
        if (index >= iterable.as_dict().size()) return false;
        item = iterable.as_dict().entries()[index++].first;
        return true;
      };
    case Kind::string:
      return [this, iterable, at = size_t{0}](Value& item) mutable {
        const std::string& text = iterable.as_string();
        if (at >= text.size()) return false;
        const size_t begin = at;
        next_code_point(text, at);
        item = make_string(text.substr(begin, at - begin));
        return true;
      };
    case Kind::undefined:
      return [](Value&) { return false; };
    case Kind::object:
      break;
    default:
      raise("'{}' object is not iterable", type_name(iterable));
  }
  switch (object_of(iterable).type) {
    case ObjectType::range:
      return [iterable, index = int64_t{0}](Value& item) mutable {
        if (index >= as<RangeObject>(iterable).size) return false;
        item = as<RangeObject>(iterable).at(index++);
        return true;
      };
    case ObjectType::view:
      return [this, iterable, index = size_t{0}](Value& item) mutable {
        const auto& view = as<ViewObject>(iterable);
        if (index >= view.dict.as_dict().size()) return false;
        const auto& [key, value] = view.dict.as_dict().entries()[index++];
        item = view.kind == ViewKind::keys ? key : view.kind == ViewKind::values ? value : make_tuple({key, value});
        return true;
      };
    case ObjectType::iterator:
      return [iterable](Value& item) { return as<IteratorObject>(iterable).next(item); };
    default:
      raise("'{}' object is not iterable", type_name(iterable));
  }
}

std::vector<Value> Interpreter::collect(const Value& iterable) {
  if (iterable.is(Kind::list) || iterable.is(Kind::tuple)) {
    step(iterable.items().size());
    return iterable.items();
  }
  const size_t limit = options_.limits.max_memory_bytes / sizeof(Value);
  std::vector<Value> items;
  const Next next = iterate(iterable);
  for (Value item; next(item);) {
    step();
    items.push_back(item);
    if (items.size() > limit) raise("the template makes a list of more than {} items", limit);
  }
  return items;
}

}  // namespace minfer::chat::jinja
