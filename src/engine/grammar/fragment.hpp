// One callee of the automaton while it is made: a graph between a start (kStart, which nothing leads to) and an end
// (kEnd, which nothing leads from) with empty edges, as Thompson's construction gives it, and the removal of those.
// Internal to compiling.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/grammar/automaton.hpp"

namespace minfer::engine::grammar {

struct LooseEdge;

// What the making of all callees shares, and its limits.
struct CompileBudget {
  size_t states = 0;
  size_t edges = 0;
  size_t steps = 0;

  // Errors: invalid_input beyond the limits.
  void add_states(size_t count);
  void add_edges(size_t count);
  void add_steps(size_t count);
};

class Fragment {
 public:
  static constexpr uint32_t kStart = 0;
  static constexpr uint32_t kEnd = 1;

  explicit Fragment(CompileBudget& budget) : budget_(budget) {}

  void clear();
  uint32_t add_state();
  void add_empty(uint32_t from, uint32_t to);
  void add_symbols(uint32_t from, uint32_t to, Symbol first, Symbol last);
  void add_call(uint32_t from, uint32_t to, CalleeId callee);
  // The UTF-8 of one code point in `ranges`.
  void add_class(uint32_t from, uint32_t to, std::span<const CodeRange> ranges);

  // The states that matter, with their edges, go behind those of `out`; targets are numbered as there. The first is the
  // start; it is not final, whatever empty edges say.
  void append_to(Automaton& out, CalleeId callee);

 private:
  struct Edge {
    uint32_t from;
    uint32_t to;
    Symbol first;
    Symbol last;
    CalleeId callee;
    enum class Kind : uint8_t { empty, symbols, call } kind;
  };

  // Errors: invalid_input beyond kMaxEdges, empty ones too.
  void add(const Edge& edge);
  void add_bytes(uint32_t from, uint32_t to, std::span<const std::pair<uint8_t, uint8_t>> bytes);
  void close(uint32_t state, std::vector<uint32_t>& closure);
  void remove_empty_edges(std::vector<LooseEdge>& edges, std::vector<char>& is_final);

  CompileBudget& budget_;
  uint32_t states_ = 2;
  std::vector<Edge> edges_;
  std::unordered_map<uint64_t, uint32_t> suffixes_;  // states of one edge, by that edge
  // While empty edges are removed.
  std::vector<uint32_t> first_edge_;
  std::vector<uint32_t> seen_;
  uint32_t mark_ = 0;
};

}  // namespace minfer::engine::grammar
