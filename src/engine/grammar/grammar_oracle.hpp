// The definition of what a grammar lets through, for small texts: whether a text matches an Ast, and whether it begins
// one that does. Slow and simple, byte by byte; not for rules that begin with themselves. For tests alone.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/utf8.hpp"
#include "engine/grammar/ast.hpp"

namespace minfer::engine::grammar {

class GrammarOracle {
 public:
  explicit GrammarOracle(const Ast& ast) : ast_(ast), productive_(ast.nodes.size(), false) {
    for (bool grew = true; grew;) {
      grew = false;
      for (NodeId id = 0; id < ast.nodes.size(); ++id) {
        if (productive_[id] || !is_productive(ast.nodes[id])) continue;
        productive_[id] = grew = true;
      }
    }
  }

  bool matches(std::string_view text) {
    set_text(text);
    return ends(root(), 0).count(text.size()) > 0;
  }
  // Some text that matches begins with it.
  bool begins(std::string_view text) {
    set_text(text);
    return begins(root(), 0);
  }

 private:
  using Ends = std::set<size_t>;

  NodeId root() const { return *ast_.rules[ast_.root].node; }
  void set_text(std::string_view text) {
    text_ = text;
    ends_.clear();
    begins_.clear();
  }

  bool is_productive(const Node& node) const {
    switch (node.kind) {
      case NodeKind::literal:
      case NodeKind::code_class:
        return true;
      case NodeKind::sequence:
        return std::all_of(node.children.begin(), node.children.end(),
                           [&](NodeId child) { return productive_[child]; });
      case NodeKind::alternatives:
        return std::any_of(node.children.begin(), node.children.end(),
                           [&](NodeId child) { return productive_[child]; });
      case NodeKind::repeat:
        return node.least == 0 || productive_[node.children[0]];
      case NodeKind::reference:
        return productive_[*ast_.rules[node.rule].node];
    }
    return false;
  }

  const Ends& ends(NodeId id, size_t start) {
    const auto [entry, is_new] = ends_.try_emplace({id, start});
    if (is_new) entry->second = find_ends(ast_.nodes[id], start);
    return entry->second;
  }

  Ends step(NodeId child, const Ends& starts) {
    Ends all;
    for (const size_t start : starts) all.merge(Ends(ends(child, start)));
    return all;
  }

  static bool has(const Node& node, uint32_t first, uint32_t last) {
    for (const CodeRange range : node.ranges) {
      if (range.first <= last && first <= range.last) return true;
    }
    return false;
  }

  Ends find_ends(const Node& node, size_t start) {
    switch (node.kind) {
      case NodeKind::literal:
        return text_.substr(start).starts_with(node.text) ? Ends{start + node.text.size()} : Ends{};
      case NodeKind::code_class: {
        if (start >= text_.size()) return {};
        const Utf8Step step = utf8_step(text_, start);
        const bool fits = step.status == Utf8Status::whole && has(node, step.character, step.character);
        return fits ? Ends{start + step.size_bytes} : Ends{};
      }
      case NodeKind::sequence: {
        Ends now = {start};
        for (const NodeId child : node.children) now = step(child, now);
        return now;
      }
      case NodeKind::alternatives: {
        Ends all;
        for (const NodeId child : node.children) all.merge(step(child, {start}));
        return all;
      }
      case NodeKind::repeat: {
        Ends all, now = {start};
        std::set<Ends> before;
        for (uint32_t count = 0; !now.empty(); ++count) {
          if (count >= node.least) all.insert(now.begin(), now.end());
          if ((node.most && count == *node.most) || (count > node.least && !before.insert(now).second)) break;
          now = step(node.children[0], now);
        }
        return all;
      }
      case NodeKind::reference:
        return ends(*ast_.rules[node.rule].node, start);
    }
    return {};
  }

  // What is left of the text begins a match of the node.
  bool begins(NodeId id, size_t start) {
    if (const auto found = begins_.find({id, start}); found != begins_.end()) return found->second;
    const bool found = find_begin(id, start);
    begins_.emplace(std::pair(id, start), found);
    return found;
  }

  bool find_begin(NodeId id, size_t start) {
    if (!productive_[id]) return false;
    const std::string_view rest = text_.substr(start);
    if (rest.empty()) return true;
    const Node& node = ast_.nodes[id];
    switch (node.kind) {
      case NodeKind::literal:
        return node.text.starts_with(rest);
      case NodeKind::code_class:
        return class_begins(node, rest);
      case NodeKind::sequence: {
        Ends now = {start};
        for (size_t i = 0; i < node.children.size(); ++i) {
          bool rest_is_productive = true;
          for (size_t k = i; k < node.children.size(); ++k) rest_is_productive &= productive_[node.children[k]];
          for (const size_t at : now) {
            if (rest_is_productive && begins(node.children[i], at)) return true;
          }
          now = step(node.children[i], now);
        }
        return now.count(text_.size()) > 0;
      }
      case NodeKind::alternatives:
        return std::any_of(node.children.begin(), node.children.end(),
                           [&](NodeId child) { return begins(child, start); });
      case NodeKind::repeat: {
        Ends now = {start};
        std::set<Ends> before;
        for (uint32_t count = 0; !now.empty() && (!node.most || count < *node.most); ++count) {
          for (const size_t at : now) {
            if (begins(node.children[0], at)) return true;
          }
          if (count > node.least && !before.insert(now).second) break;
          now = step(node.children[0], now);
        }
        return false;
      }
      case NodeKind::reference:
        return begins(*ast_.rules[node.rule].node, start);
    }
    return false;
  }

  static bool class_begins(const Node& node, std::string_view rest) {
    const Utf8Step step = utf8_step(rest, 0);
    if (step.size_bytes != rest.size() || step.status == Utf8Status::malformed) return false;
    if (step.status == Utf8Status::whole) return has(node, step.character, step.character);
    // The characters that begin so are from the one with the least to the one with the greatest bytes behind.
    const auto lead = static_cast<uint8_t>(rest[0]);
    const size_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    uint32_t first = lead & (0xFFU >> (size + 1));
    for (size_t i = 1; i < rest.size(); ++i) first = first << 6 | (static_cast<uint8_t>(rest[i]) & 0x3FU);
    uint32_t last = first;
    for (size_t i = rest.size(); i < size; ++i) {
      first = first << 6;
      last = last << 6 | 0x3F;
    }
    const uint32_t least = size == 2 ? 0x80 : size == 3 ? 0x800 : 0x10000;
    return has(node, std::max(first, least), last);
  }

  const Ast& ast_;
  std::vector<bool> productive_;
  std::string_view text_;
  std::map<std::pair<NodeId, size_t>, Ends> ends_;
  std::map<std::pair<NodeId, size_t>, bool> begins_;
};

}  // namespace minfer::engine::grammar
