// Deterministic automata over code points: exact intersections of what a schema says of a string or a number, without a
// state from which nothing can be matched (a generation never runs into a dead end), and as small as can be. Written
// into a grammar as rules of the form S -> [class] T. Limits: kMaxDfaStates states and kMaxDfaCells; more is no
// automaton, which the caller reports. Plain data; pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/grammar/ast.hpp"
#include "engine/grammar/schema/regex.hpp"

namespace minfer::engine::grammar::schema {

inline constexpr size_t kMaxDfaStates = 4096;
inline constexpr size_t kMaxDfaCells = size_t{1} << 20;  // states by symbols
inline constexpr int32_t kNoState = -1;

struct Dfa {
  struct State {
    bool accepts = false;
    std::vector<int32_t> next{};  // by symbol; kNoState: no match
  };
  std::vector<std::vector<CodeRange>> symbols;  // classes of code points, disjoint and normalized
  std::vector<State> states;                    // the first is the start; none: nothing matches
};

// The automaton of a regular expression; none where it has more than `most_states` states.
std::optional<Dfa> make_dfa(RegexPool& pool, RegexId regex, size_t most_states = kMaxDfaStates);

// One part of an automaton that is a product: from a state, what reading symbol `symbol` leads to (kNoState: nothing).
struct Machine {
  int32_t start = 0;
  std::function<int32_t(int32_t state, size_t symbol)> step;
  std::function<bool(int32_t state)> accepts;
};
// What all machines accept; none where that takes more than kMaxDfaStates states.
std::optional<Dfa> make_product(std::vector<std::vector<CodeRange>> symbols, const std::vector<Machine>& machines);

// The fewest and most code points of a match (none: no bound). The automaton has a state.
struct Lengths {
  uint64_t least;
  std::optional<uint64_t> most;
};
Lengths lengths(const Dfa& dfa);

// Writes one class of characters into a grammar.
using WriteClass = std::function<NodeId(AstBuilder&, const std::vector<CodeRange>&)>;
// The node of all matches, each followed by the literal `after`. The automaton has a state; `name` names its rules.
NodeId add_dfa(AstBuilder& builder, const Dfa& dfa, const WriteClass& write, std::string_view after,
               const std::string& name);

}  // namespace minfer::engine::grammar::schema
