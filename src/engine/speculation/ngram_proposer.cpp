// The n-gram index by open addressing. See ngram_proposer.hpp.
#include "engine/speculation/ngram_proposer.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace minfer::engine {
namespace {

constexpr size_t kFirstSlots = 1024;

std::span<const int32_t> ngram_before(std::span<const int32_t> tokens, size_t place, size_t length) {
  return tokens.subspan(place - length, length);
}

size_t hash_of(std::span<const int32_t> ngram) {
  uint64_t hash = 0;
  for (const int32_t token : ngram) {
    hash = (hash ^ static_cast<uint32_t>(token)) * 0x9E3779B97F4A7C15ULL;
    hash ^= hash >> 32;
  }
  return static_cast<size_t>(hash);
}

// The slot that has the n-gram, or the empty one where it belongs.
size_t slot_of(const std::vector<int32_t>& slots, std::span<const int32_t> tokens, std::span<const int32_t> ngram) {
  const size_t mask = slots.size() - 1;
  for (size_t slot = hash_of(ngram) & mask;; slot = (slot + 1) & mask) {
    const size_t place = static_cast<size_t>(slots[slot]);
    if (place == 0) return slot;
    if (std::ranges::equal(ngram_before(tokens, place, ngram.size()), ngram)) return slot;
  }
}

}  // namespace

NgramProposer::NgramProposer() {
  for (size_t length = kMinNgram; length <= kMaxNgram; ++length) tables_[length].slots.assign(kFirstSlots, 0);
}

void NgramProposer::reset() {
  for (Table& table : tables_) {
    std::fill(table.slots.begin(), table.slots.end(), 0);
    table.used = 0;
  }
  indexed_ = 0;
}

void NgramProposer::make_room(std::span<const int32_t> tokens, size_t length) {
  Table& table = tables_[length];
  if (2 * (table.used + 1) <= table.slots.size()) return;
  if (table.used >= kMaxPlaces) {
    std::fill(table.slots.begin(), table.slots.end(), 0);
    table.used = 0;
    return;
  }
  std::vector<int32_t> larger(2 * table.slots.size(), 0);
  for (const int32_t place : table.slots) {
    if (place == 0) continue;
    larger[slot_of(larger, tokens, ngram_before(tokens, static_cast<size_t>(place), length))] = place;
  }
  table.slots = std::move(larger);
}

void NgramProposer::insert(std::span<const int32_t> tokens, size_t length, size_t place) {
  make_room(tokens, length);
  Table& table = tables_[length];
  int32_t& slot = table.slots[slot_of(table.slots, tokens, ngram_before(tokens, place, length))];
  if (slot == 0) ++table.used;
  slot = static_cast<int32_t>(place);
}

void NgramProposer::propose(std::span<const int32_t> tokens, int64_t most, Draft& draft) {
  check(tokens.size() >= indexed_, "a sequence that lost tokens without a reset of its proposer");
  draft.clear();
  // All n-grams that a token follows.
  for (size_t place = std::max(indexed_, kMinNgram); place < tokens.size(); ++place) {
    for (size_t length = kMinNgram; length <= std::min(kMaxNgram, place); ++length) insert(tokens, length, place);
  }
  indexed_ = tokens.size();
  for (size_t length = std::min(kMaxNgram, tokens.size()); length >= kMinNgram; --length) {
    const std::vector<int32_t>& slots = tables_[length].slots;
    size_t place = static_cast<size_t>(slots[slot_of(slots, tokens, tokens.last(length))]);
    if (place == 0) continue;
    for (; static_cast<int64_t>(draft.tokens.size()) < most; ++place) {
      draft.tokens.push_back(place < tokens.size() ? tokens[place] : draft.tokens[place - tokens.size()]);
    }
    return;
  }
}

}  // namespace minfer::engine
