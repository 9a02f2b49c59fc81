// Regular expressions as values: one node for each distinct expression, simplified where that is cheap (flat, sorted
// alternatives; no nothing and no empty text inside), which keeps the number of derivatives small.
#include "engine/grammar/schema/regex.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/utf8.hpp"
#include "engine/grammar/code_ranges.hpp"

namespace minfer::engine::grammar::schema {
namespace {

constexpr uint8_t kEverywhere = 0xF;
constexpr uint8_t kAtStart = 0b1010;  // bits with at_start
constexpr uint8_t kAtEnd = 0b1100;    // bits with at_end
constexpr uint32_t kUnbounded = UINT32_MAX;

// One vector that two nodes share where they are equal.
std::vector<uint32_t> key_of(const Regex& node) {
  std::vector<uint32_t> key = {static_cast<uint32_t>(node.kind), node.least, node.most.value_or(kUnbounded)};
  for (const CodeRange range : node.ranges) {
    key.push_back(range.first);
    key.push_back(range.last);
  }
  key.insert(key.end(), node.children.begin(), node.children.end());
  return key;
}

}  // namespace

RegexPool::RegexPool() {
  add({.kind = RegexKind::nothing});
  add({.kind = RegexKind::empty, .nullable = kEverywhere});
}

RegexId RegexPool::add(Regex node) {
  node.anchored = node.kind == RegexKind::start || node.kind == RegexKind::end;
  for (const RegexId child : node.children) {
    node.anchored = node.anchored || nodes_[child].anchored;
  }
  const auto [entry, is_new] = known_.try_emplace(key_of(node), static_cast<RegexId>(nodes_.size()));
  if (is_new) {
    if (nodes_.size() >= kMaxRegexNodes) {
      fail(ErrorCode::invalid_input,
           "JSON schema: regular expressions (pattern, format, patternProperties) with more than {} parts together; "
           "make them smaller",
           kMaxRegexNodes);
    }
    nodes_.push_back(std::move(node));
  }
  return entry->second;
}

RegexId RegexPool::chars(const std::vector<CodeRange>& ranges) {
  return ranges.empty() ? nothing() : add({.kind = RegexKind::chars, .ranges = ranges});
}

RegexId RegexPool::any_text() {
  return repeat(chars(inverted({})), 0, std::nullopt);
}

RegexId RegexPool::literal(std::string_view utf8) {
  std::vector<uint32_t> codes;
  for (size_t i = 0; i < utf8.size();) {
    const Utf8Step step = utf8_step(utf8, i);
    codes.push_back(step.character);
    i += step.size_bytes;
  }
  RegexId out = empty();
  for (size_t i = codes.size(); i-- > 0;) {
    out = concat(chars({{codes[i], codes[i]}}), out);
  }
  return out;
}

RegexId RegexPool::concat(RegexId left, RegexId right) {
  if (left == nothing() || right == nothing()) {
    return nothing();
  }
  if (left == empty()) {
    return right;
  }
  if (right == empty()) {
    return left;
  }
  if (nodes_[left].kind == RegexKind::concat) {
    // Leaning to the right: one form of each chain.
    const RegexId head = nodes_[left].children[0];
    const RegexId tail = nodes_[left].children[1];
    return concat(head, concat(tail, right));
  }
  const uint8_t nullable = nodes_[left].nullable & nodes_[right].nullable;
  return add({.kind = RegexKind::concat, .children = {left, right}, .nullable = nullable});
}

RegexId RegexPool::flattened(RegexKind kind, const std::vector<RegexId>& children, RegexId neutral, RegexId absorbing) {
  std::vector<RegexId> flat;
  std::vector<CodeRange> ranges;  // of alternatives that are one character: one class
  for (const RegexId child : children) {
    if (kind == RegexKind::either && nodes_[child].kind == RegexKind::chars) {
      ranges.insert(ranges.end(), nodes_[child].ranges.begin(), nodes_[child].ranges.end());
    } else if (nodes_[child].kind == kind) {
      flat.insert(flat.end(), nodes_[child].children.begin(), nodes_[child].children.end());
    } else if (child == absorbing) {
      return absorbing;
    } else if (child != neutral) {
      flat.push_back(child);
    }
  }
  if (!ranges.empty()) {
    flat.push_back(chars(normalized(std::move(ranges))));
  }
  std::sort(flat.begin(), flat.end());
  flat.erase(std::unique(flat.begin(), flat.end()), flat.end());
  if (flat.empty()) {
    return neutral;
  }
  if (flat.size() == 1) {
    return flat[0];
  }
  Regex node{.kind = kind, .nullable = nodes_[flat[0]].nullable};
  for (const RegexId child : flat) {
    const uint8_t nullable = nodes_[child].nullable;
    node.nullable = kind == RegexKind::either ? node.nullable | nullable : node.nullable & nullable;
  }
  node.children = std::move(flat);
  return add(std::move(node));
}

RegexId RegexPool::either(const std::vector<RegexId>& children) {
  return flattened(RegexKind::either, children, nothing(), any_text());
}

RegexId RegexPool::both(const std::vector<RegexId>& children) {
  return flattened(RegexKind::both, children, any_text(), nothing());
}

RegexId RegexPool::inverse(RegexId child) {
  if (nodes_[child].kind == RegexKind::inverse) {
    return nodes_[child].children[0];
  }
  const uint8_t nullable = kEverywhere & ~nodes_[child].nullable;
  return add({.kind = RegexKind::inverse, .children = {child}, .nullable = nullable});
}

RegexId RegexPool::repeat(RegexId child, uint32_t least, std::optional<uint32_t> most) {
  if (most && *most == 0) {
    return empty();
  }
  if (child == nothing()) {
    return least == 0 ? empty() : nothing();
  }
  const Regex inner = nodes_[child];
  if (inner.nullable == kEverywhere) {
    least = 0;
  }
  const bool inner_is_repeat = inner.kind == RegexKind::repeat && inner.least <= 1;
  if (child == empty() || (least == 1 && most == 1u) || (inner_is_repeat && inner.least == 0 && !inner.most)) {
    return child;
  }
  if (inner_is_repeat && least == 0 && !most) {
    return repeat(inner.children[0], 0, std::nullopt);
  }
  const uint8_t nullable = least == 0 ? kEverywhere : inner.nullable;
  return add({.kind = RegexKind::repeat, .children = {child}, .least = least, .most = most, .nullable = nullable});
}

RegexId RegexPool::start() {
  return add({.kind = RegexKind::start, .nullable = kAtStart});
}

RegexId RegexPool::end() {
  return add({.kind = RegexKind::end, .nullable = kAtEnd});
}

bool RegexPool::nullable(RegexId id, bool at_start, bool at_end) const {
  return (nodes_[id].nullable >> (at_start + 2 * at_end) & 1) != 0;
}

RegexId RegexPool::repeat_derivative(const Regex& node, uint32_t code, bool at_start) {
  const RegexId child = node.children[0];
  const std::optional<uint32_t> most = node.most ? std::optional(*node.most - 1) : std::nullopt;
  // A child that can be empty here (at the start alone, else `least` is 0) may stand for all the earlier ones.
  const uint32_t least = node.least == 0 || nullable(child, at_start, false) ? 0 : node.least - 1;
  const RegexId rest = repeat(child, least, most);
  return concat(derivative(child, code, at_start), rest);
}

RegexId RegexPool::derivative(RegexId id, uint32_t code, bool at_start) {
  if (++derivatives_ > kMaxDerivatives) {
    fail(ErrorCode::invalid_input,
         "JSON schema: regular expressions (pattern, format, patternProperties) whose automata take more than {} "
         "steps; make them smaller or simpler",
         kMaxDerivatives);
  }
  const Regex node = nodes_[id];  // a copy: the pool grows below
  switch (node.kind) {
    case RegexKind::nothing:
    case RegexKind::empty:
    case RegexKind::start:
    case RegexKind::end:
      return nothing();
    case RegexKind::chars:
      return contains(node.ranges, code) ? empty() : nothing();
    case RegexKind::repeat:
      return repeat_derivative(node, code, at_start);
    case RegexKind::inverse:
      return inverse(derivative(node.children[0], code, at_start));
    case RegexKind::concat: {
      const RegexId left = concat(derivative(node.children[0], code, at_start), node.children[1]);
      return nullable(node.children[0], at_start, false) ? either({left, derivative(node.children[1], code, at_start)})
                                                         : left;
    }
    case RegexKind::either:
    case RegexKind::both: {
      std::vector<RegexId> children;
      for (const RegexId child : node.children) {
        children.push_back(derivative(child, code, at_start));
      }
      return node.kind == RegexKind::either ? either(children) : both(children);
    }
  }
  return nothing();
}

bool RegexPool::matches(RegexId id, std::string_view utf8) {
  bool at_start = true;
  for (size_t i = 0; i < utf8.size();) {
    const Utf8Step step = utf8_step(utf8, i);
    id = derivative(id, step.character, at_start);
    at_start = false;
    i += step.size_bytes;
  }
  return nullable(id, at_start, true);
}

}  // namespace minfer::engine::grammar::schema
