// Regular expressions as values: what `pattern` and `format` say of a string, what lengths and excluded names add to
// it, and their intersections and complements, over code points. Nodes live in a pool, equal ones once, so that a
// derivative (what is left to match after one character) is a node that may have been met before: that makes the
// automaton (dfa.hpp). Anchors are nodes, true at the very start and end of the text. Not thread-safe; a pool serves
// one schema. Source: Brzozowski, "Derivatives of Regular Expressions", 1964.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/grammar/ast.hpp"

namespace minfer::engine::grammar::schema {

using RegexId = uint32_t;

inline constexpr size_t kMaxRegexNodes = size_t{1} << 16;
inline constexpr size_t kMaxDerivatives = 500'000;

enum class RegexKind : uint8_t {
  nothing,  // no text
  empty,    // the empty text
  chars,    // one code point of `ranges`
  concat,   // children[0], then children[1]
  either,   // one of the children
  both,     // all of the children
  inverse,  // whatever children[0] is not; never inside a concat or a repeat
  repeat,   // children[0], `least` to `most` times
  start,    // empty, at the start of the text
  end,      // empty, at its end
};

struct Regex {
  RegexKind kind = RegexKind::nothing;
  std::vector<CodeRange> ranges{};
  std::vector<RegexId> children{};
  uint32_t least = 0;
  std::optional<uint32_t> most{};
  // Bit (at_start + 2 * at_end): whether the empty text matches at such a place.
  uint8_t nullable = 0;
  bool anchored = false;  // start or end is somewhere inside
};

class RegexPool {
 public:
  RegexPool();
  RegexId nothing() const { return 0; }
  RegexId empty() const { return 1; }
  RegexId chars(const std::vector<CodeRange>& ranges);  // normalized
  RegexId any_text();                                   // any code points
  RegexId literal(std::string_view utf8);
  RegexId concat(RegexId left, RegexId right);
  RegexId either(const std::vector<RegexId>& children);
  RegexId both(const std::vector<RegexId>& children);
  RegexId inverse(RegexId child);
  RegexId repeat(RegexId child, uint32_t least, std::optional<uint32_t> most);
  RegexId start();
  RegexId end();

  const Regex& operator[](RegexId id) const { return nodes_[id]; }
  size_t size() const { return nodes_.size(); }
  // What is left to match after `code` was read, as the first character or a later one. Errors: invalid_input where
  // a limit is exceeded.
  RegexId derivative(RegexId id, uint32_t code, bool at_start);
  bool nullable(RegexId id, bool at_start, bool at_end) const;
  // Whether all of `text` matches.
  bool matches(RegexId id, std::string_view utf8);

 private:
  RegexId add(Regex node);
  RegexId flattened(RegexKind kind, const std::vector<RegexId>& children, RegexId neutral, RegexId absorbing);
  RegexId repeat_derivative(const Regex& node, uint32_t code, bool at_start);

  std::vector<Regex> nodes_;
  size_t derivatives_ = 0;
  std::map<std::vector<uint32_t>, RegexId> known_;  // by kind, numbers, ranges and children
};

// The texts in which an ECMA 262 regular expression finds a match, of those that Python and JavaScript agree on:
// `widest` false gives texts that match in both (\d is [0-9]), true all that match in either. Lazy and named groups are
// read as groups. Errors: unsupported (lookaround, backreferences, \b, \p, flags) and invalid_input, naming `where`.
RegexId parse_pattern(RegexPool& pool, std::string_view pattern, bool widest, std::string_view where);

}  // namespace minfer::engine::grammar::schema
