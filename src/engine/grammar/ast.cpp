// Building an Ast: each node is checked and brought into one form (code ranges sorted, apart from each other and
// without surrogates) where it is made, so that what is compiled later needs no checks of its own.
#include "engine/grammar/ast.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/utf8.hpp"
#include "engine/grammar/code_ranges.hpp"

namespace minfer::engine::grammar {
namespace {

Node node_of(NodeKind kind, std::vector<NodeId> children = {}) {
  Node node{};
  node.kind = kind;
  node.children = std::move(children);
  return node;
}

}  // namespace

NodeId AstBuilder::literal(std::string_view text) {
  if (const size_t offset = find_malformed_utf8(text); offset != std::string_view::npos) {
    fail(ErrorCode::invalid_input, "grammar: a literal is no valid UTF-8 at its byte {}; write text in UTF-8", offset);
  }
  Node node = node_of(NodeKind::literal);
  node.text = text;
  return add(std::move(node));
}

NodeId AstBuilder::code_class(std::vector<CodeRange> ranges, bool negated) {
  for (const CodeRange range : ranges) {
    if (range.first > range.last || range.last > kMaxCodePoint) {
      fail(ErrorCode::invalid_input,
           "grammar: the character range U+{:04X} to U+{:04X}; a range rises and ends at U+{:X}", range.first,
           range.last, kMaxCodePoint);
    }
  }
  ranges = normalized(std::move(ranges));
  if (negated) {
    ranges = inverted(ranges);
  }
  if (ranges.empty()) {
    fail(ErrorCode::invalid_input, "grammar: a character class that no character is in; name at least one");
  }
  Node node = node_of(NodeKind::code_class);
  node.ranges = std::move(ranges);
  return add(std::move(node));
}

NodeId AstBuilder::sequence(std::vector<NodeId> children) {
  return add(node_of(NodeKind::sequence, std::move(children)));
}

NodeId AstBuilder::alternatives(std::vector<NodeId> children) {
  check(!children.empty(), "alternatives of a grammar are at least one");
  return add(node_of(NodeKind::alternatives, std::move(children)));
}

NodeId AstBuilder::repeat(NodeId child, uint32_t least, std::optional<uint32_t> most) {
  if (const uint32_t largest = std::max(least, most.value_or(0)); largest > kMaxRepeat) {
    fail(ErrorCode::invalid_input, "grammar: a repetition of {} times; the limit is {}", largest, kMaxRepeat);
  }
  if (most && *most < least) {
    fail(ErrorCode::invalid_input, "grammar: a repetition of {} to {} times; the first number is the smaller one",
         least, *most);
  }
  Node node = node_of(NodeKind::repeat, {child});
  node.least = least;
  node.most = most;
  return add(std::move(node));
}

NodeId AstBuilder::reference(RuleId rule) {
  check(rule < ast_.rules.size(), "a grammar refers to a declared rule");
  Node node = node_of(NodeKind::reference);
  node.rule = rule;
  return add(std::move(node));
}

RuleId AstBuilder::declare(std::string name) {
  // A rule needs a node: one limit for both.
  if (ast_.rules.size() >= kMaxNodes) {
    fail(ErrorCode::invalid_input, "grammar: more than {} rules; make it smaller", kMaxNodes);
  }
  ast_.rules.push_back({std::move(name), std::nullopt});
  return static_cast<RuleId>(ast_.rules.size() - 1);
}

void AstBuilder::define(RuleId rule, NodeId node) {
  check(rule < ast_.rules.size() && node < ast_.nodes.size(), "a grammar defines a declared rule by a node");
  check(!ast_.rules[rule].node, "a grammar defines a rule once");
  ast_.rules[rule].node = node;
}

Ast AstBuilder::finish(RuleId root) && {
  check(root < ast_.rules.size(), "a grammar starts at a declared rule");
  for (const Rule& rule : ast_.rules) {
    if (!rule.node) {
      fail(ErrorCode::invalid_input,
           "grammar: the rule '{}' is used and not defined; define it or remove the reference", rule.name);
    }
  }
  ast_.root = root;
  return std::move(ast_);
}

NodeId AstBuilder::add(Node node) {
  if (ast_.nodes.size() >= kMaxNodes) {
    fail(ErrorCode::invalid_input, "grammar: more than {} nodes; make it smaller", kMaxNodes);
  }
  for (const NodeId child : node.children) {
    check(child < ast_.nodes.size(), "a grammar's nodes are made before their parents");
  }
  text_bytes_ += node.text.size() + node.ranges.size() * sizeof(CodeRange) + node.children.size() * sizeof(NodeId);
  if (text_bytes_ > kMaxTextBytes) {
    fail(ErrorCode::invalid_input,
         "grammar: more than {} bytes of literals, character ranges and lists; make it smaller", kMaxTextBytes);
  }
  ast_.nodes.push_back(std::move(node));
  return static_cast<NodeId>(ast_.nodes.size() - 1);
}

}  // namespace minfer::engine::grammar
