// The strings that minLength, maxLength, pattern and format leave, and how they are written in JSON. Lengths count code
// points, as validators do; an escape counts what it stands for. Where only lengths are given a character may be
// written in any way that JSON has (a surrogate only in a pair); where its value matters, as itself or by the shortest
// escape.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/grammar/ast.hpp"
#include "engine/grammar/schema/dfa.hpp"
#include "engine/grammar/schema/regex.hpp"

namespace minfer::engine::grammar::schema {

struct StringLimits {
  uint64_t least = 0;
  std::optional<uint64_t> most;
  std::vector<RegexId> patterns;  // as parse_pattern gives them: found somewhere inside
  bool operator==(const StringLimits&) const = default;
};

// The expression of a format's strings. Errors: unsupported for one that is not in the table; `where` is its pointer.
RegexId format_regex(RegexPool& pool, std::string_view format, std::string_view where);
// All texts in which `pattern` is found.
RegexId found_inside(RegexPool& pool, RegexId pattern);

// Strings as a grammar can hold them.
struct StringPlan {
  bool never = false;
  std::optional<Dfa> dfa;        // exact for all of it; else
  std::optional<RegexId> regex;  // written out node by node; else lengths alone
  uint64_t least = 0;
  std::optional<uint64_t> most;
};
// Errors: unsupported where the combination needs too large an automaton, naming `where`.
StringPlan plan_string(RegexPool& pool, const StringLimits& limits, std::string_view where);

// The nodes of strings, with both quotes.
NodeId add_string(AstBuilder& builder, const RegexPool& pool, const StringPlan& plan);
// One character inside a string: any of `ranges`, as itself or by its shortest escape.
NodeId add_string_class(AstBuilder& builder, const std::vector<CodeRange>& ranges);

}  // namespace minfer::engine::grammar::schema
