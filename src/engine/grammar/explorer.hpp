// The automaton as it is run: a frontier is the set of all places where a text may have led it, and stepping it by a
// symbol gives another. Frontiers and the stacks below them are kept once each (interned), with the steps that were
// taken from them, so that what is met again costs a table look-up.
//   node: a set of stacks, as frames {where it goes on, how many repetitions, the node below}. Frames of one node end
//     the same kind of callee. Two stacks that differ below share what is above: ambiguity does not multiply.
//   frontier: for each state that may read something, the node below it; and whether the text may end here.
// One thread at a time. Limits: kMaxExplorerBytes; beyond them ExplorerFull is thrown, and it has to begin anew
// (clear()); the steps that reset_work() allows, beyond them invalid_input. Internal to engine/grammar.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "engine/grammar/automaton.hpp"

namespace minfer::engine::grammar {

using NodeIndex = uint32_t;
using FrontierId = uint32_t;

inline constexpr size_t kMaxExplorerBytes = size_t{16} << 20;
// What a grammar may cost those who share a step with its answers, in steps of about 20 ns: so many at once, and so
// many more for each token that is drawn with it, of whichever answer (not for those that it forces). Caches keep real
// grammars far below: a schema of 100 properties takes 230 a token. One of 500 properties that may all be missing takes
// 11,000, and uses up four fifths of the first number; one of 20,000 words a sixtieth.
inline constexpr size_t kMaxExplorerWork = size_t{1} << 22;
inline constexpr size_t kTokenWork = size_t{1} << 14;

inline constexpr NodeIndex kBottom = 0;  // the stack that only the end of the text is left on
inline constexpr FrontierId kDead = 0;   // no text goes on from here, nor may it end

class Explorer;

// Thrown by `explorer` where it holds kMaxExplorerBytes.
struct ExplorerFull {
  const Explorer* explorer;
};

struct Frame {
  StateId target;
  uint32_t count;  // the repetition that runs; 1 for a rule
  NodeIndex below;
  auto operator<=>(const Frame&) const = default;
};

struct Config {
  StateId state;
  NodeIndex node;
  auto operator<=>(const Config&) const = default;
};

// Open addressing over indices of what is stored elsewhere.
class InternTable {
 public:
  void clear();
  // The index with this hash for which `equal(index)`, or `add()`, which is then found by it.
  template <class Equal, class Add>
  uint32_t find_or_add(uint64_t hash, Equal equal, Add add);
  size_t bytes() const { return slots_.size() * sizeof(Slot); }

 private:
  struct Slot {
    uint32_t tag;
    uint32_t index;  // kEmpty: none
  };
  static constexpr uint32_t kEmpty = UINT32_MAX;

  void grow();

  std::vector<Slot> slots_;
  std::vector<uint64_t> hashes_;  // by index, for growing
};

class Explorer {
 public:
  // The automaton outlives it.
  explicit Explorer(const Automaton& automaton);

  void clear();
  // At most kMaxExplorerWork from now on, or what is left of it.
  void reset_work(size_t most = kMaxExplorerWork) { work_left_ = most; }
  size_t work_left() const { return work_left_; }
  void add_work(size_t steps) {
    if (steps > work_left_) fail_work();
    work_left_ -= steps;
  }

  // Where every text begins.
  FrontierId start();
  FrontierId step(FrontierId from, Symbol symbol) { return step_class(from, automaton_.class_of[symbol]); }
  FrontierId step_class(FrontierId from, uint32_t symbol_class) {
    const FrontierId to = steps_[from * automaton_.classes() + symbol_class];
    return to != kUnknown ? to : find_step(from, symbol_class);
  }
  // Where callees whose stacks are `node` go on when they end. `callee` is one of them.
  FrontierId resume(NodeIndex node, CalleeId callee);
  // The same frontier of another explorer of this automaton.
  FrontierId import(const Explorer& other, FrontierId f);
  // That frontier of places; no end of a callee is followed.
  FrontierId intern(std::span<const Config> configs);  // ascending

  bool may_end(FrontierId f) const { return frontiers_[f].may_end; }
  std::span<const Config> configs(FrontierId f) const {
    return std::span(configs_).subspan(frontiers_[f].first, frontiers_[f].count);
  }
  // Texts of these bytes only, up to so many, lead to no dead end.
  ByteGroups loop(FrontierId f) const { return frontiers_[f].loop; }
  uint32_t loop_room(FrontierId f) const { return frontiers_[f].loop_room; }
  // Copied, as nodes move.
  std::vector<Frame> frames(NodeIndex node) const;
  NodeIndex node(std::vector<Frame>& frames, CalleeId callee);  // sorted here

 private:
  struct Node {
    uint32_t first;
    uint32_t count;
    CalleeId counted;    // whose repetitions the frames count, or 0: rules
    FrontierId resumed;  // resume(), or kUnknown
  };
  struct Frontier {
    uint32_t first;
    uint32_t count;
    bool may_end;
    uint32_t loop_room;
    ByteGroups loop;
  };
  struct Entry {
    CalleeId callee;
    Frame frame;
  };
  static constexpr uint32_t kUnknown = UINT32_MAX;

  [[noreturn]] void fail_work();
  void check_bytes() const;
  std::span<const Frame> frames_of(NodeIndex node) const {
    return std::span(frames_).subspan(nodes_[node].first, nodes_[node].count);
  }
  CalleeId counted_of(CalleeId callee) const { return automaton_.callees[callee].counts ? callee : 0; }
  FrontierId find_step(FrontierId from, uint32_t symbol_class);
  void begin(bool may_end);
  void arrive(StateId state, NodeIndex node);
  void leave(NodeIndex node, CalleeId callee);
  bool see(const Config& config);
  void grow_seen();
  void enter(CalleeId callee, const Frame& frame);
  void enter_calls(const Config& config);
  void merge_arrivals();
  FrontierId close();
  FrontierId intern(std::span<const Config> configs, bool may_end);
  void find_loop(Frontier& frontier);

  const Automaton& automaton_;
  std::vector<Frame> frames_;
  std::vector<Node> nodes_;
  std::vector<Config> configs_;
  std::vector<Frontier> frontiers_;
  std::vector<FrontierId> steps_;  // [frontier][class]
  InternTable node_table_;
  InternTable frontier_table_;
  size_t work_left_ = kMaxExplorerWork;
  // Working space of a step.
  std::vector<Config> arrivals_;
  std::vector<uint64_t> seen_;  // ends that were followed: open addressing, 0 where there is none
  size_t seen_count_ = 0;
  std::vector<Entry> entries_;  // a heap, the first callee on top
  std::vector<Frame> merged_;
  std::vector<Config> result_;
  bool may_end_ = false;
};

}  // namespace minfer::engine::grammar
