// Fixpoints over the nodes of an Ast. See facts.hpp.
#include "engine/grammar/facts.hpp"

#include <algorithm>

namespace minfer::engine::grammar {
namespace {

// A copy of more states than that is not made for a repetition; nor for a rule, unless it is short.
constexpr uint32_t kMostUnrolled = 48;
constexpr uint32_t kMostInlined = 8;
constexpr uint32_t kMostInlinedShort = 64;
constexpr uint32_t kShortLength = 16;
// Of rules within rules that are written out.
constexpr int kInlineDepth = 8;

uint32_t add(uint32_t a, uint32_t b) {
  return a > kUnbounded - b ? kUnbounded : a + b;
}

uint32_t times(uint32_t a, uint32_t b) {
  if (a == 0 || b == 0) return 0;
  if (a == kUnbounded || b == kUnbounded) return kUnbounded;
  const uint64_t product = uint64_t{a} * b;
  return product >= kUnbounded ? kUnbounded : static_cast<uint32_t>(product);
}

// Nodes of which something holds: of a sequence where it holds of all children, of alternatives where of one, of a
// repetition where of its child or none is needed, of a reference where of its rule; `leaf` says of which leaves. Each
// node is looked at once for each use.
template <class Leaf>
std::vector<char> least_fixpoint(const Ast& ast, Leaf leaf) {
  const size_t count = ast.nodes.size();
  std::vector<uint32_t> first_user(count + 1, 0);
  const auto for_uses = [&](auto use) {
    for (NodeId id = 0; id < count; ++id) {
      const Node& node = ast.nodes[id];
      for (const NodeId child : node.children) use(child, id);
      if (node.kind == NodeKind::reference) use(*ast.rules[node.rule].node, id);
    }
  };
  for_uses([&](NodeId used, NodeId) { ++first_user[used + 1]; });
  for (size_t i = 0; i < count; ++i) first_user[i + 1] += first_user[i];
  std::vector<NodeId> users(first_user[count]);
  std::vector<uint32_t> filled(first_user.begin(), first_user.end() - 1);
  for_uses([&](NodeId used, NodeId user) { users[filled[used]++] = user; });

  std::vector<char> holds(count, 0);
  std::vector<uint32_t> missing(count, 1);  // children of which it must still be found to hold
  std::vector<NodeId> found;
  const auto mark = [&](NodeId id) {
    if (holds[id] == 0) found.push_back(id);
    holds[id] = 1;
  };
  for (NodeId id = 0; id < count; ++id) {
    const Node& node = ast.nodes[id];
    const bool is_leaf = node.kind == NodeKind::literal || node.kind == NodeKind::code_class;
    if (node.kind == NodeKind::sequence) missing[id] = static_cast<uint32_t>(node.children.size());
    const bool needs_none = (node.kind == NodeKind::sequence && node.children.empty()) ||
                            (node.kind == NodeKind::repeat && (node.least == 0 || node.most == 0U));
    if (needs_none || (is_leaf && leaf(node))) mark(id);
  }
  while (!found.empty()) {
    const NodeId id = found.back();
    found.pop_back();
    for (uint32_t i = first_user[id]; i < first_user[id + 1]; ++i) {
      const NodeId user = users[i];
      if (missing[user] == 0) continue;
      --missing[user];
      if (missing[user] == 0) mark(user);
    }
  }
  return holds;
}

uint32_t class_size(const Node& node) {
  uint32_t size = 1;
  for (const CodeRange range : node.ranges) size += range.last < 0x80 ? 0 : 3;
  return size;
}

uint32_t class_length(const Node& node) {
  const uint32_t last = node.ranges.empty() ? 0 : node.ranges.back().last;
  return last < 0x80 ? 1 : last < 0x800 ? 2 : last < 0x10000 ? 3 : 4;
}

void measure(const Ast& ast, NodeId id, Facts& facts) {
  const Node& node = ast.nodes[id];
  uint32_t size = 0, length = 0;
  switch (node.kind) {
    case NodeKind::literal:
      size = length = static_cast<uint32_t>(node.text.size());
      break;
    case NodeKind::code_class:
      size = class_size(node);
      length = class_length(node);
      break;
    case NodeKind::sequence:
      for (const NodeId child : node.children) {
        size = add(size, facts.size[child]);
        length = add(length, facts.length[child]);
      }
      break;
    case NodeKind::alternatives:
      for (const NodeId child : node.children) {
        size = add(size, facts.size[child]);
        length = std::max(length, facts.length[child]);
      }
      break;
    case NodeKind::repeat: {
      const uint32_t child = facts.size[node.children[0]];
      const uint32_t copies = node.most.value_or(std::max<uint32_t>(node.least, 1));
      size = is_unrolled(child, copies) ? times(child, copies) : add(child, 1);
      length = times(facts.length[node.children[0]], node.most.value_or(kUnbounded));
      break;
    }
    case NodeKind::reference:
      size = facts.size[*ast.rules[node.rule].node];
      length = facts.length[*ast.rules[node.rule].node];
      break;
  }
  facts.size[id] = size;
  facts.length[id] = length;
}

}  // namespace

bool is_unrolled(uint32_t child_size, uint32_t most) {
  return most <= 1 || times(child_size, most) <= kMostUnrolled;
}

Facts find_facts(const Ast& ast) {
  Facts facts;
  facts.nullable =
      least_fixpoint(ast, [](const Node& node) { return node.kind == NodeKind::literal && node.text.empty(); });
  facts.productive =
      least_fixpoint(ast, [](const Node& node) { return node.kind == NodeKind::literal || !node.ranges.empty(); });
  // Unbounded until known: what refers to itself stays so.
  facts.size.assign(ast.nodes.size(), kUnbounded);
  facts.length.assign(ast.nodes.size(), kUnbounded);
  for (int pass = 0; pass < kInlineDepth; ++pass) {
    for (NodeId id = 0; id < ast.nodes.size(); ++id) measure(ast, id, facts);
  }
  for (const Rule& rule : ast.rules) {
    const uint32_t size = facts.size[*rule.node];
    facts.inlined.push_back(size <= kMostInlined ||
                            (size <= kMostInlinedShort && facts.length[*rule.node] <= kShortLength));
  }
  return facts;
}

}  // namespace minfer::engine::grammar
