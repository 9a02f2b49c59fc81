// Statements of the template grammar, and the parser's helpers. See parser.hpp.
#include "chat/jinja/parser.hpp"

#include <algorithm>
#include <array>

#include <fmt/ranges.h>

#include "chat/jinja/failure.hpp"
#include "chat/jinja/parser_internal.hpp"
#include "chat/jinja/text.hpp"

namespace minfer::chat::jinja {
namespace {

// Statements of jinja2 that need other templates or HTML output; no chat template can use them.
constexpr std::array<std::string_view, 5> kRefused = {"include", "import", "from", "extends", "autoescape"};

}  // namespace

Parser::Parser(std::string_view source) : tokens_(tokenize(source)) {
  for (const char* name : {"loop", "caller", "kwargs", "varargs"}) slot_of(name);
  require_valid(current());
}

void Parser::require_valid(const Token& token) const {
  if (token.kind == TokenKind::failure) syntax_error(token.line, "{}", token.text);
}

Token Parser::take() {
  Token taken = current();
  if (at_ + 1 < tokens_.size()) ++at_;
  require_valid(current());
  return taken;
}

Program Parser::parse() {
  open_frame();
  program_.body = parse_body({});
  close_frame();
  if (!unknown_.empty()) syntax_error(unknown_.front().line, "{}", unknown_.front().message);
  return std::move(program_);
}

int Parser::slot_of(const std::string& name) {
  const auto [place, added] = slots_.emplace(name, static_cast<int>(program_.names.size()));
  if (added) program_.names.push_back(name);
  if (!frames_.empty()) frames_.back().names.insert(place->second);
  return place->second;
}

void Parser::close_frame() {
  Frame frame = std::move(frames_.back());
  frames_.pop_back();
  std::erase_if(frame.from_within, [&](const NewName& name) { return frame.names.contains(name.slot); });
  for (std::vector<NewName>* names : {&frame.made, &frame.from_within}) {
    for (const NewName& name : *names) {
      if (frames_.empty())
        name.stmt->hides = true;
      else
        frames_.back().from_within.push_back(name);
    }
  }
}

void Parser::note_set_block(Stmt& stmt, int slot, bool known) {
  // In an `if`, jinja2 takes the name from outside where some branch does not set it.
  if (!known && !conditional_) frames_.back().made.push_back({&stmt, slot});
}

bool Parser::skip_name(std::string_view name) {
  if (!current().is_name(name)) return false;
  take();
  return true;
}

bool Parser::skip_op(std::string_view op) {
  if (!current().is_op(op)) return false;
  take();
  return true;
}

void Parser::expect_op(std::string_view op) {
  if (!skip_op(op)) syntax_error(current().line, "expected token '{}', got '{}'", op, describe(current()));
}

void Parser::expect_kind(TokenKind kind, std::string_view what) {
  if (current().kind != kind) {
    syntax_error(current().line, "expected token '{}', got '{}'", what, describe(current()));
  }
  take();
}

std::string Parser::expect_name() {
  if (current().kind != TokenKind::name) {
    syntax_error(current().line, "expected token 'name', got '{}'", describe(current()));
  }
  return take().text;
}

std::unique_ptr<Stmt> Parser::make_stmt(StmtKind kind) const {
  auto stmt = std::make_unique<Stmt>();
  stmt->kind = kind;
  stmt->line = current().line;
  return stmt;
}

// Statements up to one of the end tags (left as the current token), or to the template's end where `ends` is empty.
Body Parser::parse_body(const Ends& ends) {
  Body body;
  while (current().kind != TokenKind::end) {
    if (current().kind == TokenKind::data) {
      body.push_back(make_stmt(StmtKind::data));
      body.back()->text = take().text;
    } else if (current().kind == TokenKind::variable_begin) {
      take();
      body.push_back(make_stmt(StmtKind::print));
      body.back()->expr = parse_tuple(true, "", false);
      expect_kind(TokenKind::variable_end, "end of print statement");
    } else {
      expect_kind(TokenKind::block_begin, "begin of statement block");
      const Token& tag = current();
      if (tag.kind == TokenKind::name && std::find(ends.begin(), ends.end(), tag.text) != ends.end()) return body;
      if (tag.kind != TokenKind::name) syntax_error(tag.line, "tag name expected");
      open_.push_back(tag.text);
      auto stmt = parse_statement();
      open_.pop_back();
      if (stmt == nullptr) unknown_tag(current(), ends);
      body.push_back(std::move(stmt));
      expect_kind(TokenKind::block_end, "end of statement block");
    }
  }
  if (!ends.empty()) {
    syntax_error(current().line, "Unexpected end of template. Jinja was looking for the following tags: '{}'.{}",
                 fmt::join(ends, "' or '"), innermost());
  }
  return body;
}

std::string Parser::innermost() const {
  return open_.empty() ? "" : fmt::format(" The innermost block that needs to be closed is '{}'.", open_.back());
}

// The rest of the opening tag, then the body.
Body Parser::parse_block_body(const Ends& ends) {
  const Nested nested(*this);
  skip_op(":");
  expect_kind(TokenKind::block_end, "end of statement block");
  looking_.push_back(ends);
  Body body = parse_body(ends);
  looking_.pop_back();
  return body;
}

void Parser::unknown_tag(const Token& token, const Ends& ends) {
  if (std::find(kRefused.begin(), kRefused.end(), token.text) != kRefused.end()) {
    syntax_error(token.line, "the statement '{}' is not supported in chat templates", token.text);
  }
  std::string looking;
  const auto ends_one = [&](const Ends& some) { return std::find(some.begin(), some.end(), token.text) != some.end(); };
  if (std::any_of(looking_.begin(), looking_.end(), ends_one)) {
    looking = fmt::format(
        " You probably made a nesting mistake. Jinja is expecting this tag, but currently looking for '{}'.",
        fmt::join(ends, "' or '"));
  } else if (!ends.empty()) {
    looking = fmt::format(" Jinja was looking for the following tags: '{}'.", fmt::join(ends, "' or '"));
  }
  syntax_error(token.line, "Encountered unknown tag '{}'.{}{}", token.text, looking, innermost());
}

// Null where the current name begins no statement.
std::unique_ptr<Stmt> Parser::parse_statement() {
  const std::string_view tag = current().text;
  if (tag == "if") return parse_if();
  if (tag == "for") return parse_for();
  if (tag == "set") return parse_set();
  if (tag == "macro") return parse_macro();
  if (tag == "call") return parse_call_block();
  if (tag == "filter") return parse_filter_block();
  if (tag == "with") return parse_with();
  if (tag == "generation") return parse_generation();
  if (tag == "block") return parse_block();
  if (tag == "break") return parse_loop_control(StmtKind::break_loop);
  if (tag == "continue") return parse_loop_control(StmtKind::continue_loop);
  if (tag != "print") return nullptr;
  auto stmt = make_stmt(StmtKind::with);  // {% print a, b %}
  take();
  while (current().kind != TokenKind::block_end) {
    if (!stmt->body.empty()) expect_op(",");
    stmt->body.push_back(make_stmt(StmtKind::print));
    stmt->body.back()->expr = parse_expression();
  }
  return stmt;
}

std::unique_ptr<Stmt> Parser::parse_if() {
  auto stmt = make_stmt(StmtKind::conditional);
  const bool outer = std::exchange(conditional_, true);
  while (true) {
    take();  // if, elif
    Branch branch;
    branch.test = parse_tuple(false, "", false);
    branch.body = parse_block_body({"elif", "else", "endif"});
    stmt->branches.push_back(std::move(branch));
    if (current().is_name("elif")) continue;
    if (take().text == "else") {
      stmt->else_body = parse_block_body({"endif"});
      take();
    }
    break;
  }
  conditional_ = outer;
  return stmt;
}

std::unique_ptr<Stmt> Parser::parse_for() {
  auto stmt = make_stmt(StmtKind::loop);
  take();
  ++loops_;
  stmt->target = parse_target(false, "in");
  --loops_;
  if (!skip_name("in")) syntax_error(current().line, "expected token 'in', got '{}'", describe(current()));
  stmt->expr = parse_tuple(false, "recursive", false);
  const Isolated isolated(*this, false);
  if (skip_name("if")) stmt->test = parse_expression();
  stmt->recursive = skip_name("recursive");
  if (stmt->recursive) loops_ = 0;
  ++loops_;
  stmt->body = parse_block_body({"endfor", "else"});
  --loops_;
  if (take().text == "else") {
    stmt->else_body = parse_block_body({"endfor"});
    take();
  }
  return stmt;
}

std::unique_ptr<Stmt> Parser::parse_set() {
  auto stmt = make_stmt(StmtKind::assign);
  take();
  const auto slot = slots_.find(current().text);
  const bool known = slot != slots_.end() && frames_.back().names.contains(slot->second);
  stmt->target = parse_target(true, "");
  if (skip_op("=")) {
    stmt->expr = parse_tuple(true, "", false);
    return stmt;
  }
  stmt->kind = StmtKind::assign_block;
  if (stmt->target->kind == ExprKind::name) note_set_block(*stmt, stmt->target->slot, known);
  const Isolated isolated(*this, false);
  while (skip_op("|")) stmt->expr = parse_filter(std::move(stmt->expr));
  stmt->body = parse_block_body({"endset"});
  take();
  return stmt;
}

void Parser::parse_signature(MacroDefinition& macro) {
  expect_op("(");
  while (!current().is_op(")")) {
    if (!macro.parameters.empty()) expect_op(",");
    Parameter parameter;
    parameter.name = parse_target_name();
    parameter.slot = slot_of(parameter.name);
    if (skip_op("=")) {
      parameter.default_value = parse_expression();
    } else if (!macro.parameters.empty() && macro.parameters.back().default_value != nullptr) {
      syntax_error(current().line, "non-default argument follows default argument");
    }
    macro.parameters.push_back(std::move(parameter));
  }
  take();
}

void Parser::parse_macro_body(MacroDefinition& macro, std::string_view end) {
  macros_.push_back(&macro);
  macro.body = parse_block_body({end});
  macros_.pop_back();
  take();
}

std::unique_ptr<Stmt> Parser::parse_macro() {
  auto stmt = make_stmt(StmtKind::macro);
  take();
  stmt->macro = std::make_unique<MacroDefinition>();
  stmt->macro->line = stmt->line;
  stmt->macro->name = parse_target_name();
  stmt->slot = slot_of(stmt->macro->name);
  const Isolated isolated(*this, true);
  parse_signature(*stmt->macro);
  parse_macro_body(*stmt->macro, "endmacro");
  return stmt;
}

std::unique_ptr<Stmt> Parser::parse_call_block() {
  auto stmt = make_stmt(StmtKind::call_block);
  take();
  stmt->macro = std::make_unique<MacroDefinition>();
  stmt->macro->line = stmt->line;
  stmt->macro->name = "caller";
  if (current().is_op("(")) parse_signature(*stmt->macro);
  stmt->expr = parse_expression();
  if (stmt->expr->kind != ExprKind::call) syntax_error(stmt->line, "expected call");
  const Isolated isolated(*this, true);
  parse_macro_body(*stmt->macro, "endcall");
  return stmt;
}

std::unique_ptr<Stmt> Parser::parse_filter_block() {
  auto stmt = make_stmt(StmtKind::filter_block);
  take();
  const Isolated isolated(*this, false);
  stmt->expr = parse_filter(nullptr);
  while (skip_op("|")) stmt->expr = parse_filter(std::move(stmt->expr));
  stmt->body = parse_block_body({"endfilter"});
  take();
  return stmt;
}

std::unique_ptr<Stmt> Parser::parse_with() {
  auto stmt = make_stmt(StmtKind::with);
  take();
  while (current().kind != TokenKind::block_end) {
    if (!stmt->assignments.empty()) expect_op(",");
    ExprPtr target = parse_target(false, "");
    expect_op("=");
    ExprPtr value = parse_expression();
    stmt->assignments.emplace_back(std::move(target), std::move(value));
  }
  const Isolated isolated(*this, false);
  stmt->body = parse_block_body({"endwith"});
  take();
  return stmt;
}

std::unique_ptr<Stmt> Parser::parse_generation() {
  auto stmt = make_stmt(StmtKind::generation);
  take();
  const Isolated isolated(*this, true);
  stmt->body = parse_block_body({"endgeneration"});
  take();
  return stmt;
}

std::unique_ptr<Stmt> Parser::parse_block() {
  auto stmt = make_stmt(StmtKind::block);
  take();
  stmt->text = expect_name();
  skip_name("scoped");
  if (current().is_name("required")) syntax_error(current().line, "required blocks need another template");
  const Isolated isolated(*this, true);
  stmt->body = parse_block_body({"endblock"});
  take();
  skip_name(stmt->text);
  return stmt;
}

std::unique_ptr<Stmt> Parser::parse_loop_control(StmtKind kind) {
  if (loops_ == 0) syntax_error(current().line, "'{}' outside loop", current().text);
  auto stmt = make_stmt(kind);
  take();
  return stmt;
}

std::string Parser::parse_target_name() {
  const int line = current().line;
  std::string name = expect_name();
  for (const char* constant : {"true", "false", "none", "True", "False", "None"}) {
    if (name == constant) syntax_error(line, "can't assign to '{}'", name);
  }
  return name;
}

// What set and for assign to: a name, a namespace attribute, a tuple of these.
ExprPtr Parser::parse_target(bool with_namespace, std::string_view end_name) {
  const int line = current().line;
  std::vector<ExprPtr> targets;
  bool is_tuple = false;
  while (true) {
    if (!targets.empty()) expect_op(",");
    if (at_tuple_end(end_name)) break;
    targets.push_back(parse_primary(with_namespace));
    if (!current().is_op(",")) break;
    is_tuple = true;
  }
  if (targets.empty()) syntax_error(line, "Expected an expression, got '{}'", describe(current()));
  ExprPtr target;
  if (is_tuple) {
    target = make(ExprKind::tuple, line);
    target->children = std::move(targets);
    target = finish(std::move(target));
  } else {
    target = std::move(targets.front());
  }
  check_target(*target);
  return target;
}

void Parser::check_target(const Expr& target) const {
  if (target.kind == ExprKind::name) {
    if (target.slot == kLoopSlot && loops_ > 0)
      syntax_error(target.line, "Can't assign to special loop variable in for-loop target");
    return;
  }
  if (target.kind == ExprKind::namespace_target) return;
  if (target.kind != ExprKind::tuple) syntax_error(target.line, "can't assign to this expression");
  for (const ExprPtr& child : target.children) check_target(*child);
}

}  // namespace minfer::chat::jinja
