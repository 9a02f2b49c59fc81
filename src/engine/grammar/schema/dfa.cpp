// Building automata: states found from the start by symbol, then those that lead nowhere are cut, then equal ones are
// made one.
#include "engine/grammar/schema/dfa.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "engine/grammar/code_ranges.hpp"

namespace minfer::engine::grammar::schema {
namespace {

constexpr size_t kMaxPoolNodes = 50'000;

// The classes of characters that a regular expression does not tell apart: each is a set of ranges.
std::vector<std::vector<CodeRange>> symbols_of(const RegexPool& pool, RegexId root) {
  std::set<RegexId> seen;
  std::vector<RegexId> todo = {root};
  std::vector<std::vector<CodeRange>> classes;
  while (!todo.empty()) {
    const RegexId id = todo.back();
    todo.pop_back();
    if (!seen.insert(id).second) {
      continue;
    }
    todo.insert(todo.end(), pool[id].children.begin(), pool[id].children.end());
    if (!pool[id].ranges.empty()) {
      classes.push_back(pool[id].ranges);
    }
  }
  std::set<uint32_t> cuts = {0, 0xE000};  // after the surrogates a new range starts
  for (const std::vector<CodeRange>& ranges : classes) {
    for (const CodeRange range : ranges) {
      cuts.insert(range.first);
      cuts.insert(range.last + 1);
    }
  }
  std::map<std::vector<bool>, std::vector<CodeRange>> groups;  // by the classes that a piece is in
  for (auto cut = cuts.begin(); cut != cuts.end() && *cut <= kMaxCodePoint; ++cut) {
    const auto after = std::next(cut);
    const CodeRange piece = {*cut, after == cuts.end() ? kMaxCodePoint : *after - 1};
    std::vector<bool> members;
    for (const std::vector<CodeRange>& ranges : classes) {
      members.push_back(contains(ranges, piece.first));
    }
    groups[members].push_back(piece);
  }
  std::vector<std::vector<CodeRange>> symbols;
  for (auto& [members, ranges] : groups) {
    if (std::vector<CodeRange> symbol = normalized(std::move(ranges)); !symbol.empty()) {
      symbols.push_back(std::move(symbol));
    }
  }
  return symbols;
}

// Cuts the states from which nothing is accepted.
void drop_dead_ends(Dfa& dfa) {
  std::vector<std::vector<uint32_t>> before(dfa.states.size());
  std::vector<uint32_t> todo;
  std::vector<bool> alive(dfa.states.size());
  for (uint32_t i = 0; i < dfa.states.size(); ++i) {
    for (const int32_t next : dfa.states[i].next) {
      if (next != kNoState) {
        before[static_cast<size_t>(next)].push_back(i);
      }
    }
    if (dfa.states[i].accepts) {
      alive[i] = true;
      todo.push_back(i);
    }
  }
  while (!todo.empty()) {
    const uint32_t state = todo.back();
    todo.pop_back();
    for (const uint32_t from : before[state]) {
      if (!alive[from]) {
        alive[from] = true;
        todo.push_back(from);
      }
    }
  }
  if (dfa.states.empty() || !alive[0]) {
    dfa.states.clear();
    return;
  }
  std::vector<int32_t> moved(dfa.states.size(), kNoState);
  std::vector<Dfa::State> kept;
  for (size_t i = 0; i < dfa.states.size(); ++i) {
    if (alive[i]) {
      moved[i] = static_cast<int32_t>(kept.size());
      kept.push_back(std::move(dfa.states[i]));
    }
  }
  for (Dfa::State& state : kept) {
    for (int32_t& next : state.next) {
      next = next == kNoState ? kNoState : moved[static_cast<size_t>(next)];
    }
  }
  dfa.states = std::move(kept);
}

constexpr int32_t kItself = -2;

// Makes equal states one, as far as a few passes from the end find them (a state is equal to another where it accepts
// and steps alike, to itself or to equal ones); the start stays the first.
void merge_equal(Dfa& dfa) {
  constexpr int kMaxPasses = 8;
  const size_t count = dfa.states.size();
  std::vector<int32_t> same(count);
  for (size_t i = 0; i < count; ++i) {
    same[i] = static_cast<int32_t>(i);
  }
  bool changed = true;
  for (int pass = 0; pass < kMaxPasses && changed; ++pass) {
    changed = false;
    std::map<std::vector<int32_t>, int32_t> found;
    for (size_t i = count; i-- > 0;) {
      std::vector<int32_t> signature = {dfa.states[i].accepts ? 1 : 0};
      for (const int32_t next : dfa.states[i].next) {
        const int32_t to = next == kNoState ? kNoState : same[static_cast<size_t>(next)];
        signature.push_back(to == same[i] ? kItself : to);
      }
      const int32_t first = found.try_emplace(std::move(signature), same[i]).first->second;
      changed = changed || first != same[i];
      same[i] = first;
    }
  }
  std::vector<int32_t> moved(count, kNoState);
  std::vector<Dfa::State> kept;
  std::vector<size_t> todo = {static_cast<size_t>(same[0])};
  moved[todo[0]] = 0;
  for (size_t i = 0; i < todo.size(); ++i) {
    Dfa::State state = dfa.states[todo[i]];
    for (int32_t& next : state.next) {
      if (next != kNoState) {
        const auto to = static_cast<size_t>(same[static_cast<size_t>(next)]);
        if (moved[to] == kNoState) {
          moved[to] = static_cast<int32_t>(todo.size());
          todo.push_back(to);
        }
        next = moved[to];
      }
    }
    kept.push_back(std::move(state));
  }
  dfa.states = std::move(kept);
}

// Explores from `start`; `step` and `accepts` are as of a Machine, over keys of any kind.
template <class Key, class Step, class Accepts>
std::optional<Dfa> explore(std::vector<std::vector<CodeRange>> symbols, Key start, const Step& step,
                           const Accepts& accepts, size_t most_states) {
  Dfa dfa{std::move(symbols), {}};
  std::map<Key, int32_t> known = {{start, 0}};
  std::vector<Key> keys = {start};
  for (size_t i = 0; i < keys.size(); ++i) {
    Dfa::State state{accepts(keys[i]), {}};
    for (size_t symbol = 0; symbol < dfa.symbols.size(); ++symbol) {
      const std::optional<Key> next = step(Key(keys[i]), symbol, dfa.symbols[symbol][0].first);
      if (!next) {
        state.next.push_back(kNoState);
        continue;
      }
      const auto [entry, is_new] = known.try_emplace(*next, static_cast<int32_t>(keys.size()));
      if (is_new) {
        keys.push_back(*next);
      }
      state.next.push_back(entry->second);
    }
    dfa.states.push_back(std::move(state));
    if (keys.size() > most_states || keys.size() * dfa.symbols.size() > kMaxDfaCells) {
      return std::nullopt;
    }
  }
  drop_dead_ends(dfa);
  if (!dfa.states.empty()) {
    merge_equal(dfa);
  }
  return dfa;
}

}  // namespace

std::optional<Dfa> make_dfa(RegexPool& pool, RegexId regex, size_t most_states) {
  using Key = std::pair<RegexId, bool>;
  bool too_large = false;
  const auto step = [&](const Key& key, size_t, uint32_t code) -> std::optional<Key> {
    too_large = too_large || pool.size() > kMaxPoolNodes;
    const RegexId next = too_large ? pool.nothing() : pool.derivative(key.first, code, key.second);
    return next == pool.nothing() ? std::nullopt : std::optional<Key>({next, false});
  };
  const auto accepts = [&](const Key& key) { return pool.nullable(key.first, key.second, true); };
  std::optional<Dfa> dfa = explore<Key>(symbols_of(pool, regex), {regex, true}, step, accepts, most_states);
  return too_large ? std::nullopt : dfa;
}

std::optional<Dfa> make_product(std::vector<std::vector<CodeRange>> symbols, const std::vector<Machine>& machines) {
  using Key = std::vector<int32_t>;
  Key start;
  for (const Machine& machine : machines) {
    start.push_back(machine.start);
  }
  const auto step = [&](Key key, size_t symbol, uint32_t) -> std::optional<Key> {
    for (size_t i = 0; i < machines.size(); ++i) {
      key[i] = machines[i].step(key[i], symbol);
      if (key[i] == kNoState) {
        return std::nullopt;
      }
    }
    return key;
  };
  const auto accepts = [&](const Key& key) {
    for (size_t i = 0; i < machines.size(); ++i) {
      if (!machines[i].accepts(key[i])) {
        return false;
      }
    }
    return true;
  };
  return explore<Key>(std::move(symbols), start, step, accepts, kMaxDfaStates);
}

Lengths lengths(const Dfa& dfa) {
  const size_t count = dfa.states.size();
  std::vector<size_t> ways_in(count);
  std::vector<uint64_t> shortest(count, UINT64_MAX);
  std::vector<size_t> todo = {0};
  shortest[0] = 0;
  Lengths out{UINT64_MAX, std::nullopt};
  for (size_t i = 0; i < todo.size(); ++i) {
    if (dfa.states[todo[i]].accepts) {
      out.least = std::min(out.least, shortest[todo[i]]);
    }
    for (const int32_t next : dfa.states[todo[i]].next) {
      if (next != kNoState) {
        ++ways_in[static_cast<size_t>(next)];
        if (shortest[static_cast<size_t>(next)] == UINT64_MAX) {
          shortest[static_cast<size_t>(next)] = shortest[todo[i]] + 1;
          todo.push_back(static_cast<size_t>(next));
        }
      }
    }
  }
  // The longest way, where the states can be put in an order: without a loop.
  std::vector<uint64_t> longest(count, 0);
  std::vector<size_t> ordered;
  if (ways_in[0] == 0) {
    ordered.push_back(0);
  }
  uint64_t most = 0;
  for (size_t i = 0; i < ordered.size(); ++i) {
    if (dfa.states[ordered[i]].accepts) {
      most = std::max(most, longest[ordered[i]]);
    }
    for (const int32_t next : dfa.states[ordered[i]].next) {
      if (next != kNoState) {
        const auto to = static_cast<size_t>(next);
        longest[to] = std::max(longest[to], longest[ordered[i]] + 1);
        if (--ways_in[to] == 0) {
          ordered.push_back(to);
        }
      }
    }
  }
  if (ordered.size() == todo.size()) {
    out.most = most;
  }
  return out;
}

}  // namespace minfer::engine::grammar::schema
