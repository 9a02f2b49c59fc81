// Whether a text matches an Ast, by the definition: for each node and start, the set of ends. Slow and simple, the
// oracle of tests: of what the front ends write, and of the compiled automaton. Text of some thousand bytes at most; a
// rule that refers to itself before anything is read matches nothing there (left recursion is not followed). For tests
// alone.
#pragma once

#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/utf8.hpp"
#include "engine/grammar/ast.hpp"

namespace minfer::engine::grammar {

class NaiveMatcher {
 public:
  NaiveMatcher(const Ast& ast, std::string_view text) : ast_(ast), text_(text) {}

  bool matches() { return ends(*ast_.rules[ast_.root].node, 0).count(text_.size()) > 0; }

 private:
  using Ends = std::set<size_t>;

  const Ends& ends(NodeId id, size_t start) {
    const auto [entry, is_new] = memo_.try_emplace({id, start});
    if (is_new) {
      entry->second = compute(ast_.nodes[id], start);
    }
    return entry->second;
  }

  Ends compute(const Node& node, size_t start) {
    switch (node.kind) {
      case NodeKind::literal:
        return text_.substr(start).starts_with(node.text) ? Ends{start + node.text.size()} : Ends{};
      case NodeKind::code_class:
        return class_ends(node, start);
      case NodeKind::sequence: {
        Ends now = {start};
        for (const NodeId child : node.children) {
          now = step(child, now);
        }
        return now;
      }
      case NodeKind::alternatives: {
        Ends all;
        for (const NodeId child : node.children) {
          const Ends& one = ends(child, start);
          all.insert(one.begin(), one.end());
        }
        return all;
      }
      case NodeKind::repeat:
        return repeat_ends(node, start);
      case NodeKind::reference:
        return ends(*ast_.rules[node.rule].node, start);
    }
    return {};
  }

  Ends class_ends(const Node& node, size_t start) const {
    if (start >= text_.size()) {
      return {};
    }
    const Utf8Step step = utf8_step(text_, start);
    for (const CodeRange range : node.ranges) {
      if (step.status == Utf8Status::whole && range.first <= step.character && step.character <= range.last) {
        return {start + step.size_bytes};
      }
    }
    return {};
  }

  Ends repeat_ends(const Node& node, size_t start) {
    Ends all;
    Ends now = {start};
    for (uint32_t count = 0;; ++count) {
      const size_t before = all.size();
      if (count >= node.least) {
        all.insert(now.begin(), now.end());
      }
      const bool grew = all.size() > before;
      if (now.empty() || (node.most && count >= *node.most) || (count > node.least && !grew)) {
        return all;
      }
      now = step(node.children[0], now);
    }
  }

  Ends step(NodeId child, const Ends& starts) {
    Ends all;
    for (const size_t start : starts) {
      const Ends& one = ends(child, start);
      all.insert(one.begin(), one.end());
    }
    return all;
  }

  const Ast& ast_;
  std::string_view text_;
  std::map<std::pair<NodeId, size_t>, Ends> memo_;
};

inline bool naive_match(const Ast& ast, std::string_view text) {
  return NaiveMatcher(ast, text).matches();
}

}  // namespace minfer::engine::grammar
