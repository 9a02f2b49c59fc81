// The last passes over an automaton: tail calls of rules become edges, loops are marked, symbols are classed. They
// change what a step costs, not what is matched. See automaton.hpp.
#include <algorithm>
#include <bitset>
#include <tuple>
#include <utility>

#include "engine/grammar/automaton.hpp"

namespace minfer::engine::grammar {
namespace {

// The edges of a callee's start are copied to where it is called last, if it has so many at most, and of all so many.
constexpr size_t kMostCopied = 64;
constexpr size_t kMostCopiedInAll = kMaxEdges / 4;

struct Edges {
  std::vector<SymbolEdge> symbols;
  std::vector<CallEdge> calls;
};

bool is_pure_end(const Automaton& automaton, StateId s) {
  return automaton.states[s].is_final && automaton.edges_of(s).empty() && automaton.calls_of(s).empty();
}

template <class Edge, class Key>
void sort_unique(std::vector<Edge>& edges, Key key) {
  std::sort(edges.begin(), edges.end(), [&](const Edge& a, const Edge& b) { return key(a) < key(b); });
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
}

// A rule that ends with a call of another goes on as that one: its calls are marked, and where the other's start has
// few edges they replace the call, so that rules which only hand on to each other loop as states do.
class TailCalls {
 public:
  explicit TailCalls(Automaton& automaton) : automaton_(automaton), starts_(automaton.callees.size()) {}

  void run() {
    // Those that a start begins with come after it.
    for (size_t c = automaton_.callees.size(); c-- > 1;) starts_[c] = edges_of(automaton_.callees[c].start);
    std::vector<SymbolEdge> symbols;
    std::vector<CallEdge> calls;
    std::vector<std::pair<uint32_t, uint32_t>> firsts;
    for (StateId s = 0; s < automaton_.states.size(); ++s) {
      firsts.emplace_back(symbols.size(), calls.size());
      if (s + 1 == automaton_.states.size()) break;
      const bool is_start = s != kEndState && automaton_.callees[automaton_.states[s].callee].start == s;
      const Edges edges = is_start ? starts_[automaton_.states[s].callee] : edges_of(s);
      symbols.insert(symbols.end(), edges.symbols.begin(), edges.symbols.end());
      calls.insert(calls.end(), edges.calls.begin(), edges.calls.end());
    }
    automaton_.edges = std::move(symbols);
    automaton_.calls = std::move(calls);
    for (StateId s = 0; s < firsts.size(); ++s) {
      std::tie(automaton_.states[s].first_edge, automaton_.states[s].first_call) = firsts[s];
    }
  }

 private:
  Edges edges_of(StateId s) {
    Edges out;
    const auto own = automaton_.edges_of(s);
    out.symbols.assign(own.begin(), own.end());
    const bool in_rule = !automaton_.callees[automaton_.states[s].callee].counts;
    for (CallEdge call : automaton_.calls_of(s)) {
      call.is_tail = in_rule && !automaton_.callees[call.callee].counts && is_pure_end(automaton_, call.target);
      const Edges& start = starts_[call.callee];
      const size_t count = start.symbols.size() + start.calls.size();
      if (call.is_tail && count <= kMostCopied && copied_ + count <= kMostCopiedInAll) {
        copied_ += count;
        out.symbols.insert(out.symbols.end(), start.symbols.begin(), start.symbols.end());
        out.calls.insert(out.calls.end(), start.calls.begin(), start.calls.end());
      } else {
        out.calls.push_back(call);
      }
    }
    sort_unique(out.symbols, [](const SymbolEdge& e) { return std::tuple(e.first, e.last, e.target); });
    sort_unique(out.calls, [](const CallEdge& e) { return std::tuple(e.callee, e.target, e.is_tail); });
    return out;
  }

  Automaton& automaton_;
  std::vector<Edges> starts_;  // by callee
  size_t copied_ = 0;
};

// Whether every character from U+0080 on leads from `s` to one of `ends`, by edges that are not cut finer than UTF-8.
bool loops_all_non_ascii(const Automaton& automaton, StateId s, const std::vector<StateId>& ends) {
  using Range = std::pair<uint8_t, uint8_t>;
  constexpr Range kAny = {0x80, 0xBF};
  static constexpr std::array<std::pair<size_t, std::array<Range, 4>>, 8> kRows = {{
      {2, {{{0xC2, 0xDF}, kAny}}},
      {3, {{{0xE0, 0xE0}, {0xA0, 0xBF}, kAny}}},
      {3, {{{0xE1, 0xEC}, kAny, kAny}}},
      {3, {{{0xED, 0xED}, {0x80, 0x9F}, kAny}}},
      {3, {{{0xEE, 0xEF}, kAny, kAny}}},
      {4, {{{0xF0, 0xF0}, {0x90, 0xBF}, kAny, kAny}}},
      {4, {{{0xF1, 0xF3}, kAny, kAny, kAny}}},
      {4, {{{0xF4, 0xF4}, {0x80, 0x8F}, kAny, kAny}}},
  }};
  for (const auto& [size, row] : kRows) {
    std::vector<StateId> now = {s}, next;
    for (size_t i = 0; i < size; ++i) {
      next.clear();
      for (const StateId from : now) {
        for (const SymbolEdge& edge : automaton.edges_of(from)) {
          if (edge.first <= row[i].first && row[i].second <= edge.last) next.push_back(edge.target);
        }
      }
      now.swap(next);
    }
    const bool arrives = std::any_of(now.begin(), now.end(), [&](StateId state) {
      return std::find(ends.begin(), ends.end(), state) != ends.end();
    });
    if (!arrives) return false;
  }
  return true;
}

// The groups all of whose bytes lead from `s` to one of `ends`.
ByteGroups loop_groups(const Automaton& automaton, StateId s, const std::vector<StateId>& ends) {
  std::bitset<128> bytes;
  bool has_lead = false;
  for (const SymbolEdge& edge : automaton.edges_of(s)) {
    has_lead |= edge.first <= 0xC2 && 0xDF <= edge.last;
    if (std::find(ends.begin(), ends.end(), edge.target) == ends.end()) continue;
    for (size_t byte = edge.first; byte <= edge.last && byte < bytes.size(); ++byte) bytes.set(byte);
  }
  ByteGroups some = 0, missing = 0;
  for (size_t byte = 0; byte < bytes.size(); ++byte) {
    const ByteGroups group = ByteGroups{1} << byte_group(static_cast<uint8_t>(byte));
    (bytes.test(byte) ? some : missing) |= group;
  }
  ByteGroups groups = some & ~missing;
  if (has_lead && loops_all_non_ascii(automaton, s, ends)) groups |= kNonAscii;
  return groups;
}

void find_loops(Automaton& automaton) {
  for (StateId s = 1; s + 1 < automaton.states.size(); ++s) {
    State& state = automaton.states[s];
    const Callee& callee = automaton.callees[state.callee];
    std::vector<StateId> ends;
    state.counts_loop = callee.counts && callee.start == s;
    if (state.counts_loop) {
      for (StateId t = s + 1; t + 1 < automaton.states.size() && automaton.states[t].callee == state.callee; ++t) {
        if (is_pure_end(automaton, t)) ends.push_back(t);
      }
    } else {
      ends.push_back(s);
    }
    state.loop = loop_groups(automaton, s, ends);
  }
}

void class_symbols(Automaton& automaton) {
  const size_t symbols = kFirstControlSymbol + automaton.control_tokens.size();
  std::vector<char> begins(symbols + 1, 0);
  begins[0] = 1;
  for (const SymbolEdge& edge : automaton.edges) begins[edge.first] = begins[edge.last + 1U] = 1;
  for (size_t symbol = 0; symbol < symbols; ++symbol) {
    if (begins[symbol] != 0 || symbol >= kFirstControlSymbol) {
      automaton.class_symbol.push_back(static_cast<Symbol>(symbol));
    }
    automaton.class_of[symbol] = static_cast<uint16_t>(automaton.class_symbol.size() - 1);
  }
}

}  // namespace

void finish_automaton(Automaton& automaton) {
  TailCalls(automaton).run();
  find_loops(automaton);
  class_symbols(automaton);
}

}  // namespace minfer::engine::grammar
