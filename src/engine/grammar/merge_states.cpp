// Merging by a work list. See merge_states.hpp.
// A state is known by the sum of the hashes of its ways in, which moves with each edge; equal sums are looked at
// closely. Of two states the one with fewer edges gives them up, so that an edge moves a logarithm of times.
#include "engine/grammar/merge_states.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

namespace minfer::engine::grammar {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

uint64_t mixed(uint64_t value) {
  value = (value ^ value >> 32) * 0x9E3779B97F4A7C15ULL;
  return value ^ value >> 29;
}

uint64_t way_in(const LooseEdge& edge) {
  return mixed(mixed(edge.label()) + edge.from);
}

struct EdgeKey {
  uint64_t label;
  uint32_t from;
  uint32_t to;
  bool operator==(const EdgeKey&) const = default;
};

struct EdgeKeyHash {
  size_t operator()(const EdgeKey& key) const { return mixed(mixed(key.label + key.to) + key.from); }
};

EdgeKey key_of(const LooseEdge& edge) {
  return {edge.label(), edge.from, edge.to};
}

class Merger {
 public:
  Merger(std::vector<LooseEdge>& edges, std::vector<char>& is_final, CompileBudget& budget)
      : edges_(edges), is_final_(is_final), budget_(budget), states_(is_final.size()), became_(is_final.size()) {
    std::iota(became_.begin(), became_.end(), 0U);
  }

  std::vector<uint32_t> run();

 private:
  struct State {
    uint32_t out = kNone;  // the first of its edges, and the last
    uint32_t last_out = kNone;
    uint32_t out_count = 0;
    uint32_t in = kNone;  // the first of those that lead to it
    uint64_t ways_in = 0;
  };

  bool find_candidates();
  void link();
  bool have_same_ways_in(uint32_t a, uint32_t b);
  std::vector<std::pair<uint64_t, uint32_t>> ways_in(uint32_t state);
  void merge(uint32_t kept, uint32_t dropped);
  void drop(uint32_t edge);

  std::vector<LooseEdge>& edges_;
  std::vector<char>& is_final_;
  CompileBudget& budget_;
  std::vector<State> states_;
  std::vector<uint32_t> became_;
  std::vector<uint32_t> next_out_, next_in_;  // by edge
  std::vector<char> is_dropped_;              // likewise
  std::unordered_set<EdgeKey, EdgeKeyHash> known_;
  std::vector<uint32_t> todo_;
};

// The states that an edge of another's label leads to as well, from the same state.
bool Merger::find_candidates() {
  const auto order = [](const LooseEdge& e) { return std::tuple(e.from, e.label(), e.to); };
  std::sort(edges_.begin(), edges_.end(), [&](const LooseEdge& a, const LooseEdge& b) { return order(a) < order(b); });
  edges_.erase(std::unique(edges_.begin(), edges_.end(),
                           [&](const LooseEdge& a, const LooseEdge& b) { return order(a) == order(b); }),
               edges_.end());
  for (size_t i = 1; i < edges_.size(); ++i) {
    const LooseEdge &before = edges_[i - 1], &edge = edges_[i];
    if (before.from != edge.from || before.label() != edge.label()) continue;
    todo_.push_back(before.to);
    todo_.push_back(edge.to);
  }
  return !todo_.empty();
}

void Merger::link() {
  budget_.add_steps(edges_.size());
  next_out_.assign(edges_.size(), kNone);
  next_in_.assign(edges_.size(), kNone);
  is_dropped_.assign(edges_.size(), 0);
  known_.reserve(edges_.size());
  for (uint32_t e = 0; e < edges_.size(); ++e) {
    const LooseEdge& edge = edges_[e];
    State& from = states_[edge.from];
    (from.out == kNone ? from.out : next_out_[from.last_out]) = e;
    from.last_out = e;
    ++from.out_count;
    State& to = states_[edge.to];
    next_in_[e] = to.in;
    to.in = e;
    to.ways_in += way_in(edge);
    known_.insert(key_of(edge));
  }
}

std::vector<std::pair<uint64_t, uint32_t>> Merger::ways_in(uint32_t state) {
  std::vector<std::pair<uint64_t, uint32_t>> ways;
  for (uint32_t e = states_[state].in; e != kNone; e = next_in_[e]) {
    if (is_dropped_[e] == 0) ways.emplace_back(edges_[e].label(), edges_[e].from);
  }
  std::sort(ways.begin(), ways.end());
  budget_.add_steps(ways.size());
  return ways;
}

bool Merger::have_same_ways_in(uint32_t a, uint32_t b) {
  return states_[a].ways_in == states_[b].ways_in && ways_in(a) == ways_in(b);
}

void Merger::drop(uint32_t e) {
  is_dropped_[e] = 1;
  states_[edges_[e].to].ways_in -= way_in(edges_[e]);
  known_.erase(key_of(edges_[e]));
}

void Merger::merge(uint32_t kept, uint32_t dropped) {
  State &to = states_[kept], &from = states_[dropped];
  for (uint32_t e = from.in; e != kNone; e = next_in_[e]) {
    if (is_dropped_[e] == 0) drop(e);
  }
  for (uint32_t e = from.out; e != kNone; e = next_out_[e]) {
    budget_.add_steps(1);
    if (is_dropped_[e] != 0) continue;
    LooseEdge& edge = edges_[e];
    drop(e);
    edge.from = kept;
    todo_.push_back(edge.to);
    if (!known_.insert(key_of(edge)).second) continue;
    is_dropped_[e] = 0;
    states_[edge.to].ways_in += way_in(edge);
  }
  if (from.out != kNone) {
    (to.out == kNone ? to.out : next_out_[to.last_out]) = from.out;
    to.last_out = from.last_out;
    to.out_count += from.out_count;
  }
  is_final_[kept] = static_cast<char>(is_final_[kept] | is_final_[dropped]);
  became_[dropped] = kept;
}

std::vector<uint32_t> Merger::run() {
  if (edges_.size() > kMaxMergedEdges || !find_candidates()) return became_;
  link();
  std::unordered_map<uint64_t, uint32_t> by_ways_in;
  by_ways_in.reserve(states_.size());
  for (uint32_t state = 0; state < states_.size(); ++state) by_ways_in.try_emplace(states_[state].ways_in, state);
  while (!todo_.empty()) {
    const uint32_t state = todo_.back();
    todo_.pop_back();
    budget_.add_steps(1);
    if (became_[state] != state) continue;
    const auto [entry, is_new] = by_ways_in.try_emplace(states_[state].ways_in, state);
    uint32_t& other = entry->second;
    if (is_new || other == state) continue;
    if (became_[other] != other || !have_same_ways_in(state, other)) {
      other = state;
      continue;
    }
    const bool keeps_other = states_[other].out_count >= states_[state].out_count;
    const uint32_t kept = keeps_other ? other : state;
    const uint32_t dropped = keeps_other ? state : other;
    other = kept;
    merge(kept, dropped);
  }
  size_t left = 0;
  for (size_t e = 0; e < edges_.size(); ++e) {
    if (is_dropped_[e] == 0) edges_[left++] = edges_[e];
  }
  edges_.resize(left);
  std::stable_sort(edges_.begin(), edges_.end(),
                   [](const LooseEdge& a, const LooseEdge& b) { return a.from < b.from; });
  for (uint32_t& state : became_) {
    while (became_[state] != state) state = became_[state];
  }
  return became_;
}

}  // namespace

std::vector<uint32_t> merge_states(std::vector<LooseEdge>& edges, std::vector<char>& is_final, CompileBudget& budget) {
  return Merger(edges, is_final, budget).run();
}

}  // namespace minfer::engine::grammar
