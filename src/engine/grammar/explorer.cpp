// Stepping frontiers. See explorer.hpp.
#include "engine/grammar/explorer.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/error.hpp"

namespace minfer::engine::grammar {
namespace {

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15ULL;
  return hash ^ hash >> 29;
}

uint64_t pair_key(StateId state, NodeIndex node) {
  return uint64_t{state} << 32 | node;
}

}  // namespace

void InternTable::clear() {
  slots_.clear();
  hashes_.clear();
}

void InternTable::grow() {
  slots_.assign(std::max<size_t>(64, slots_.size() * 2), {0, kEmpty});
  for (uint32_t index = 0; index < hashes_.size(); ++index) {
    size_t slot = hashes_[index] & (slots_.size() - 1);
    while (slots_[slot].index != kEmpty) slot = (slot + 1) & (slots_.size() - 1);
    slots_[slot] = {static_cast<uint32_t>(hashes_[index] >> 32), index};
  }
}

template <class Equal, class Add>
uint32_t InternTable::find_or_add(uint64_t hash, Equal equal, Add add) {
  if ((hashes_.size() + 1) * 2 > slots_.size()) grow();
  const auto tag = static_cast<uint32_t>(hash >> 32);
  size_t slot = hash & (slots_.size() - 1);
  for (; slots_[slot].index != kEmpty; slot = (slot + 1) & (slots_.size() - 1)) {
    if (slots_[slot].tag == tag && equal(slots_[slot].index)) return slots_[slot].index;
  }
  const uint32_t index = add();
  slots_[slot] = {tag, index};
  hashes_.push_back(hash);
  return index;
}

Explorer::Explorer(const Automaton& automaton) : automaton_(automaton) {
  clear();
}

void Explorer::clear() {
  frames_.clear();
  nodes_.clear();
  configs_.clear();
  frontiers_.clear();
  steps_.clear();
  node_table_.clear();
  frontier_table_.clear();
  std::vector<Frame> bottom = {{kEndState, 1, kBottom}};
  node(bottom, automaton_.root);
  intern({}, false);  // kDead
}

void Explorer::fail_work() {
  work_left_ = 0;
  fail(ErrorCode::invalid_input,
       "grammar: it is too ambiguous: to find the next tokens takes more than {} steps in all, or {} a token; make "
       "fewer alternatives match the same text",
       kMaxExplorerWork, kTokenWork);
}

void Explorer::check_bytes() const {
  const size_t bytes = frames_.size() * sizeof(Frame) + nodes_.size() * (sizeof(Node) + sizeof(uint64_t)) +
                       configs_.size() * sizeof(Config) + frontiers_.size() * (sizeof(Frontier) + sizeof(uint64_t)) +
                       steps_.size() * sizeof(FrontierId) + node_table_.bytes() + frontier_table_.bytes();
  if (bytes > kMaxExplorerBytes) throw ExplorerFull{this};
}

std::vector<Frame> Explorer::frames(NodeIndex node) const {
  const auto frames = frames_of(node);
  return {frames.begin(), frames.end()};
}

NodeIndex Explorer::node(std::vector<Frame>& frames, CalleeId callee) {
  add_work(frames.size() * (1 + static_cast<size_t>(std::bit_width(frames.size())) / 4));  // sorting many takes longer

  std::sort(frames.begin(), frames.end());
  frames.erase(std::unique(frames.begin(), frames.end()), frames.end());
  const CalleeId counted = counted_of(callee);
  uint64_t hash = counted;
  for (const Frame& frame : frames) {
    hash = mix(mix(hash, pair_key(frame.target, frame.below)), frame.count);
  }
  return node_table_.find_or_add(
      hash,
      [&](uint32_t index) {
        const auto have = frames_of(index);
        return nodes_[index].counted == counted && std::equal(have.begin(), have.end(), frames.begin(), frames.end());
      },
      [&] {
        check_bytes();
        nodes_.push_back(
            {static_cast<uint32_t>(frames_.size()), static_cast<uint32_t>(frames.size()), counted, kUnknown});
        frames_.insert(frames_.end(), frames.begin(), frames.end());
        return static_cast<uint32_t>(nodes_.size() - 1);
      });
}

void Explorer::find_loop(Frontier& frontier) {
  int best = 0;
  for (uint32_t i = frontier.first; i < frontier.first + frontier.count; ++i) {
    const State& state = automaton_.states[configs_[i].state];
    const int groups = __builtin_popcountll(state.loop);
    if (groups <= best) continue;
    uint32_t room = kUnbounded;
    if (state.counts_loop) {
      const uint32_t most = automaton_.callees[state.callee].most;
      // From a repetition on, so many characters may be read.
      room = 0;
      for (const Frame& frame : frames_of(configs_[i].node)) {
        room = std::max(room, most == kUnbounded ? kUnbounded : most - frame.count + 1);
      }
    }
    best = groups;
    frontier.loop = state.loop;
    frontier.loop_room = room;
  }
}

FrontierId Explorer::intern(std::span<const Config> configs) {
  return intern(configs, false);
}

FrontierId Explorer::intern(std::span<const Config> configs, bool may_end) {
  add_work(configs.size());
  uint64_t hash = may_end ? 1 : 0;
  for (const Config& config : configs) hash = mix(hash, pair_key(config.state, config.node));
  return frontier_table_.find_or_add(
      hash,
      [&](uint32_t index) {
        const Frontier& have = frontiers_[index];
        const auto mine = this->configs(index);
        return have.may_end == may_end && std::equal(mine.begin(), mine.end(), configs.begin(), configs.end());
      },
      [&] {
        check_bytes();
        Frontier frontier{static_cast<uint32_t>(configs_.size()), static_cast<uint32_t>(configs.size()), may_end, 0, 0};
        configs_.insert(configs_.end(), configs.begin(), configs.end());
        find_loop(frontier);
        frontiers_.push_back(frontier);
        const bool is_dead = configs.empty();
        steps_.insert(steps_.end(), automaton_.classes(), is_dead ? kDead : kUnknown);
        return static_cast<uint32_t>(frontiers_.size() - 1);
      });
}

void Explorer::begin(bool may_end) {
  arrivals_.clear();
  entries_.clear();
  may_end_ = may_end;
}

FrontierId Explorer::start() {
  begin(automaton_.matches_empty);
  enter(automaton_.root, {kEndState, 1, kBottom});
  return close();
}

FrontierId Explorer::resume(NodeIndex node, CalleeId callee) {
  if (nodes_[node].resumed != kUnknown) return nodes_[node].resumed;
  begin(false);
  leave(node, callee);
  const FrontierId to = close();
  nodes_[node].resumed = to;
  return to;
}

FrontierId Explorer::find_step(FrontierId from, uint32_t symbol_class) {
  const Symbol symbol = automaton_.class_symbol[symbol_class];
  begin(false);
  for (const Config& config : configs(from)) {
    const auto edges = automaton_.edges_of(config.state);
    add_work(1 + edges.size() / 4);
    for (const SymbolEdge& edge : edges) {
      if (edge.first <= symbol && symbol <= edge.last) arrive(edge.target, config.node);
    }
  }
  const FrontierId to = close();
  steps_[from * automaton_.classes() + symbol_class] = to;
  return to;
}

void Explorer::arrive(StateId state, NodeIndex node) {
  if (state == kEndState) {
    may_end_ = true;
  } else {
    arrivals_.push_back({state, node});
  }
}

// The callee's text is over: what is below goes on, or another repetition comes.
void Explorer::leave(NodeIndex node, CalleeId callee) {
  const Callee& left = automaton_.callees[callee];
  const CalleeId counted = counted_of(callee);
  add_work(nodes_[node].count);
  for (uint32_t i = 0; i < nodes_[node].count; ++i) {
    Frame frame = frames_[nodes_[node].first + i];
    // Below the bottom nothing is known, nor counted: what stands above it may be of any callee.
    const bool is_bottom = frame.target == kEndState;
    if (is_bottom || frame.count >= left.least) arrive(frame.target, frame.below);
    if (is_bottom || counted == 0 || frame.count >= left.most) continue;
    // Where there is no bound, only the least number is counted.
    if (left.most != kUnbounded || frame.count < left.least) ++frame.count;
    enter(callee, frame);
  }
}

void Explorer::grow_seen() {
  const std::vector<uint64_t> old = std::exchange(seen_, std::vector<uint64_t>(std::max<size_t>(16, seen_.size() * 2)));
  for (const uint64_t key : old) {
    if (key == 0) continue;
    size_t slot = mix(0, key) & (seen_.size() - 1);
    while (seen_[slot] != 0) slot = (slot + 1) & (seen_.size() - 1);
    seen_[slot] = key;
  }
}

// Whether that end was followed in this step; it is from now on.
bool Explorer::see(const Config& config) {
  if ((seen_count_ + 1) * 2 > seen_.size()) grow_seen();
  const uint64_t key = pair_key(config.state, config.node);  // not 0: states are beyond kEndState
  size_t slot = mix(0, key) & (seen_.size() - 1);
  for (; seen_[slot] != 0; slot = (slot + 1) & (seen_.size() - 1)) {
    if (seen_[slot] == key) return true;
  }
  seen_[slot] = key;
  ++seen_count_;
  return false;
}

void Explorer::enter(CalleeId callee, const Frame& frame) {
  const auto later = [](const Entry& a, const Entry& b) { return a.callee > b.callee; };
  add_work(1);
  entries_.push_back({callee, frame});
  std::push_heap(entries_.begin(), entries_.end(), later);
}

void Explorer::enter_calls(const Config& config) {
  for (const CallEdge& call : automaton_.calls_of(config.state)) {
    add_work(1);
    if (!call.is_tail) {
      enter(call.callee, {call.target, 1, config.node});
      continue;
    }
    add_work(nodes_[config.node].count);
    for (uint32_t i = 0; i < nodes_[config.node].count; ++i) {
      enter(call.callee, frames_[nodes_[config.node].first + i]);
    }
  }
}

// Of one state, all nodes become one.
void Explorer::merge_arrivals() {
  add_work(arrivals_.size());
  std::sort(arrivals_.begin(), arrivals_.end());
  size_t kept = 0;
  for (size_t i = 0; i < arrivals_.size();) {
    size_t end = i + 1;
    while (end < arrivals_.size() && arrivals_[end].state == arrivals_[i].state) ++end;
    Config config = arrivals_[i];
    if (end > i + 1) {
      merged_.clear();
      for (size_t k = i; k < end; ++k) {
        const auto frames = frames_of(arrivals_[k].node);
        add_work(frames.size());
        merged_.insert(merged_.end(), frames.begin(), frames.end());
      }
      config.node = node(merged_, automaton_.states[config.state].callee);
    }
    arrivals_[kept++] = config;
    i = end;
  }
  arrivals_.resize(kept);
}

FrontierId Explorer::import(const Explorer& other, FrontierId f) {
  // Nodes are made after those below them: all that are needed, in that order.
  std::vector<NodeIndex> needed;
  for (const Config& config : other.configs(f)) needed.push_back(config.node);
  std::vector<char> is_needed(other.nodes_.size(), 0);
  for (size_t i = 0; i < needed.size(); ++i) {
    if (is_needed[needed[i]] != 0) continue;
    is_needed[needed[i]] = 1;
    for (const Frame& frame : other.frames_of(needed[i])) needed.push_back(frame.below);
  }
  std::vector<NodeIndex> made(other.nodes_.size(), kBottom);
  std::vector<Frame> frames;
  for (NodeIndex index = 1; index < other.nodes_.size(); ++index) {
    if (is_needed[index] == 0) continue;
    frames = other.frames(index);
    for (Frame& frame : frames) frame.below = made[frame.below];
    made[index] = node(frames, other.nodes_[index].counted);
  }
  std::vector<Config> configs;
  for (const Config& config : other.configs(f)) configs.push_back({config.state, made[config.node]});
  return intern(configs, other.may_end(f));
}

// From arrivals_, entries_ and may_end_ to the frontier: ends are followed, then calls.
FrontierId Explorer::close() {
  if (seen_count_ > 0) std::fill(seen_.begin(), seen_.end(), 0);
  seen_count_ = 0;
  for (size_t i = 0; i < arrivals_.size(); ++i) {
    const Config config = arrivals_[i];
    const State& state = automaton_.states[config.state];
    if (state.is_final && !see(config)) leave(config.node, state.callee);
  }
  merge_arrivals();
  result_.clear();
  const auto take = [&](const Config& config) {
    if (!automaton_.edges_of(config.state).empty()) result_.push_back(config);
    enter_calls(config);
  };
  for (size_t i = 0; i < arrivals_.size(); ++i) take(arrivals_[i]);
  const auto later = [](const Entry& a, const Entry& b) { return a.callee > b.callee; };
  while (!entries_.empty()) {
    const CalleeId callee = entries_.front().callee;
    merged_.clear();
    while (!entries_.empty() && entries_.front().callee == callee) {
      merged_.push_back(entries_.front().frame);
      std::pop_heap(entries_.begin(), entries_.end(), later);
      entries_.pop_back();
    }
    take({automaton_.callees[callee].start, node(merged_, callee)});
  }
  std::sort(result_.begin(), result_.end());
  return intern(result_, may_end_);
}

}  // namespace minfer::engine::grammar
