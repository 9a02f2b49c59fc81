// A grammar as written: rules of nodes, the one form that GBNF text (gbnf.hpp) and JSON Schema (json_schema.hpp) are
// read into, and that Grammar (grammar.hpp) is compiled from. Nodes are made by an AstBuilder, children before parents,
// so that a node's children have lower ids and only references may be recursive. Plain data; one thread builds, then
// any may read. Limits: kMaxNodes nodes and kMaxTextBytes of literals, ranges and child lists a grammar, kMaxRepeat a
// count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace minfer::engine::grammar {

using NodeId = uint32_t;
using RuleId = uint32_t;

inline constexpr size_t kMaxNodes = size_t{1} << 18;
inline constexpr size_t kMaxTextBytes = size_t{8} << 20;
inline constexpr uint32_t kMaxRepeat = 1 << 20;

// Unicode code points, both inclusive; surrogates are never matched.
struct CodeRange {
  uint32_t first;
  uint32_t last;
};

enum class NodeKind : uint8_t {
  literal,       // the UTF-8 bytes of `text`; empty: matches nothing read
  code_class,    // one code point in `ranges` (a negation is written out by the builder)
  sequence,      // `children` one after another; none: empty
  alternatives,  // one of `children`; at least one
  repeat,        // children[0], `least` to `most` times
  reference,     // what `rule` is defined as
};

struct Node {
  NodeKind kind;
  std::string text;
  std::vector<CodeRange> ranges;
  std::vector<NodeId> children;
  uint32_t least = 0;
  std::optional<uint32_t> most;  // none: no bound
  RuleId rule = 0;
};

struct Rule {
  std::string name;  // for messages
  std::optional<NodeId> node;
};

struct Ast {
  std::vector<Node> nodes;
  std::vector<Rule> rules;
  RuleId root = 0;
};

// Errors of all: invalid_input where a limit is exceeded, naming it.
class AstBuilder {
 public:
  NodeId literal(std::string_view text);
  // Ranges in any order, overlapping or not; `negated`: every other code point.
  NodeId code_class(std::vector<CodeRange> ranges, bool negated = false);
  NodeId sequence(std::vector<NodeId> children);
  NodeId alternatives(std::vector<NodeId> children);
  NodeId repeat(NodeId child, uint32_t least, std::optional<uint32_t> most);
  NodeId optional(NodeId child) { return repeat(child, 0, 1); }
  NodeId reference(RuleId rule);
  // A rule may be referred to before it is defined.
  RuleId declare(std::string name);
  void define(RuleId rule, NodeId node);
  // The whole grammar. Errors: invalid_input naming a rule that was declared and not defined.
  Ast finish(RuleId root) &&;

 private:
  NodeId add(Node node);

  Ast ast_;
  size_t text_bytes_ = 0;
};

}  // namespace minfer::engine::grammar
