// Which tokens may come next at a frontier. A place in the grammar lets through the same tokens wherever it was called
// from, as long as they end before its callee does: that part is found once, by walking the trie of the vocabulary from
// the place with nothing below it, and kept (Local). Where a callee ends within a token, the walk leaves behind the
// subtrees that go on after that end; a mask walks those from what is really below. All masks are exact.
// Between a place and what counts as below it lies what is short (Callee::is_transparent), so that a counted character
// is looked at together with its count; counts beyond what a token can reach are one (canonical_count).
// One thread at a time. Limits: kMaxLocalBytes of kept parts, then all are dropped; those of Explorer. Internal to
// engine/grammar.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/grammar/explorer.hpp"
#include "engine/grammar/token_table.hpp"

namespace minfer::engine::grammar {

inline constexpr size_t kMaxLocalBytes = size_t{16} << 20;

class Masks {
 public:
  // Both outlive it.
  Masks(const Automaton& automaton, const TokenTable& tokens);

  // The tokens that may come at frontier `f` of `places`, as bits: `mask` [TokenTable::mask_words()] is overwritten.
  // Its work counts as that of `places`.
  // Errors: ExplorerFull of `places`, which is then to be cleared; invalid_input where the grammar is too ambiguous.
  void find(Explorer& places, FrontierId f, std::span<uint32_t> mask);
  // To be called where `places` was cleared.
  void forget_parts() { parts_.clear(); }

 private:
  // Tokens sorted()[first, last).
  struct Range {
    uint32_t first;
    uint32_t last;
  };
  struct Local {
    std::vector<uint32_t> bits;  // empty: `tokens` is all
    std::vector<int32_t> tokens;
    // Trie nodes to walk from what is below, by the class of their byte: [classes + 1] into `exits`.
    std::vector<uint32_t> first_exit;
    std::vector<uint32_t> exits;
  };
  // A frontier's places that share what is below them.
  struct Part {
    FrontierId local;  // in locals_
    NodeIndex below;
    CalleeId callee;  // that ends there
  };
  struct Place {
    NodeIndex below;
    CalleeId callee;
    Config local;
  };

  void find_checked(Explorer& places, FrontierId f, std::span<uint32_t> mask);
  void find_once(Explorer& places, FrontierId f, std::span<uint32_t> mask);
  const std::vector<Part>& parts(Explorer& places, FrontierId f);
  void localize(Explorer& places, const Config& config, std::vector<Place>& out);
  std::vector<std::pair<NodeIndex, Place>> localize_node(Explorer& places, NodeIndex node, CalleeId callee);
  uint32_t canonical_count(const Callee& callee, uint32_t count) const;
  const Local& local(FrontierId f);
  Local make_local(FrontierId f);
  void walk(Explorer& explorer, FrontierId from, uint32_t first, uint32_t end, bool keep_exits);
  void add_range(uint32_t first, uint32_t last);
  void add_exits(const Local& local, Explorer& places, FrontierId below, std::span<uint32_t> mask);
  void drop_locals();

  const Automaton& automaton_;
  const TokenTable& tokens_;
  Explorer explorer_;  // of places with nothing below
  std::unordered_map<FrontierId, Local> locals_;
  size_t local_bytes_ = 0;
  std::unordered_map<FrontierId, std::vector<Part>> parts_;
  // Working space of a walk.
  std::vector<FrontierId> path_;  // by depth
  std::vector<Range> ranges_;
  std::vector<std::pair<uint16_t, uint32_t>> exits_;
};

}  // namespace minfer::engine::grammar
