// Statements, scopes, macros and limits of the interpreter. See interpreter.hpp.
#include "chat/jinja/interpreter.hpp"

#include <algorithm>

#include "chat/jinja/operators.hpp"
#include "chat/jinja/present.hpp"
#include "chat/jinja/scopes.hpp"
#include "chat/jinja/text.hpp"

namespace minfer::chat::jinja {
namespace {

constexpr uint64_t kClockInterval = 4096;   // steps between looks at the clock
constexpr size_t kBytesPerStep = 64;        // of new text
constexpr size_t kMaxNamespaces = 100'000;  // kept until the rendering ends
constexpr size_t kMaxCaptured = 100'000;

}  // namespace

Interpreter::Interpreter(const Program& program, const Value& variables, const RenderOptions& options)
    : program_(program),
      options_(options),
      meter_(options.limits.max_memory_bytes),
      scope_(std::make_shared<Scope>(nullptr)),
      next_clock_check_(kClockInterval),
      deadline_(std::chrono::steady_clock::now() +
                std::chrono::microseconds(static_cast<int64_t>(options.limits.max_seconds * 1e6))) {
  const Value missing = Value::object(Kind::undefined, std::make_shared<Object>());
  context_.reserve(program.names.size());
  for (const std::string& name : program.names) {
    const Value* given = variables.as_dict().find(name);
    if (given != nullptr) {
      context_.push_back(*given);
    } else if (const GlobalFunction function = find_global(name); function != nullptr) {
      context_.push_back(make_object<FunctionObject>("global", function));
    } else {
      context_.push_back(undefined_name(name));
    }
  }
}

Interpreter::~Interpreter() {
  // Break the cycles: nothing else can hold itself. Contents first, so that no chain is destroyed recursively.
  std::vector<Dict> attributes;
  for (const Value& space : namespaces_) attributes.push_back(std::move(as<NamespaceObject>(space).attributes));
  std::vector<std::vector<std::pair<int, Value>>> variables;
  for (const auto& scope : captured_) variables.push_back(std::move(scope->variables));
}

std::string Interpreter::run() {
  std::string out;
  out_ = &out;
  execute(program_.body);
  return out;
}

void Interpreter::step(uint64_t units) {
  steps_ += units;
  if (steps_ > options_.limits.max_steps) {
    raise("the template runs for more than {} steps, the most that one rendering may take", options_.limits.max_steps);
  }
  if (steps_ < next_clock_check_) return;
  next_clock_check_ = steps_ + kClockInterval;
  if (std::chrono::steady_clock::now() > deadline_) {
    raise("the template runs for more than {} s, the most that one rendering may take", options_.limits.max_seconds);
  }
}

void Interpreter::reserve_text(size_t bytes) {
  if (bytes > options_.limits.max_text_bytes) {
    raise("the template makes a text of {} bytes; the limit is {}", bytes, options_.limits.max_text_bytes);
  }
  step(1 + bytes / kBytesPerStep);
}

void Interpreter::reserve_items(size_t count) {
  const size_t limit = options_.limits.max_memory_bytes / sizeof(Value);
  if (count > limit) raise("the template makes a list of {} items; the limit is {}", count, limit);
  step(1 + count);
}

Value Interpreter::make_string(std::string text, bool markup) {
  reserve_text(text.size());
  return Value::trusted_string(std::move(text), &meter_, markup);
}

Value Interpreter::make_list(std::vector<Value> items) {
  reserve_items(items.size());
  return Value::list(std::move(items), &meter_);
}

Value Interpreter::make_tuple(std::vector<Value> items) {
  reserve_items(items.size());
  return Value::tuple(std::move(items), &meter_);
}

Value Interpreter::make_dict(Dict dict) {
  reserve_items(dict.size());
  return Value::dict(std::move(dict), &meter_);
}

Value Interpreter::make_namespace(Dict attributes) {
  if (namespaces_.size() >= kMaxNamespaces) raise("the template makes more than {} namespaces", kMaxNamespaces);
  Value space = make_object<NamespaceObject>();
  as<NamespaceObject>(space).attributes = std::move(attributes);
  namespaces_.push_back(space);
  return space;
}

Value Interpreter::make_iterator(Next next, uint32_t inner_depth) {
  step();
  return make_object<IteratorObject>(std::move(next), inner_depth);
}

std::string Interpreter::text_of(const Value& value) {
  if (value.is_string()) return value.as_string();
  std::string text;
  append_text(*this, text, value);
  return text;
}

void Interpreter::write(std::string_view text) {
  const size_t limit = options_.limits.max_output_bytes;
  if (text.size() > limit || written_bytes_ > limit - text.size())
    raise("the template writes more than {} bytes", limit);
  written_bytes_ += text.size();
  step(text.size() / kBytesPerStep);
  out_->append(text);
}

Interpreter::Flow Interpreter::execute(const Body& body) {
  for (const auto& stmt : body) {
    const Flow flow = execute(*stmt);
    if (flow != Flow::normal) return flow;
  }
  return Flow::normal;
}

Interpreter::Flow Interpreter::execute(const Stmt& stmt) {
  if (stmt.kind == StmtKind::data) {
    write(stmt.text);
    return Flow::normal;
  }
  const Level level(*this);
  step();
  line_ = stmt.line;
  switch (stmt.kind) {
    case StmtKind::data:
      break;
    case StmtKind::print:
      execute_print(stmt);
      break;
    case StmtKind::conditional:
      return execute_conditional(stmt);
    case StmtKind::loop: {
      const Value iterable = evaluate(*stmt.expr);
      if (!stmt.recursive) return execute_loop(stmt, iterable, 0);
      Capture capture(*this);
      execute_loop(stmt, iterable, 0);
      write(capture.take());
      break;
    }
    case StmtKind::assign:
      assign(*stmt.target, evaluate(*stmt.expr));
      break;
    case StmtKind::assign_block:
      return execute_assign_block(stmt);
    case StmtKind::macro:
      scope_->set(stmt.slot, make_macro(*stmt.macro));
      break;
    case StmtKind::call_block:
      execute_call_block(stmt);
      break;
    case StmtKind::filter_block:
      return execute_filter_block(stmt);
    case StmtKind::with:
      return execute_with(stmt);
    case StmtKind::generation:
      execute_generation(stmt);
      break;
    case StmtKind::block: {
      const Inside inside(*this, scope_);
      execute(stmt.body);
      break;
    }
    case StmtKind::break_loop:
      return Flow::break_loop;
    case StmtKind::continue_loop:
      return Flow::continue_loop;
  }
  return Flow::normal;
}

void Interpreter::execute_print(const Stmt& stmt) {
  const Value value = evaluate(*stmt.expr);
  if (value.is_string()) {
    write(value.as_string());
  } else {
    write(text_of(value));
  }
}

Interpreter::Flow Interpreter::execute_conditional(const Stmt& stmt) {
  for (const Branch& branch : stmt.branches) {
    if (truth(evaluate(*branch.test))) return execute(branch.body);
  }
  return execute(stmt.else_body);
}

// The items for which the loop's own test holds, tested when they are asked for.
Next Interpreter::filtered(const Stmt& stmt, Next next) {
  return [this, &stmt, inner = std::move(next), around = scope_](Value& item) {
    while (inner(item)) {
      step();
      const Inside inside(*this, around);
      assign(*stmt.target, item);
      if (truth(evaluate(*stmt.test))) return true;
    }
    return false;
  };
}

Interpreter::Flow Interpreter::execute_loop(const Stmt& stmt, const Value& iterable, int64_t depth0) {
  Next next = iterate(iterable);
  const bool has_test = stmt.test != nullptr;
  if (has_test) next = filtered(stmt, std::move(next));
  // A filtered loop has no length of its own: it is counted by running ahead.
  Value loop =
      make_object<LoopObject>(has_test ? make_iterator({}, iterable.depth()) : iterable, std::move(next), depth0);
  if (stmt.recursive) {
    as<LoopObject>(loop).recursive = &stmt;
    as<LoopObject>(loop).scope = scope_;
  }
  bool ran = false;  // some item's body to its end: as in jinja2, a loop left before that runs its else
  Flow flow = execute_loop_body(stmt, loop, ran);
  if (!ran && flow == Flow::normal && !stmt.else_body.empty()) {
    const Inside inside(*this, scope_);
    flow = execute(stmt.else_body);
  }
  return flow;
}

Interpreter::Flow Interpreter::execute_loop_body(const Stmt& stmt, const Value& loop, bool& ran) {
  auto& state = as<LoopObject>(loop);
  Inside inside(*this, scope_);
  while (state.advance()) {
    step();
    inside.renew();
    scope_->variables.emplace_back(kLoopSlot, loop);
    assign(*stmt.target, state.current);
    const Flow flow = execute(stmt.body);
    line_ = stmt.line;
    if (flow == Flow::break_loop) break;
    if (flow == Flow::normal) ran = true;
  }
  return Flow::normal;
}

Interpreter::Flow Interpreter::execute_assign_block(const Stmt& stmt) {
  if (stmt.hides) assign(*stmt.target, undefined_name(stmt.target->text));
  Capture capture(*this);
  Flow flow = Flow::normal;
  {
    const Inside inside(*this, scope_);
    flow = execute(stmt.body);
  }
  Value text = make_string(capture.take());
  if (flow != Flow::normal) return flow;
  if (stmt.expr != nullptr) {
    const Value* const outer = std::exchange(block_input_, &text);
    Value filtered_text = evaluate(*stmt.expr);
    block_input_ = outer;
    text = std::move(filtered_text);
  }
  assign(*stmt.target, text);
  return Flow::normal;
}

Interpreter::Flow Interpreter::execute_filter_block(const Stmt& stmt) {
  Capture capture(*this);
  Flow flow = Flow::normal;
  {
    const Inside inside(*this, scope_);
    flow = execute(stmt.body);
  }
  const Value text = make_string(capture.take());
  if (flow != Flow::normal) return flow;
  const Value* const outer = std::exchange(block_input_, &text);
  const Value result = evaluate(*stmt.expr);
  block_input_ = outer;
  if (!result.is_string()) raise("a filter block must give text, not {}", type_name(result));
  write(result.as_string());
  return Flow::normal;
}

Interpreter::Flow Interpreter::execute_with(const Stmt& stmt) {
  std::vector<Value> values;
  for (const auto& assignment : stmt.assignments) values.push_back(evaluate(*assignment.second));
  const Inside inside(*this, scope_);
  for (size_t index = 0; index < values.size(); ++index) assign(*stmt.assignments[index].first, values[index]);
  return execute(stmt.body);
}

void Interpreter::execute_call_block(const Stmt& stmt) {
  const Value caller = make_macro(*stmt.macro);
  const Value result = evaluate_call(*stmt.expr, &caller);
  write(text_of(result));
}

void Interpreter::execute_generation(const Stmt& stmt) {
  const Inside inside(*this, scope_);
  execute(stmt.body);
}

void Interpreter::assign(const Expr& target, const Value& value) {
  if (target.kind == ExprKind::tuple) return assign_tuple(target, value);
  if (target.kind == ExprKind::name) return scope_->set(target.slot, value);
  const Value space = evaluate_name(target);
  if (!is_object(space, ObjectType::space)) raise("cannot assign attribute on non-namespace object");
  if (target.text.starts_with('_')) {
    raise("chat templates cannot store underscore-prefixed attributes on a namespace, but got '{}'", target.text);
  }
  as<NamespaceObject>(space).attributes.set(target.text, value);
}

void Interpreter::assign_tuple(const Expr& target, const Value& value) {
  const size_t wanted = target.children.size();
  std::vector<Value> items;
  const Next next = iterate(value);
  for (Value item; next(item);) {
    step();
    items.push_back(item);
    if (items.size() > wanted) raise("too many values to unpack (expected {})", wanted);
  }
  if (items.size() < wanted) raise("not enough values to unpack (expected {}, got {})", wanted, items.size());
  for (size_t index = 0; index < wanted; ++index) assign(*target.children[index], items[index]);
}

Value Interpreter::make_macro(const MacroDefinition& definition) {
  step();
  if (!scope_->captured) {
    if (captured_.size() >= kMaxCaptured) raise("the template defines macros in more than {} scopes", kMaxCaptured);
    scope_->captured = true;
    captured_.push_back(scope_);
  }
  return make_object<MacroObject>(definition, scope_);
}

Value Interpreter::call_macro(const MacroObject& macro, Arguments arguments) {
  const Level level(*this);
  const int line = line_;
  Capture capture(*this);
  {
    const Inside inside(*this, macro.scope);
    bind_macro(macro, arguments);
    execute(macro.definition.body);
  }
  line_ = line;
  return make_string(capture.take());
}

namespace {

// Removes a keyword argument and gives its value; null where it was not passed.
std::optional<Value> take_keyword(Arguments& arguments, std::string_view name) {
  auto& keywords = arguments.keyword;
  const auto found =
      std::find_if(keywords.begin(), keywords.end(), [&](const auto& entry) { return entry.first == name; });
  if (found == keywords.end()) return std::nullopt;
  Value value = std::move(found->second);
  keywords.erase(found);
  return value;
}

}  // namespace

// Sets the parameters in the macro's new scope, in jinja2's order; defaults see the parameters before them.
void Interpreter::bind_macro(const MacroObject& macro, Arguments& arguments) {
  const MacroDefinition& definition = macro.definition;
  const size_t count = definition.parameters.size();
  const size_t given = std::min(count, arguments.positional.size());
  std::vector<std::optional<Value>> values;
  bool explicit_caller = false;
  for (size_t index = 0; index < count; ++index) {
    const Parameter& parameter = definition.parameters[index];
    explicit_caller |= parameter.slot == kCallerSlot;
    if (index < given)
      values.emplace_back(arguments.positional[index]);
    else
      values.push_back(take_keyword(arguments, parameter.name));
  }
  if (definition.uses_caller && !explicit_caller) {
    std::optional<Value> caller = take_keyword(arguments, "caller");
    scope_->set(kCallerSlot, caller && !caller->is_none() ? *caller : undefined_hint("No caller defined"));
  }
  if (definition.uses_kwargs) {
    Dict rest;
    for (auto& [name, value] : arguments.keyword) rest.set(name, value);
    scope_->set(kKwargsSlot, make_dict(std::move(rest)));
  } else if (!arguments.keyword.empty()) {
    raise("macro '{}' takes no keyword argument '{}'", definition.name, arguments.keyword.front().first);
  }
  if (definition.uses_varargs) {
    const auto rest = arguments.positional.begin() + static_cast<ptrdiff_t>(given);
    scope_->set(kVarargsSlot, make_tuple({rest, arguments.positional.end()}));
  } else if (arguments.positional.size() > count) {
    raise("macro '{}' takes not more than {} argument(s)", definition.name, count);
  }
  for (size_t index = 0; index < count; ++index) {
    const Parameter& parameter = definition.parameters[index];
    if (!values[index]) {
      values[index] = parameter.default_value != nullptr
                          ? evaluate(*parameter.default_value)
                          : undefined_hint(fmt::format("parameter '{}' was not provided", parameter.name));
    }
    scope_->set(parameter.slot, *values[index]);
  }
}

// loop(items) inside a recursive loop: the body rendered for the inner items.
Value Interpreter::call_loop(const Value& loop, const Arguments& arguments) {
  const auto& state = as<LoopObject>(loop);
  if (state.recursive == nullptr) raise("The loop must have the 'recursive' marker to be called recursively.");
  if (arguments.positional.size() != 1 || !arguments.keyword.empty()) raise("loop() takes one iterable");
  const Level level(*this);
  const Enter enter(scope_, state.scope);
  Capture capture(*this);
  execute_loop(*state.recursive, arguments.positional.front(), state.depth0 + 1);
  return make_string(capture.take());
}

Value Interpreter::call(const Value& callee, Arguments arguments) {
  step();
  if (callee.is_undefined()) fail_undefined(callee);
  if (callee.is(Kind::object)) {
    switch (object_of(callee).type) {
      case ObjectType::function:
        return as<FunctionObject>(callee).call(*this, arguments);
      case ObjectType::method:
        return as<MethodObject>(callee).call(*this, as<MethodObject>(callee).self, arguments);
      case ObjectType::macro:
        return call_macro(as<MacroObject>(callee), std::move(arguments));
      case ObjectType::loop:
        return call_loop(callee, arguments);
      case ObjectType::joiner: {
        const bool first = !std::exchange(as<JoinerObject>(callee).used, true);
        return first ? make_string("") : as<JoinerObject>(callee).separator;
      }
      default:
        break;
    }
  }
  raise("'{}' object is not callable", type_name(callee));
}

}  // namespace minfer::chat::jinja
