// The merge loop that byte-level BPE and SentencePiece BPE share: symbols in a doubly linked list, candidate pairs best
// key first and leftmost among equals. A pair is dropped when it is taken and one of its sides has changed meanwhile.
// n symbols cost O(n log n) time and O(n) memory, whatever they are; nothing recurses.
// Candidates lie in a sorted list, and in a heap those that came up since it was sorted; the list that has run out is
// the heap, sorted. In a long run of one character, whose pairs are found nearly in order, memory is then read from
// front to back; a heap alone would touch a cache line a level for each pair. lookup(left, right) says whether two
// neighbours merge. Scratch memory belongs to the caller and is reused.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tokenizer/vocab.hpp"

namespace minfer::tokenizer {

struct Symbol {
  uint32_t begin;  // byte offset in the word
  uint32_t size;   // bytes; 0: merged into its left neighbour
  int32_t previous;
  int32_t next;
  TokenId id;  // -1: no token has this text
};

struct MergeChoice {
  uint64_t key;  // smaller merges earlier
  TokenId id;    // the merged token; -1: the pair does not merge
};

struct MergeCandidate {
  uint64_t key;
  int32_t left;
  int32_t right;
  uint32_t size;  // bytes of both sides when the pair was seen
  TokenId id;
};

struct MergeScratch {
  std::vector<Symbol> symbols;
  std::vector<MergeCandidate> sorted;   // by merge order; taken from the front
  std::vector<MergeCandidate> pending;  // a heap of the candidates that came up since `sorted` was sorted
};

// Appends a symbol and links it to the one before.
inline void append_symbol(std::vector<Symbol>& symbols, uint32_t begin, uint32_t size, TokenId id) {
  const auto index = static_cast<int32_t>(symbols.size());
  if (index > 0) symbols.back().next = index;
  symbols.push_back({begin, size, index - 1, -1, id});
}

// Merges scratch.symbols until no pair is left that merges; the survivors are linked from symbol 0.
template <class Lookup>
void merge_symbols(MergeScratch& scratch, const Lookup& lookup) {
  auto& symbols = scratch.symbols;
  auto& sorted = scratch.sorted;
  auto& pending = scratch.pending;
  const auto earlier = [](const MergeCandidate& a, const MergeCandidate& b) {
    return a.key != b.key ? a.key < b.key : a.left < b.left;
  };
  const auto later = [&](const MergeCandidate& a, const MergeCandidate& b) { return earlier(b, a); };
  const auto add = [&](std::vector<MergeCandidate>& to, int32_t left, int32_t right) {
    if (left < 0 || right < 0) return false;
    const Symbol& a = symbols[static_cast<size_t>(left)];
    const Symbol& b = symbols[static_cast<size_t>(right)];
    const MergeChoice choice = lookup(a, b);
    if (choice.id < 0) return false;
    to.push_back({choice.key, left, right, a.size + b.size, choice.id});
    return true;
  };

  sorted.clear();
  pending.clear();
  for (size_t index = 1; index < symbols.size(); ++index) {
    add(pending, static_cast<int32_t>(index) - 1, static_cast<int32_t>(index));
  }
  for (size_t next = 0;;) {
    if (next == sorted.size()) {
      if (pending.empty()) return;
      sorted.swap(pending);
      pending.clear();
      next = 0;
      if (!std::is_sorted(sorted.begin(), sorted.end(), earlier)) std::sort(sorted.begin(), sorted.end(), earlier);
    }
    MergeCandidate best = sorted[next];
    if (!pending.empty() && earlier(pending.front(), best)) {
      std::pop_heap(pending.begin(), pending.end(), later);
      best = pending.back();
      pending.pop_back();
    } else {
      ++next;
    }
    Symbol& left = symbols[static_cast<size_t>(best.left)];
    Symbol& right = symbols[static_cast<size_t>(best.right)];
    if (left.size == 0 || right.size == 0 || left.size + right.size != best.size) continue;
    left.size = best.size;
    left.id = best.id;
    left.next = right.next;
    right.size = 0;
    if (right.next >= 0) symbols[static_cast<size_t>(right.next)].previous = best.left;
    if (add(pending, left.previous, best.left)) std::push_heap(pending.begin(), pending.end(), later);
    if (add(pending, best.left, left.next)) std::push_heap(pending.begin(), pending.end(), later);
  }
}

}  // namespace minfer::tokenizer
