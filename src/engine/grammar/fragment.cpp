// Edges of a fragment, UTF-8 of code ranges, removal of empty edges. See fragment.hpp.
#include "engine/grammar/fragment.hpp"

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "engine/grammar/merge_states.hpp"

namespace minfer::engine::grammar {
namespace {

constexpr size_t kMaxSteps = size_t{1} << 24;  // about 0.2 s
constexpr uint32_t kNone = UINT32_MAX;

struct Utf8Ranges {
  std::array<std::pair<uint8_t, uint8_t>, 4> bytes;
  size_t size;
};

size_t utf8_size(uint32_t code) {
  return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
}

// Byte `index` of `size`, of the UTF-8 of `code`.
uint8_t utf8_byte(uint32_t code, size_t size, size_t index) {
  constexpr uint8_t kLead[] = {0, 0, 0xC0, 0xE0, 0xF0};
  const size_t shift = 6 * (size - 1 - index);
  if (index > 0) return static_cast<uint8_t>(0x80 | (code >> shift & 0x3F));
  return static_cast<uint8_t>(kLead[size] | code >> shift);
}

// Cuts a range into ones whose UTF-8 is a product of byte ranges, and gives each to `take`.
template <class Take>
void split_utf8(CodeRange range, Take take) {
  std::vector<CodeRange> todo = {range};
  const auto cut = [&](CodeRange whole, uint32_t last) {
    todo.push_back({last + 1, whole.last});
    todo.push_back({whole.first, last});
  };
  while (!todo.empty()) {
    const CodeRange now = todo.back();
    todo.pop_back();
    const size_t size = utf8_size(now.first);
    constexpr uint32_t kLastOfSize[] = {0, 0x7F, 0x7FF, 0xFFFF, 0x10FFFF};
    if (now.last > kLastOfSize[size]) {
      cut(now, kLastOfSize[size]);
      continue;
    }
    bool whole = true;
    for (size_t i = 1; i < size && whole; ++i) {
      const uint32_t low = (uint32_t{1} << (6 * i)) - 1;
      if ((now.first & ~low) == (now.last & ~low)) continue;
      whole = (now.first & low) == 0 && (now.last & low) == low;
      if ((now.first & low) != 0) {
        cut(now, now.first | low);
      } else if ((now.last & low) != low) {
        cut(now, (now.last & ~low) - 1);
      }
    }
    if (!whole) continue;
    Utf8Ranges out{{}, size};
    for (size_t i = 0; i < size; ++i) out.bytes[i] = {utf8_byte(now.first, size, i), utf8_byte(now.last, size, i)};
    take(out);
  }
}

}  // namespace

void CompileBudget::add_states(size_t count) {
  states += count;
  if (states > kMaxStates) {
    fail(ErrorCode::invalid_input, "grammar: it takes more than {} states; make it smaller", kMaxStates);
  }
}

void CompileBudget::add_edges(size_t count) {
  edges += count;
  if (edges > kMaxEdges) {
    fail(ErrorCode::invalid_input,
         "grammar: its states take more than {} edges; use fewer alternatives and optional parts in a row", kMaxEdges);
  }
}

void CompileBudget::add_steps(size_t count) {
  steps += count;
  if (steps > kMaxSteps) {
    fail(ErrorCode::invalid_input,
         "grammar: it takes more than {} steps to compile; use fewer alternatives and optional parts in a row",
         kMaxSteps);
  }
}

void Fragment::clear() {
  states_ = 2;
  edges_.clear();
  suffixes_.clear();
}

uint32_t Fragment::add_state() {
  budget_.add_states(1);
  return states_++;
}

void Fragment::add(const Edge& edge) {
  budget_.add_steps(1);
  if (edges_.size() == kMaxEdges) budget_.add_edges(kMaxEdges + 1);
  edges_.push_back(edge);
}

void Fragment::add_empty(uint32_t from, uint32_t to) {
  add({from, to, 0, 0, 0, Edge::Kind::empty});
}

void Fragment::add_symbols(uint32_t from, uint32_t to, Symbol first, Symbol last) {
  add({from, to, first, last, 0, Edge::Kind::symbols});
}

void Fragment::add_call(uint32_t from, uint32_t to, CalleeId callee) {
  add({from, to, 0, 0, callee, Edge::Kind::call});
}

void Fragment::add_class(uint32_t from, uint32_t to, std::span<const CodeRange> ranges) {
  for (const CodeRange range : ranges) {
    split_utf8(range, [&](const Utf8Ranges& part) { add_bytes(from, to, std::span(part.bytes).first(part.size)); });
  }
}

// From the last byte to the first, so that equal ends are shared.
void Fragment::add_bytes(uint32_t from, uint32_t to, std::span<const std::pair<uint8_t, uint8_t>> bytes) {
  uint32_t next = to;
  for (size_t i = bytes.size(); i-- > 1;) {
    const uint64_t key = uint64_t{next} << 16 | uint64_t{bytes[i].first} << 8 | bytes[i].second;
    const auto [entry, is_new] = suffixes_.try_emplace(key, 0);
    if (is_new) {
      entry->second = add_state();
      add_symbols(entry->second, next, bytes[i].first, bytes[i].second);
    }
    next = entry->second;
  }
  add_symbols(from, next, bytes[0].first, bytes[0].second);
}

// All states that empty edges lead to from `state`, and itself.
void Fragment::close(uint32_t state, std::vector<uint32_t>& closure) {
  closure.assign(1, state);
  seen_[state] = ++mark_;
  for (size_t i = 0; i < closure.size(); ++i) {
    const uint32_t now = closure[i];
    budget_.add_steps(1 + first_edge_[now + 1] - first_edge_[now]);
    for (uint32_t e = first_edge_[now]; e < first_edge_[now + 1]; ++e) {
      const Edge& edge = edges_[e];
      if (edge.kind != Edge::Kind::empty || seen_[edge.to] == mark_) continue;
      seen_[edge.to] = mark_;
      closure.push_back(edge.to);
    }
  }
}

void Fragment::append_to(Automaton& out, CalleeId callee) {
  std::stable_sort(edges_.begin(), edges_.end(), [](const Edge& a, const Edge& b) { return a.from < b.from; });
  first_edge_.assign(states_ + 1, 0);
  for (const Edge& edge : edges_) ++first_edge_[edge.from + 1];
  for (uint32_t s = 0; s < states_; ++s) first_edge_[s + 1] += first_edge_[s];
  seen_.assign(states_, 0);
  mark_ = 0;

  std::vector<LooseEdge> edges;
  std::vector<char> is_final;
  remove_empty_edges(edges, is_final);
  const std::vector<uint32_t> became = merge_states(edges, is_final, budget_);

  const auto base = static_cast<StateId>(out.states.size());
  std::vector<StateId> number(became.size());
  StateId next = base;
  for (uint32_t state = 0; state < became.size(); ++state) {
    if (became[state] == state) number[state] = next++;
  }
  size_t e = 0;
  for (uint32_t state = 0; state < became.size(); ++state) {
    if (became[state] != state) continue;
    State made;
    made.first_edge = static_cast<uint32_t>(out.edges.size());
    made.first_call = static_cast<uint32_t>(out.calls.size());
    made.callee = callee;
    made.is_final = is_final[state] != 0;
    for (; e < edges.size() && edges[e].from == state; ++e) {
      if (edges[e].callee == 0) {
        out.edges.push_back({number[edges[e].to], edges[e].first, edges[e].last});
      } else {
        out.calls.push_back({edges[e].callee, number[edges[e].to], false});
      }
    }
    out.states.push_back(made);
  }
}

// The states that edges which are not empty lead to, numbered anew from the start on, and those edges.
void Fragment::remove_empty_edges(std::vector<LooseEdge>& edges, std::vector<char>& is_final) {
  std::vector<uint32_t> number(states_, kNone);
  std::vector<uint32_t> kept = {kStart};
  number[kStart] = 0;
  const auto number_of = [&](uint32_t state) {
    if (number[state] == kNone) {
      number[state] = static_cast<uint32_t>(kept.size());
      kept.push_back(state);
    }
    return number[state];
  };
  std::vector<uint32_t> closure;
  for (uint32_t i = 0; i < kept.size(); ++i) {
    bool ends = false;
    close(kept[i], closure);
    for (const uint32_t from : closure) {
      ends |= from == kEnd && i > 0;
      for (uint32_t e = first_edge_[from]; e < first_edge_[from + 1]; ++e) {
        const Edge& edge = edges_[e];
        if (edge.kind == Edge::Kind::empty) continue;
        budget_.add_edges(1);
        edges.push_back({i, number_of(edge.to), edge.callee, edge.first, edge.last});
      }
    }
    is_final.push_back(ends ? 1 : 0);
  }
}

}  // namespace minfer::engine::grammar
