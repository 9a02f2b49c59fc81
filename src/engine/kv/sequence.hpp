// One sequence in the KV cache: its tokens, and for each group of layers the pages that hold them. Token i is at
// position i, in slot i % 64 of the table's entry i / 64. Operations are edits of these tables; only where a page that
// others hold would be written, or tokens change their position, does the store copy. A window group gives a page back
// as soon as no later token can see it. The engine's thread makes all calls; the cache outlives the sequence.
//
// A step: reserve(n), run a graph::SequenceStep made by step(), commit(ids). What was reserved and not committed is
// overwritten by the next step.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/kv/kv_cache.hpp"

namespace minfer::engine {

class Sequence {
 public:
  // `publish`: other sequences may find the full pages of this one (reuse_prefix). `adapter_scales`: how much of each
  // of the model's adapters it gets; empty: what the cache says.
  explicit Sequence(KvCache& cache, bool publish = false, std::span<const float> adapter_scales = {});
  ~Sequence();
  Sequence(Sequence&& other) noexcept;
  Sequence& operator=(Sequence&& other) noexcept;
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  std::span<const int32_t> tokens() const { return tokens_; }
  std::span<const float> adapter_scales() const { return adapter_scales_; }
  int64_t length() const { return static_cast<int64_t>(tokens_.size()); }
  bool publishes() const { return publish_ && computed_; }

  // For an empty, publishing sequence: takes the pages of the longest published prefix of `ids` that leaves at least
  // one token to run. Returns its length, a multiple of 64.
  int64_t reuse_prefix(std::span<const int32_t> ids);

  // Room for `tokens` more; false, and nothing has changed, where the pages don't suffice. Errors: invalid_input beyond
  // the cache's sequence_tokens.
  bool reserve(int64_t tokens);
  // Rows of a step that adds `rows` tokens behind `in_flight` others, which steps before it add that have not been
  // committed; all were reserved. Valid until the next change.
  graph::SequenceStep step(int64_t first_row, int64_t rows, int64_t in_flight = 0) const;
  // The step has run: its tokens are part of the sequence.
  void commit(std::span<const int32_t> ids);

  // Keeps the first `length` tokens. Errors: unsupported where a window group has given up what the next token would
  // see.
  void truncate(int64_t length);
  // Takes out `count` tokens from `first` on; later ones move down, their keys rotated to the new positions. False, and
  // nothing has changed, where the pages don't suffice (only pages shared with others need new ones). What is shifted
  // is not what a run without the removed tokens would have computed, so nothing more is published before clear().
  // Errors: unsupported where a window group has given up tokens that would become visible.
  bool remove(int64_t first, int64_t count);
  // The most tokens that remove() supports from `first` on where some stay behind them: after it, the window groups
  // must hold what the next token sees, and kept tokens that they have given up must not come into view.
  int64_t most_removable(int64_t first) const;
  // Another sequence with the same tokens; pages are shared until one of the two writes. What is reserved stays here.
  Sequence fork() const;
  // Gives back all pages: an empty sequence.
  void clear();

  // For saving: the page ids of a group, and the first position that it holds: entries before that one's are kNoPage.
  std::span<const int32_t> pages(size_t group) const { return tables_[group].pages; }
  int64_t first_token(size_t group) const { return tables_[group].first_token; }
  // For an empty sequence: takes pages for `tokens`, of which each group holds those from first_tokens[group] on; the
  // contents are to be written. Nothing is published before clear(). False, and nothing has changed, where the pages
  // don't suffice.
  bool restore(std::span<const int32_t> tokens, std::span<const int64_t> first_tokens);

 private:
  struct Table {
    std::vector<int32_t> pages;  // by page index; below first_page() kNoPage
    int64_t first_token = 0;     // positions before it were given up; it need not begin a page
    int64_t first_page() const { return first_token / graph::kPageTokens; }
  };
  struct Removal;

  // Pages that drop_unseen would make available.
  int64_t unseen_pages(size_t group) const;
  void drop_unseen(size_t group);
  // Whether the page that holds the last tokens has to be copied before it is written.
  bool must_copy_last(size_t group) const;
  int64_t pages_to_reserve(size_t group, int64_t tokens) const;
  void make_last_writable(size_t group);
  void publish_page(size_t index);
  Removal removal(size_t group, int64_t first, int64_t count) const;
  void check_window_keeps(size_t group, const Removal& removal) const;
  bool has_pages_for(size_t group, const Removal& removal) const;
  void remove_from_group(size_t group, const Removal& removal);
  void add_moves(size_t group, std::span<const int32_t> old, const Removal& removal, int64_t entry);

  KvCache* cache_;
  bool publish_;
  bool computed_ = true;  // each token by a run with all before it: nothing shifted, nothing from a file
  std::vector<int32_t> tokens_;
  std::array<Table, graph::kMaxKvGroups> tables_;
  std::vector<PageKey> keys_;  // of the full pages, while publishes()
  std::vector<float> adapter_scales_;
  PageKey root_key_;  // before the first page's
  std::vector<graph::KvMove> moves_;
};

}  // namespace minfer::engine
