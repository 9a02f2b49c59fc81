// Ids of words seen before. Text repeats few words, and a lookup is several times cheaper than merging. A direct-mapped
// table over two arenas: a word replaces whatever shares its slot, and full arenas empty the whole cache, so memory is
// bounded (about 1 MB of slots, kMaxArenaBytes and kMaxArenaIds). The stored word is compared in full: a hit is exact.
// One thread at a time.
#pragma once

#include <xxhash.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/vocab.hpp"

namespace minfer::tokenizer {

class WordCache {
 public:
  static constexpr size_t kMaxWordBytes = 64;  // longer words rarely repeat
  static constexpr size_t kMaxArenaBytes = size_t{4} << 20;
  static constexpr size_t kMaxArenaIds = size_t{1} << 20;

  // Appends the ids of `word` to `out`: those of before, or what `encode_new()` appends there.
  template <class EncodeNew>
  void encode(std::string_view word, std::vector<TokenId>& out, EncodeNew encode_new) {
    const uint64_t hash = XXH3_64bits(word.data(), word.size());
    const std::span<const TokenId> known = find(word, hash);
    if (!known.empty()) {
      out.insert(out.end(), known.begin(), known.end());
      return;
    }
    const size_t before = out.size();
    encode_new();
    insert(word, hash, std::span<const TokenId>(out).subspan(before));
  }

 private:
  // The ids of `word`, or an empty span. Valid until the next insert.
  std::span<const TokenId> find(std::string_view word, uint64_t hash) const {
    if (slots_.empty()) return {};
    const Slot& slot = slots_[hash & (kSlots - 1)];
    if (slot.hash != hash || slot.id_count == 0) return {};
    if (std::string_view(bytes_).substr(slot.byte_offset, slot.size_bytes) != word) return {};
    return {ids_.data() + slot.id_offset, slot.id_count};
  }

  void insert(std::string_view word, uint64_t hash, std::span<const TokenId> ids) {
    if (word.size() > kMaxWordBytes || ids.empty()) return;
    const bool full = bytes_.size() + word.size() > kMaxArenaBytes || ids_.size() + ids.size() > kMaxArenaIds;
    if (full || slots_.empty()) {
      slots_.assign(kSlots, Slot{});
      bytes_.clear();
      ids_.clear();
    }
    slots_[hash & (kSlots - 1)] = {hash, static_cast<uint32_t>(bytes_.size()), static_cast<uint32_t>(ids_.size()),
                                   static_cast<uint16_t>(word.size()), static_cast<uint16_t>(ids.size())};
    bytes_.append(word);
    ids_.insert(ids_.end(), ids.begin(), ids.end());
  }

  static constexpr size_t kSlots = size_t{1} << 15;
  struct Slot {
    uint64_t hash = 0;
    uint32_t byte_offset = 0;
    uint32_t id_offset = 0;
    uint16_t size_bytes = 0;
    uint16_t id_count = 0;
  };
  std::vector<Slot> slots_;
  std::string bytes_;
  std::vector<TokenId> ids_;
};

}  // namespace minfer::tokenizer
