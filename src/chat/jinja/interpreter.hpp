// Renders one Program once: walks the tree with a chain of scopes, writes into the current output buffer, and counts
// what the template uses against RenderLimits, so that no template can run, grow or nest without bound. Filters, tests,
// methods and global functions call back into it (step, make_string, call ...). One thread; made for one call of run().
// Semantics: jinja2's compiled code, including what is lazy (map, select, loop filters) and what is scoped.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "chat/jinja/ast.hpp"
#include "chat/jinja/failure.hpp"
#include "chat/jinja/objects.hpp"
#include "chat/template.hpp"

namespace minfer::chat::jinja {

class Interpreter {
 public:
  Interpreter(const Program& program, const Value& variables, const RenderOptions& options);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Throws RenderFailure; line() is then the place.
  std::string run();
  int line() const { return line_; }

  // Counts work. Every loop over input calls it. Throws RenderFailure when the limit is reached.
  void step(uint64_t units = 1);
  // Checks that a text of so many bytes may be made, before it is, and counts the work.
  void reserve_text(size_t bytes);
  void reserve_items(size_t count);

  Value make_string(std::string text, bool markup = false);
  Value make_list(std::vector<Value> items);
  Value make_tuple(std::vector<Value> items);
  Value make_dict(Dict dict);
  Value make_namespace(Dict attributes);
  Value make_iterator(Next next, uint32_t inner_depth);

  Value call(const Value& callee, Arguments arguments);
  Value call_filter(std::string_view name, const Value& input, const Arguments& arguments);
  bool call_test(std::string_view name, const Value& input, const Arguments& arguments);
  // obj.name and obj[key] with jinja2's order of lookups; a missing one is an undefined value.
  Value get_attribute(const Value& object, const std::string& name);
  Value get_item(const Value& object, const Value& key);

  // Iterating, as Python's iter(); raises for values that are not iterable.
  Next iterate(const Value& iterable);
  std::vector<Value> collect(const Value& iterable);

  std::string text_of(const Value& value);  // str(value)
  const RenderOptions& options() const { return options_; }

 private:
  enum class Flow : uint8_t { normal, break_loop, continue_loop };
  class Level;    // one level of recursion
  class Inside;   // a scope, left at the end
  class Capture;  // an output buffer of its own

  // interpreter.cpp: statements
  Flow execute(const Body& body);
  Flow execute(const Stmt& stmt);
  Flow execute_conditional(const Stmt& stmt);
  Flow execute_loop(const Stmt& stmt, const Value& iterable, int64_t depth0);
  Flow execute_loop_body(const Stmt& stmt, const Value& loop, bool& ran);
  Flow execute_assign_block(const Stmt& stmt);
  Flow execute_filter_block(const Stmt& stmt);
  Flow execute_with(const Stmt& stmt);
  void execute_print(const Stmt& stmt);
  void execute_call_block(const Stmt& stmt);
  void execute_generation(const Stmt& stmt);
  Next filtered(const Stmt& stmt, Next next);
  void assign(const Expr& target, const Value& value);
  void assign_tuple(const Expr& target, const Value& value);
  void write(std::string_view text);
  Value make_macro(const MacroDefinition& definition);
  Value call_macro(const MacroObject& macro, Arguments arguments);
  void bind_macro(const MacroObject& macro, Arguments& arguments);
  Value call_loop(const Value& loop, const Arguments& arguments);

  // evaluate.cpp: expressions
  Value evaluate(const Expr& expr);
  Value evaluate_node(const Expr& expr);
  Value evaluate_name(const Expr& expr);
  Value evaluate_items(const Expr& expr);
  Value evaluate_dict(const Expr& expr);
  Value evaluate_compare(const Expr& expr);
  Value evaluate_concat(const Expr& expr);
  Value evaluate_conditional(const Expr& expr);
  Value evaluate_slice(const Expr& expr);
  Value evaluate_call(const Expr& expr, const Value* caller);
  Value evaluate_filter(const Expr& expr);
  Value evaluate_test(const Expr& expr);
  Arguments evaluate_arguments(const Expr& expr);
  void expand_arguments(const Expr& expr, Arguments& arguments);
  Value loop_attribute(const Value& loop, const std::string& name);

  const Program& program_;
  const RenderOptions& options_;
  Meter meter_;
  std::vector<Value> context_;  // by slot: what the caller passed, then the globals; null object: missing
  std::vector<std::shared_ptr<Scope>> captured_;
  std::vector<Value> namespaces_;
  std::shared_ptr<Scope> scope_;
  std::string* out_ = nullptr;
  size_t written_bytes_ = 0;  // in all open buffers
  const Value* block_input_ = nullptr;
  int line_ = 1;
  uint32_t level_ = 0;
  uint64_t steps_ = 0;
  uint64_t next_clock_check_;
  std::chrono::steady_clock::time_point deadline_;
};

// The global functions, by name; an undefined value's kind never comes back: none where there is none (globals.cpp).
GlobalFunction find_global(std::string_view name);

// A method of a value's type, null where it has none (methods.cpp); is_mutator: one that the sandbox withholds.
MethodFunction find_method(const Value& self, std::string_view name);
bool is_mutator(const Value& self, std::string_view name);

}  // namespace minfer::chat::jinja
