// Listed values: scalars as a prefix tree, so that at each place one way is left; arrays and objects piece by piece, as
// a document of that value is written.
#include <algorithm>

#include "base/utf8.hpp"
#include "engine/grammar/schema/emit.hpp"
#include "engine/grammar/schema/json_values.hpp"

namespace minfer::engine::grammar::schema {
namespace {

using chat::Kind;
using chat::Value;

constexpr uint32_t kMaxTreeDepth = 32;  // then a rule: nodes nest no deeper

// Where the texts from `from` on stop being equal, at the edge of a character.
size_t common_end(const std::string& first, const std::string& last, size_t from) {
  size_t end = from;
  while (end < first.size() && end < last.size()) {
    const Utf8Step step = utf8_step(first, end);
    if (first.compare(end, step.size_bytes, last, end, step.size_bytes) != 0) {
      break;
    }
    end += step.size_bytes;
  }
  return end;
}

}  // namespace

NodeId Emitter::values(const std::vector<Value>& values) {
  Parts ways;
  std::vector<std::string> scalars;
  for (const Value& one : values) {
    if (one.is(Kind::list) || one.is(Kind::dict)) {
      ways.push_back(value(one));
    } else {
      scalars.push_back(json_scalar(one));
    }
  }
  std::sort(scalars.begin(), scalars.end());
  scalars.erase(std::unique(scalars.begin(), scalars.end()), scalars.end());
  if (!scalars.empty()) {
    ways.push_back(texts(scalars, 0, scalars.size(), 0, 0));
  }
  return ways.size() == 1 ? ways[0] : builder_.alternatives(std::move(ways));
}

// The tree of sorted[first, last), which are equal up to `from`.
NodeId Emitter::texts(const std::vector<std::string>& sorted, size_t first, size_t last, size_t from, uint32_t depth) {
  if (depth == kMaxTreeDepth) {
    return builder_.reference(rule_of(texts(sorted, first, last, from, 0), "value"));
  }
  const size_t end = common_end(sorted[first], sorted[last - 1], from);
  const NodeId common = builder_.literal(std::string_view(sorted[first]).substr(from, end - from));
  if (first + 1 == last) {
    return common;
  }
  Parts ways;
  for (size_t i = first; i < last;) {
    if (sorted[i].size() == end) {
      ways.push_back(builder_.literal(""));
      ++i;
      continue;
    }
    const size_t bytes = utf8_step(sorted[i], end).size_bytes;
    size_t next = i + 1;
    while (next < last && sorted[next].compare(end, bytes, sorted[i], end, bytes) == 0) {
      ++next;
    }
    ways.push_back(texts(sorted, i, next, end, depth + 1));
    i = next;
  }
  return builder_.sequence({common, builder_.alternatives(std::move(ways))});
}

NodeId Emitter::value(const Value& value) {
  if (!value.is(Kind::list) && !value.is(Kind::dict)) {
    return builder_.literal(json_scalar(value));
  }
  const bool is_list = value.is(Kind::list);
  Parts parts;
  token(parts, is_list ? "[" : "{", true);
  bool is_first = true;
  const auto separate = [&] {
    if (!is_first) {
      token(parts, ",", true);
    }
    is_first = false;
  };
  if (is_list) {
    for (const Value& item : value.items()) {
      separate();
      parts.push_back(this->value(item));
    }
  } else {
    for (const auto& [name, item] : value.as_dict().entries()) {
      separate();
      token(parts, json_quoted(name.as_string()) + ":", true);
      parts.push_back(this->value(item));
    }
  }
  if (!is_first) {
    space(parts);
  }
  token(parts, is_list ? "]" : "}", false);
  return builder_.sequence(std::move(parts));
}

}  // namespace minfer::engine::grammar::schema
