// The compiled form of a grammar: a pushdown automaton over bytes. States have edges over byte ranges, and calls: of a
// rule, or of a repetition that is counted. A call's end goes on at the call's target; a repetition comes again while
// its count allows. There are no empty edges and a callee never matches the empty text (whoever calls one that could
// has an edge past it), so that each step reads a byte, and what may be read first of a callee is found without a loop:
// callees are in an order in which those that one begins with come after it.
// Symbols are the bytes, and behind them control tokens that the grammar names (AutomatonSymbols). Immutable once
// compiled; any thread. Limits below; beyond them compiling is refused. Internal to engine/grammar.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/grammar/ast.hpp"
#include "engine/grammar/facts.hpp"
#include "engine/grammar/token_table.hpp"

namespace minfer::engine::grammar {

using StateId = uint32_t;
using CalleeId = uint32_t;
using Symbol = uint16_t;

inline constexpr size_t kMaxStates = size_t{1} << 19;
inline constexpr size_t kMaxEdges = size_t{1} << 20;
inline constexpr size_t kMaxControlSymbols = 64;
inline constexpr Symbol kFirstControlSymbol = 256;

// Where the whole text ends: the target of the root's call.
inline constexpr StateId kEndState = 0;

struct SymbolEdge {
  StateId target;
  Symbol first;  // to last
  Symbol last;
  bool operator==(const SymbolEdge&) const = default;
};

struct CallEdge {
  CalleeId callee;
  StateId target;
  bool is_tail;  // nothing comes behind the call but the end of the rule that calls, a rule too
  bool operator==(const CallEdge&) const = default;
};

struct State {
  uint32_t first_edge = 0;  // up to the next state's
  uint32_t first_call = 0;
  CalleeId callee = 0;
  bool is_final = false;
  bool counts_loop = false;  // the loop is the callee's repetition; else it is an edge to the state itself
  // Bytes that lead back here, as far as whole groups do; kNonAscii: every character from U+0080 on.
  ByteGroups loop = 0;
};

struct Callee {
  StateId start = kEndState;
  uint32_t least = 1;  // repetitions; 1 and 1 for a rule
  uint32_t most = 1;   // kUnbounded: no bound
  bool counts = false;
  // It is short: what is below it on the stack belongs to what is looked at together with its states.
  bool is_transparent = false;
};

struct Automaton {
  std::vector<State> states;  // and one more behind the last
  std::vector<SymbolEdge> edges;
  std::vector<CallEdge> calls;
  std::vector<Callee> callees;
  CalleeId root = 0;
  bool matches_empty = false;
  std::vector<int32_t> control_tokens;  // of the symbols behind the bytes
  // Symbols that no edge tells apart are of one class.
  std::array<uint16_t, kFirstControlSymbol + kMaxControlSymbols> class_of{};
  std::vector<Symbol> class_symbol;  // one of each class

  size_t classes() const { return class_symbol.size(); }
  std::span<const SymbolEdge> edges_of(StateId s) const {
    return std::span(edges).subspan(states[s].first_edge, states[s + 1].first_edge - states[s].first_edge);
  }
  std::span<const CallEdge> calls_of(StateId s) const {
    return std::span(calls).subspan(states[s].first_call, states[s + 1].first_call - states[s].first_call);
  }
  size_t bytes() const;
};

// Errors: invalid_input for a grammar that no text matches, a rule that begins with itself (by name), or beyond a
// limit.
Automaton compile_automaton(const Ast& ast, const TokenTable& tokens);
// Of compile_automaton: what is found once all callees are there.
void finish_automaton(Automaton& automaton);

}  // namespace minfer::engine::grammar
