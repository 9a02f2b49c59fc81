// Tokens to a Program, following jinja2's grammar rule by rule (its precedences differ from Python's in places).
// Nesting is limited by kMaxNesting, so that neither parsing nor walking the tree can exhaust the stack. Oracle:
// jinja2 3.1 with the extensions loopcontrols and generation.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "chat/jinja/ast.hpp"
#include "chat/jinja/lexer.hpp"

namespace minfer::chat::jinja {

constexpr uint32_t kMaxNesting = 200;  // statements, brackets, and the depth of one expression's tree

class Parser {
 public:
  explicit Parser(std::string_view source);
  // Throws SyntaxError.
  Program parse();

 private:
  class Nested;    // counts one level of nesting while it lives
  class Isolated;  // a body with a frame of its own: not conditional; optionally outside any loop
  struct Unknown {
    int line;
    std::string message;
  };
  using Ends = std::vector<std::string_view>;
  // A set block whose name its own frame does not know before it.
  struct NewName {
    Stmt* stmt;
    int slot;
  };
  // The names of one body, as jinja2's compiler sees them: a set block makes its name undefined for its own body,
  // unless the body around it has named it before or a body further out names it anywhere.
  struct Frame {
    std::set<int> names;
    std::vector<NewName> made;         // in this frame
    std::vector<NewName> from_within;  // in frames inside it
  };
  void open_frame() { frames_.emplace_back(); }
  void close_frame();
  void note_set_block(Stmt& stmt, int slot, bool known);

  // parser.cpp: statements
  Body parse_body(const Ends& ends);
  std::string innermost() const;  // for messages: the tag to be closed
  Body parse_block_body(const Ends& ends);
  std::unique_ptr<Stmt> parse_statement();
  std::unique_ptr<Stmt> make_stmt(StmtKind kind) const;
  std::unique_ptr<Stmt> parse_if();
  std::unique_ptr<Stmt> parse_for();
  std::unique_ptr<Stmt> parse_set();
  std::unique_ptr<Stmt> parse_macro();
  std::unique_ptr<Stmt> parse_call_block();
  std::unique_ptr<Stmt> parse_filter_block();
  std::unique_ptr<Stmt> parse_with();
  std::unique_ptr<Stmt> parse_generation();
  std::unique_ptr<Stmt> parse_block();
  std::unique_ptr<Stmt> parse_loop_control(StmtKind kind);
  void parse_signature(MacroDefinition& macro);
  void parse_macro_body(MacroDefinition& macro, std::string_view end);
  [[noreturn]] void unknown_tag(const Token& token, const Ends& ends);
  ExprPtr parse_target(bool with_namespace, std::string_view end_name);
  void check_target(const Expr& target) const;
  std::string parse_target_name();

  // parser_expression.cpp: expressions
  ExprPtr parse_expression(bool with_conditional = true);
  ExprPtr parse_tuple(bool with_conditional, std::string_view end_name, bool parenthesized);
  ExprPtr parse_conditional();
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_compare();
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary(bool with_filter = true);
  ExprPtr parse_primary(bool with_namespace = false);
  ExprPtr parse_name(bool with_namespace);
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_postfix(ExprPtr node);
  ExprPtr parse_filter_chain(ExprPtr node);
  ExprPtr parse_subscript(ExprPtr node);
  ExprPtr parse_subscript_argument(ExprPtr node);
  ExprPtr parse_slice(ExprPtr node, ExprPtr start);
  ExprPtr parse_call(ExprPtr node);
  ExprPtr parse_filter(ExprPtr node);
  ExprPtr parse_test(ExprPtr node);
  void parse_arguments(Expr& node);
  void parse_argument(Expr& node);
  std::string parse_dotted_name();
  bool at_tuple_end(std::string_view end_name) const;
  ExprPtr make(ExprKind kind, int line) const;
  ExprPtr make_binary(Op op, ExprPtr left, ExprPtr right, int line);
  ExprPtr finish(ExprPtr node);  // computes and limits the depth

  const Token& current() const { return tokens_[at_]; }
  const Token& look() const {
    const Token& next = tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_];
    require_valid(next);
    return next;
  }
  Token take();
  void require_valid(const Token& token) const;  // throws what a failed token says
  bool skip_name(std::string_view name);
  bool skip_op(std::string_view op);
  void expect_op(std::string_view op);
  void expect_kind(TokenKind kind, std::string_view what);
  std::string expect_name();
  int slot_of(const std::string& name);

  std::vector<Token> tokens_;
  size_t at_ = 0;
  uint32_t nesting_ = 0;
  int loops_ = 0;             // loops around the current statement in the same function
  bool conditional_ = false;  // inside an if: an unknown filter fails when it is reached only
  std::vector<Unknown> unknown_;
  std::vector<Frame> frames_;
  std::vector<MacroDefinition*> macros_;  // whose bodies are being parsed
  std::vector<std::string> open_;         // the tags that are being parsed
  std::vector<Ends> looking_;             // the end tags of the bodies that are being parsed
  std::map<std::string, int, std::less<>> slots_;
  Program program_;
};

// Looks a filter or test up by name; null where there is none (filters.cpp, tests.cpp).
FilterFunction find_filter(std::string_view name);
TestFunction find_test(std::string_view name);

}  // namespace minfer::chat::jinja
