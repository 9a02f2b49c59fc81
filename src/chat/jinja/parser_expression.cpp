// Expressions of the template grammar, lowest precedence first: one function a level, recursive descent. The other half
// of Parser; statements are in parser.cpp. Recursion is limited by Parser::Nested and trees by depth, so that neither
// parsing nor evaluation can exhaust the stack. Oracle: jinja2's parser.py, its quirks of precedence included. See
// parser.hpp.
#include <algorithm>

#include "chat/jinja/failure.hpp"
#include "chat/jinja/parser.hpp"
#include "chat/jinja/parser_internal.hpp"

namespace minfer::chat::jinja {
namespace {

uint32_t depth_or_zero(const ExprPtr& node) {
  return node == nullptr ? 0 : node->depth;
}

}  // namespace

ExprPtr Parser::make(ExprKind kind, int line) const {
  auto node = std::make_unique<Expr>();
  node->kind = kind;
  node->line = line;
  return node;
}

ExprPtr Parser::finish(ExprPtr node) {
  uint32_t depth = std::max(depth_or_zero(node->star), depth_or_zero(node->star_star));
  for (const ExprPtr& child : node->children) depth = std::max(depth, depth_or_zero(child));
  for (const Keyword& keyword : node->keywords) depth = std::max(depth, depth_or_zero(keyword.value));
  if (depth >= kMaxNesting) syntax_error(node->line, "an expression nests more than {} levels", kMaxNesting);
  node->depth = depth + 1;
  return node;
}

ExprPtr Parser::make_binary(Op op, ExprPtr left, ExprPtr right, int line) {
  ExprPtr node = make(ExprKind::binary, line);
  node->op = op;
  node->children.push_back(std::move(left));
  node->children.push_back(std::move(right));
  return finish(std::move(node));
}

ExprPtr Parser::parse_expression(bool with_conditional) {
  return with_conditional ? parse_conditional() : parse_or();
}

bool Parser::at_tuple_end(std::string_view end_name) const {
  const Token& token = current();
  if (token.kind == TokenKind::variable_end || token.kind == TokenKind::block_end || token.is_op(")")) return true;
  return !end_name.empty() && token.is_name(end_name);
}

ExprPtr Parser::parse_tuple(bool with_conditional, std::string_view end_name, bool parenthesized) {
  const int line = current().line;
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  while (true) {
    if (!items.empty()) expect_op(",");
    if (at_tuple_end(end_name)) break;
    items.push_back(parse_expression(with_conditional));
    if (!current().is_op(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items.front());
  if (!is_tuple && !parenthesized) syntax_error(line, "Expected an expression, got '{}'", describe(current()));
  ExprPtr node = make(ExprKind::tuple, line);
  node->children = std::move(items);
  return finish(std::move(node));
}

ExprPtr Parser::parse_conditional() {
  const Nested nested(*this);
  const size_t known = unknown_.size();
  const int line = current().line;
  ExprPtr value = parse_or();
  while (skip_name("if")) {
    const bool outer = std::exchange(conditional_, true);
    ExprPtr node = make(ExprKind::conditional, line);
    node->children.push_back(parse_or());
    node->children.push_back(std::move(value));
    node->children.push_back(skip_name("else") ? parse_conditional() : nullptr);
    conditional_ = outer;
    unknown_.resize(std::min(known, unknown_.size()), Unknown{});  // filters of a conditional fail when reached
    value = finish(std::move(node));
  }
  return value;
}

ExprPtr Parser::parse_or() {
  const int line = current().line;
  ExprPtr left = parse_and();
  while (skip_name("or")) {
    ExprPtr node = make(ExprKind::logical_or, line);
    node->children.push_back(std::move(left));
    node->children.push_back(parse_and());
    left = finish(std::move(node));
  }
  return left;
}

ExprPtr Parser::parse_and() {
  const int line = current().line;
  ExprPtr left = parse_not();
  while (skip_name("and")) {
    ExprPtr node = make(ExprKind::logical_and, line);
    node->children.push_back(std::move(left));
    node->children.push_back(parse_not());
    left = finish(std::move(node));
  }
  return left;
}

ExprPtr Parser::parse_not() {
  if (!current().is_name("not")) return parse_compare();
  const Nested nested(*this);
  ExprPtr node = make(ExprKind::logical_not, take().line);
  node->children.push_back(parse_not());
  return finish(std::move(node));
}

ExprPtr Parser::parse_compare() {
  static constexpr std::pair<std::string_view, Op> kOps[] = {{"==", Op::equal},  {"!=", Op::not_equal},
                                                             {"<", Op::less},    {"<=", Op::less_equal},
                                                             {">", Op::greater}, {">=", Op::greater_equal}};
  ExprPtr first = parse_sum();
  ExprPtr node;
  while (true) {
    const auto* const found =
        std::find_if(std::begin(kOps), std::end(kOps), [&](const auto& entry) { return current().is_op(entry.first); });
    Op op = Op::in;
    if (found != std::end(kOps)) {
      op = found->second;
      take();
    } else if (current().is_name("not") && look().is_name("in")) {
      take();
      take();
      op = Op::not_in;
    } else if (!skip_name("in")) {
      break;
    }
    if (node == nullptr) {
      node = make(ExprKind::compare, current().line);
      node->children.push_back(std::move(first));
    }
    node->ops.push_back(op);
    node->children.push_back(parse_sum());
  }
  return node == nullptr ? std::move(first) : finish(std::move(node));
}

ExprPtr Parser::parse_sum() {
  ExprPtr left = parse_concat();
  while (current().is_op("+") || current().is_op("-")) {
    const Token op = take();
    ExprPtr right = parse_concat();
    left = make_binary(op.text == "+" ? Op::add : Op::subtract, std::move(left), std::move(right), op.line);
  }
  return left;
}

ExprPtr Parser::parse_concat() {
  const int line = current().line;
  ExprPtr first = parse_product();
  if (!current().is_op("~")) return first;
  ExprPtr node = make(ExprKind::concat, line);
  node->children.push_back(std::move(first));
  while (skip_op("~")) node->children.push_back(parse_product());
  return finish(std::move(node));
}

ExprPtr Parser::parse_product() {
  static constexpr std::pair<std::string_view, Op> kOps[] = {
      {"*", Op::multiply}, {"/", Op::divide}, {"//", Op::floor_divide}, {"%", Op::modulo}};
  ExprPtr left = parse_power();
  while (true) {
    const auto* const found =
        std::find_if(std::begin(kOps), std::end(kOps), [&](const auto& entry) { return current().is_op(entry.first); });
    if (found == std::end(kOps)) return left;
    const int line = take().line;
    ExprPtr right = parse_power();
    left = make_binary(found->second, std::move(left), std::move(right), line);
  }
}

// Left-associative in templates, unlike Python.
ExprPtr Parser::parse_power() {
  ExprPtr left = parse_unary();
  while (current().is_op("**")) {
    const int line = take().line;
    ExprPtr right = parse_unary();
    left = make_binary(Op::power, std::move(left), std::move(right), line);
  }
  return left;
}

ExprPtr Parser::parse_unary(bool with_filter) {
  const Nested nested(*this);
  ExprPtr node;
  if (current().is_op("-") || current().is_op("+")) {
    const Token op = take();
    node = make(op.text == "-" ? ExprKind::negate : ExprKind::plus, op.line);
    node->children.push_back(parse_unary(false));
    node = finish(std::move(node));
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  return with_filter ? parse_filter_chain(std::move(node)) : std::move(node);
}

ExprPtr Parser::parse_name(bool with_namespace) {
  const Token token = take();
  const std::string& name = token.text;
  ExprPtr node = make(ExprKind::constant, token.line);
  if (name == "true" || name == "True" || name == "false" || name == "False") {
    node->constant = Value::boolean(name == "true" || name == "True");
  } else if (name != "none" && name != "None") {
    node->kind = ExprKind::name;
    node->slot = slot_of(name);
    node->text = name;
    if (with_namespace && skip_op(".")) {
      node->kind = ExprKind::namespace_target;
      node->text = expect_name();
    } else {
      for (MacroDefinition* macro : macros_) {
        macro->uses_caller |= node->slot == kCallerSlot;
        macro->uses_kwargs |= node->slot == kKwargsSlot;
        macro->uses_varargs |= node->slot == kVarargsSlot;
      }
    }
  }
  return node;
}

ExprPtr Parser::parse_primary(bool with_namespace) {
  const Token& token = current();
  const int line = token.line;
  if (token.kind == TokenKind::name) return parse_name(with_namespace);
  ExprPtr node = make(ExprKind::constant, line);
  if (token.kind == TokenKind::string) {
    std::string text;
    while (current().kind == TokenKind::string) text += take().text;
    node->constant = Value::trusted_string(std::move(text));
  } else if (token.kind == TokenKind::integer) {
    node->constant = Value::integer(take().integer);
  } else if (token.kind == TokenKind::floating) {
    node->constant = Value::floating(take().floating);
  } else if (token.is_op("(")) {
    take();
    node = parse_tuple(true, "", true);
    expect_op(")");
  } else if (token.is_op("[")) {
    node = parse_list();
  } else if (token.is_op("{")) {
    node = parse_dict();
  } else {
    syntax_error(line, "unexpected '{}'", describe(token));
  }
  return node;
}

ExprPtr Parser::parse_list() {
  ExprPtr node = make(ExprKind::list, take().line);
  while (!current().is_op("]")) {
    if (!node->children.empty()) expect_op(",");
    if (current().is_op("]")) break;
    node->children.push_back(parse_expression());
  }
  expect_op("]");
  return finish(std::move(node));
}

ExprPtr Parser::parse_dict() {
  ExprPtr node = make(ExprKind::dict, take().line);
  while (!current().is_op("}")) {
    if (!node->children.empty()) expect_op(",");
    if (current().is_op("}")) break;
    node->children.push_back(parse_expression());
    expect_op(":");
    node->children.push_back(parse_expression());
  }
  expect_op("}");
  return finish(std::move(node));
}

ExprPtr Parser::parse_postfix(ExprPtr node) {
  while (true) {
    if (current().is_op(".") || current().is_op("[")) {
      node = parse_subscript(std::move(node));
    } else if (current().is_op("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr Parser::parse_filter_chain(ExprPtr node) {
  while (true) {
    if (skip_op("|")) {
      node = parse_filter(std::move(node));
    } else if (skip_name("is")) {
      node = parse_test(std::move(node));
    } else if (current().is_op("(")) {
      node = parse_call(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr Parser::parse_subscript(ExprPtr node) {
  const Token open = take();
  if (open.text == "[") return parse_subscript_argument(std::move(node));
  ExprPtr result = make(ExprKind::attribute, open.line);
  result->children.push_back(std::move(node));
  if (current().kind == TokenKind::integer) {
    result->kind = ExprKind::item;
    ExprPtr index = make(ExprKind::constant, open.line);
    index->constant = Value::integer(take().integer);
    result->children.push_back(std::move(index));
  } else if (current().kind == TokenKind::name) {
    result->text = take().text;
  } else {
    syntax_error(current().line, "expected name or number");
  }
  return finish(std::move(result));
}

ExprPtr Parser::parse_subscript_argument(ExprPtr node) {
  const int line = current().line;
  if (current().is_op(":")) return parse_slice(std::move(node), nullptr);
  ExprPtr result = make(ExprKind::item, line);
  result->children.push_back(std::move(node));
  ExprPtr index;
  if (current().is_op("]")) {
    index = make(ExprKind::tuple, line);
  } else {
    index = parse_expression();
    if (current().is_op(":")) return parse_slice(std::move(result->children.front()), std::move(index));
  }
  if (current().is_op(",")) {
    ExprPtr tuple = make(ExprKind::tuple, line);
    tuple->children.push_back(std::move(index));
    while (skip_op(",")) tuple->children.push_back(parse_expression());
    index = finish(std::move(tuple));
  }
  expect_op("]");
  result->children.push_back(std::move(index));
  return finish(std::move(result));
}

// At the first colon of [start:stop:step].
ExprPtr Parser::parse_slice(ExprPtr node, ExprPtr start) {
  ExprPtr result = make(ExprKind::slice_item, take().line);
  result->children.push_back(std::move(node));
  result->children.push_back(std::move(start));
  const auto at_end = [&] { return current().is_op(":") || current().is_op("]") || current().is_op(","); };
  result->children.push_back(at_end() ? nullptr : parse_expression());
  result->children.push_back(skip_op(":") && !at_end() ? parse_expression() : nullptr);
  expect_op("]");
  return finish(std::move(result));
}

void Parser::parse_argument(Expr& node) {
  const int line = current().line;
  bool valid = true;
  if (skip_op("*")) {
    valid = node.star == nullptr && node.star_star == nullptr;
    node.star = parse_expression();
  } else if (skip_op("**")) {
    valid = node.star_star == nullptr;
    node.star_star = parse_expression();
  } else if (current().kind == TokenKind::name && look().is_op("=")) {
    valid = node.star_star == nullptr;
    std::string name = take().text;
    take();
    for (const Keyword& other : node.keywords) valid &= other.name != name;
    node.keywords.push_back(Keyword{std::move(name), parse_expression()});
  } else {
    valid = node.star == nullptr && node.star_star == nullptr && node.keywords.empty();
    node.children.push_back(parse_expression());
  }
  if (!valid) syntax_error(line, "invalid syntax for function call expression");
}

void Parser::parse_arguments(Expr& node) {
  expect_op("(");
  bool first = true;
  while (!current().is_op(")")) {
    if (!first) {
      expect_op(",");
      if (current().is_op(")")) break;
    }
    first = false;
    parse_argument(node);
  }
  take();
}

ExprPtr Parser::parse_call(ExprPtr node) {
  ExprPtr call = make(ExprKind::call, current().line);
  call->children.push_back(std::move(node));
  parse_arguments(*call);
  return finish(std::move(call));
}

std::string Parser::parse_dotted_name() {
  std::string name = expect_name();
  while (skip_op(".")) {
    name += '.';
    name += expect_name();
  }
  return name;
}

// Behind the '|'.
ExprPtr Parser::parse_filter(ExprPtr input) {
  ExprPtr node = make(ExprKind::filter, current().line);
  node->text = parse_dotted_name();
  node->filter = find_filter(node->text);
  if (node->filter == nullptr && !conditional_) {
    unknown_.push_back(Unknown{node->line, fmt::format("No filter named '{}'.", node->text)});
  }
  node->children.push_back(std::move(input));
  if (current().is_op("(")) parse_arguments(*node);
  return finish(std::move(node));
}

// Behind the 'is'.
ExprPtr Parser::parse_test(ExprPtr input) {
  const int line = current().line;
  const bool negated = skip_name("not");
  ExprPtr node = make(ExprKind::test, line);
  node->text = parse_dotted_name();
  node->test = find_test(node->text);
  if (node->test == nullptr && !conditional_) {
    unknown_.push_back(Unknown{line, fmt::format("No test named '{}'.", node->text)});
  }
  node->children.push_back(std::move(input));
  const Token& next = current();
  const bool is_literal = next.kind == TokenKind::string || next.kind == TokenKind::integer ||
                          next.kind == TokenKind::floating || next.is_op("[") || next.is_op("{");
  const bool is_word = next.kind == TokenKind::name && next.text != "else" && next.text != "or" && next.text != "and";
  if (next.is_op("(")) {
    parse_arguments(*node);
  } else if (is_literal || is_word) {
    if (next.is_name("is")) syntax_error(next.line, "You cannot chain multiple tests with is");
    node->children.push_back(parse_postfix(parse_primary()));
  }
  node = finish(std::move(node));
  if (!negated) return node;
  ExprPtr negation = make(ExprKind::logical_not, line);
  negation->children.push_back(std::move(node));
  return finish(std::move(negation));
}

}  // namespace minfer::chat::jinja
