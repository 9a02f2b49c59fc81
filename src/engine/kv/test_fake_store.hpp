// A KV store for tests that keeps, instead of keys and values, what they would have been made from: the token, the
// position that the key is rotated for, and a hash of all tokens that the token was computed after. So whatever the
// tables of a sequence claim can be compared with what is there. A step is write(); moves check their contract.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "engine/kv/sequence.hpp"

namespace minfer::engine::testing {

struct Cell {
  int64_t token = -1;
  int64_t position = -1;
  uint64_t history = 0;
  bool operator==(const Cell&) const = default;
};

// What a step puts at `position` after a token with the cell `before`.
inline Cell computed_cell(const Cell& before, int64_t position, int32_t token) {
  constexpr uint64_t kMix = 0x9e3779b97f4a7c15;
  const uint64_t mixed = (before.history ^ static_cast<uint64_t>(token + 1)) * kMix;
  return {token, position, mixed ^ (mixed >> 29)};
}

class FakeStore final : public graph::KvStore {
 public:
  explicit FakeStore(const graph::KvSpec& spec) {
    for (const graph::KvGroup& group : spec.groups) {
      groups_.emplace_back(static_cast<size_t>(group.pages * graph::kPageTokens));
    }
  }

  Cell& at(size_t group, int32_t page, int64_t slot) {
    return groups_[group].at(static_cast<size_t>(page * graph::kPageTokens + slot));
  }
  const std::vector<std::vector<Cell>>& cells() const { return groups_; }

  // Runs a step of one sequence.
  void write(const graph::SequenceStep& step, std::span<const int32_t> ids) {
    for (size_t group = 0; group < groups_.size(); ++group) {
      const auto cell = [&](int64_t position) -> Cell& {
        const int32_t page = step.pages[group][static_cast<size_t>(position / graph::kPageTokens)];
        return at(group, page, position % graph::kPageTokens);
      };
      for (int64_t i = 0; i < step.rows; ++i) {
        const int64_t position = step.first_position + i;
        const Cell before = position == 0 ? Cell{} : cell(position - 1);
        cell(position) = computed_cell(before, position, ids[static_cast<size_t>(i)]);
      }
    }
  }

  std::string layout_name = "cells";
  bool fail_to_write = false;  // pages

  int64_t bytes() const override { return 0; }
  std::string_view layout() const override { return layout_name; }
  int64_t page_bytes(int32_t /*group*/) const override { return graph::kPageTokens * int64_t{sizeof(Cell)}; }

  void move(std::span<const graph::KvMove> moves) override {
    for (const graph::KvMove& m : moves) {
      check(m.tokens >= 1, "a move of no tokens");
      check(m.from_token + m.tokens <= graph::kPageTokens, "a move from beyond a page");
      check(m.to_token + m.tokens <= graph::kPageTokens, "a move to beyond a page");
      check(m.from_page != m.to_page || m.to_token <= m.from_token, "a move up in a page");
      for (int32_t i = 0; i < m.tokens; ++i) {
        Cell cell = at(static_cast<size_t>(m.group), m.from_page, m.from_token + i);
        // Wraps: a page from a file may hold any number.
        cell.position = static_cast<int64_t>(static_cast<uint64_t>(cell.position) + static_cast<uint64_t>(m.rotate_by));
        at(static_cast<size_t>(m.group), m.to_page, m.to_token + i) = cell;
      }
    }
  }

  void read_page(int32_t group, int32_t page, int64_t tokens, std::span<std::byte> out) const override {
    std::fill(out.begin(), out.end(), std::byte{0});
    const Cell* first = &groups_[static_cast<size_t>(group)].at(static_cast<size_t>(page * graph::kPageTokens));
    std::memcpy(out.data(), first, static_cast<size_t>(tokens) * sizeof(Cell));
  }
  void write_page(int32_t group, int32_t page, std::span<const std::byte> in) override {
    if (fail_to_write) fail(ErrorCode::device, "the device is lost");
    check(static_cast<int64_t>(in.size()) == page_bytes(group), "a page of another size");
    std::memcpy(&at(static_cast<size_t>(group), page, 0), in.data(), in.size());
  }

 private:
  std::vector<std::vector<Cell>> groups_;  // by group: [page][slot]
};

// A cache over a fake store: groups of {window, pages}.
struct FakeCache {
  struct Group {
    int64_t window;
    int64_t pages;
  };

  FakeCache(std::span<const Group> groups, int64_t sequence_tokens)
      : spec(spec_of(groups, sequence_tokens)), store(spec), cache(spec, store) {}

  static graph::KvSpec spec_of(std::span<const Group> groups, int64_t sequence_tokens) {
    graph::KvSpec spec;
    for (const Group& group : groups) spec.groups.push_back({group.window, {}, group.pages});
    spec.sequence_tokens = sequence_tokens;
    return spec;
  }

  // False where the pages don't suffice.
  bool append(Sequence& sequence, std::span<const int32_t> ids) {
    if (!sequence.reserve(static_cast<int64_t>(ids.size()))) return false;
    store.write(sequence.step(0, static_cast<int64_t>(ids.size())), ids);
    sequence.commit(ids);
    return true;
  }

  graph::KvSpec spec;
  FakeStore store;
  KvCache cache;
};

}  // namespace minfer::engine::testing
