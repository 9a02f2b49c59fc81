// Left factoring of one callee: two states that the same edges lead to, from the same states, are behind the same
// texts, and become one with the edges of both. So alternatives that begin alike ("a" s | "a" s s, the words of a list)
// are read once as far as they do, instead of once each at every token. What is matched does not change. Only ambiguity
// that stands in one callee goes away; more than kMaxMergedEdges edges are left as they are. Internal to compiling.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/grammar/automaton.hpp"
#include "engine/grammar/fragment.hpp"

namespace minfer::engine::grammar {

inline constexpr size_t kMaxMergedEdges = size_t{1} << 18;

// An edge between states of one callee; none is empty.
struct LooseEdge {
  uint32_t from;
  uint32_t to;
  CalleeId callee;  // of a call, else 0
  Symbol first;     // of symbols
  Symbol last;

  uint64_t label() const { return uint64_t{callee} << 32 | uint64_t{first} << 16 | last; }
};

// `edges` come in ascending order of `from`, and leave so, each once, between the states that are left; nothing leads
// to state 0. is_final [states] is updated. Returns [states] the one that each became. Errors: those of `budget`.
std::vector<uint32_t> merge_states(std::vector<LooseEdge>& edges, std::vector<char>& is_final, CompileBudget& budget);

}  // namespace minfer::engine::grammar
