// The syntax tree of a template. Names are interned: a slot is the index of a name in Program::names, and variables are
// found by slot. Constant-size nodes of one struct for expressions and one for statements: the parser builds them, the
// interpreter walks them, nobody else does. A Program is immutable after parsing and may be rendered by several threads
// at once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "chat/value.hpp"

namespace minfer::chat::jinja {

class Interpreter;
struct Arguments;

using FilterFunction = Value (*)(Interpreter& in, const Value& input, const Arguments& arguments);
using TestFunction = bool (*)(Interpreter& in, const Value& input, const Arguments& arguments);

enum class ExprKind : uint8_t {
  constant,
  name,   // slot
  list,   // children
  tuple,  // children
  dict,   // children: key, value, key, value ...
  negate,
  plus,
  logical_not,
  binary,   // op, two children
  compare,  // children: first operand and one more an entry of ops
  logical_and,
  logical_or,
  concat,            // children
  conditional,       // children: test, value, else (may be null)
  attribute,         // child, text
  item,              // child, index
  slice_item,        // child, start, stop, step (each may be null)
  call,              // callee, then positional arguments; keywords, star, star_star
  filter,            // input (null in filter blocks), then arguments; text is the name
  test,              // like filter
  namespace_target,  // slot, text: a target of set only
};

enum class Op : uint8_t {
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power,
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  in,
  not_in,
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Keyword {
  std::string name;
  ExprPtr value;
};

struct Expr {
  ExprKind kind;
  Op op = Op::add;
  int line = 0;
  int slot = -1;
  uint32_t depth = 1;  // of the expression tree below, itself included
  std::string text;
  Value constant;
  std::vector<ExprPtr> children;
  std::vector<Op> ops;
  std::vector<Keyword> keywords;
  ExprPtr star;
  ExprPtr star_star;
  FilterFunction filter = nullptr;  // null: unknown name, an error where it is reached
  TestFunction test = nullptr;
};

enum class StmtKind : uint8_t {
  data,          // text
  print,         // expr
  conditional,   // branches, else_body
  loop,          // target, expr, test, body, else_body
  assign,        // target, expr
  assign_block,  // target, expr (filters, may be null), body
  macro,         // macro
  call_block,    // expr (the call), macro (the caller)
  filter_block,  // expr (filters), body
  with,          // assignments, body
  generation,    // body: a scope of its own
  block,         // body
  break_loop,
  continue_loop,
};

struct Stmt;
using Body = std::vector<std::unique_ptr<Stmt>>;

struct Branch {
  ExprPtr test;
  Body body;
};

struct Parameter {
  std::string name;
  int slot;
  ExprPtr default_value;  // may be null
};

struct MacroDefinition {
  std::string name;
  int line = 0;
  std::vector<Parameter> parameters;
  Body body;
  bool uses_caller = false;  // the body reads the name: only then it may be passed
  bool uses_kwargs = false;
  bool uses_varargs = false;
};

struct Stmt {
  StmtKind kind;
  int line = 0;
  int slot = -1;  // of a macro's name
  bool recursive = false;
  bool hides = false;  // a set block whose target is undefined until its end (see Frame in parser.hpp)
  std::string text;
  ExprPtr target;
  ExprPtr expr;
  ExprPtr test;
  Body body;
  Body else_body;
  std::vector<Branch> branches;
  std::vector<std::pair<ExprPtr, ExprPtr>> assignments;
  std::unique_ptr<MacroDefinition> macro;
};

// The slots of names with a meaning of their own, the same in every program.
enum FixedSlot : int { kLoopSlot, kCallerSlot, kKwargsSlot, kVarargsSlot, kFixedSlots };

struct Program {
  std::vector<std::string> names;  // by slot
  Body body;
};

}  // namespace minfer::chat::jinja
