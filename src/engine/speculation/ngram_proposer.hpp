// Prompt lookup: where the last tokens occurred before in the sequence, what followed them then is the guess. The
// longest of the last kMaxNgram .. kMinNgram tokens that occurred before decides, at its latest place; past the end of
// the sequence the guess goes on with itself, so that a period is continued. Each token is indexed once, in constant
// time: for each length a hash table from n-gram to the latest place, which stores places alone and compares with the
// sequence. Limits: a table of kMaxPlaces n-grams starts anew, and older places are forgotten. 48 bytes a token.
#pragma once

#include <array>

#include "engine/speculation/proposer.hpp"

namespace minfer::engine {

inline constexpr size_t kMinNgram = 2;
inline constexpr size_t kMaxNgram = 4;

class NgramProposer : public Proposer {
 public:
  static constexpr size_t kMaxPlaces = size_t{1} << 18;

  NgramProposer();
  void propose(std::span<const int32_t> tokens, int64_t most, Draft& draft) override;
  void reset() override;

 private:
  // Places are the index after an n-gram's last token; 0: an empty slot. A power of two, at most half full.
  struct Table {
    std::vector<int32_t> slots;
    size_t used = 0;
  };

  void insert(std::span<const int32_t> tokens, size_t length, size_t place);
  void make_room(std::span<const int32_t> tokens, size_t length);

  std::array<Table, kMaxNgram + 1> tables_;  // by length
  size_t indexed_ = 0;                       // n-grams that end before this one are in the tables
};

}  // namespace minfer::engine
