// Sets of code points as sorted ranges, none touching the next and without surrogates: what character classes of
// grammars and regular expressions are. Pure functions.
#pragma once

#include <vector>

#include "engine/grammar/ast.hpp"

namespace minfer::engine::grammar {

inline constexpr uint32_t kMaxCodePoint = 0x10FFFF;

// The set of `ranges`, which may come in any order and overlap; each has first <= last <= kMaxCodePoint.
std::vector<CodeRange> normalized(std::vector<CodeRange> ranges);
// Every other code point. `ranges` and the result are normalized, also below.
std::vector<CodeRange> inverted(const std::vector<CodeRange>& ranges);
std::vector<CodeRange> intersection(const std::vector<CodeRange>& left, const std::vector<CodeRange>& right);
bool contains(const std::vector<CodeRange>& ranges, uint32_t code);

}  // namespace minfer::engine::grammar
