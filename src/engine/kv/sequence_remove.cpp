// Taking tokens out of the middle of a sequence. See sequence.hpp.
//
// With count = 64 q + r, the token at position p >= first + count moves to p - count: from slot s of a page to slot
// s - r of the same page, or to the end of the one before. So table entry j of the shortened sequence is the page of
// entry j + q, into which the later tokens move down in ascending order; entry first / 64 stays where tokens before
// `first` are in it. Where r is 0, tokens keep their slots and only keys are rotated. A destination that others hold,
// or that a window group has no page for, is a new page.
//
// A window group may have given up tokens: of those that move, the first it holds may come to lie in the middle of a
// page, whose slots before it then hold nothing.
#include <algorithm>

#include "base/error.hpp"
#include "engine/kv/sequence.hpp"

namespace minfer::engine {
namespace {

constexpr int64_t kPage = graph::kPageTokens;

}  // namespace

// What a removal is to a group. Entries and positions are those of the shortened sequence, unless it says otherwise.
struct Sequence::Removal {
  int64_t first;
  int64_t count;
  int64_t length;
  int64_t start;        // of the tokens that move
  int64_t first_token;  // that the group holds
  bool keeps_earlier;   // whether tokens before `start` stay in its page

  int64_t first_entry() const { return start / kPage; }
  int64_t entries() const { return page_count(length); }
  // The entry of the sequence as it was whose page becomes this one.
  int64_t entry_before(int64_t entry) const {
    return keeps_earlier && entry == first_entry() ? entry : entry + count / kPage;
  }
};

Sequence::Removal Sequence::removal(size_t group, int64_t first, int64_t count) const {
  const int64_t held = tables_[group].first_token;
  const int64_t start = std::max(first, held - count);
  return {first, count, length() - count, start, held <= first ? held : start, held < first && first % kPage != 0};
}

void Sequence::check_window_keeps(size_t group, const Removal& removal) const {
  if (removal.first_token <= cache_->first_visible_token(group, removal.length)) return;
  fail(ErrorCode::unsupported,
       "can't remove tokens {} to {} of {}: layers with a window of {} have given up those before {}, which would "
       "become visible",
       removal.first, removal.first + removal.count - 1, length(), cache_->window(group), tables_[group].first_token);
}

// Whether the pool can replace the destination pages that are not this sequence's alone.
bool Sequence::has_pages_for(size_t group, const Removal& removal) const {
  const Table& table = tables_[group];
  int64_t needed = 0;
  for (int64_t entry = removal.first_entry(); entry < removal.entries(); ++entry) {
    const int64_t from = removal.entry_before(entry);
    const bool owned =
        from >= table.first_page() && cache_->pool(group).references(table.pages[static_cast<size_t>(from)]) == 1;
    needed += owned ? 0 : 1;
  }
  return needed <= cache_->pool(group).available_pages();
}

// The moves that bring the later tokens into an entry, whose page is in the table already.
void Sequence::add_moves(size_t group, std::span<const int32_t> old, const Removal& removal, int64_t entry) {
  const int32_t page = tables_[group].pages[static_cast<size_t>(entry)];
  const int64_t end = std::min((entry + 1) * kPage, removal.length);
  for (int64_t to = std::max(removal.start, entry * kPage); to < end;) {
    const int64_t source = to + removal.count;
    const int64_t run = std::min(end - to, kPage - source % kPage);
    moves_.push_back({static_cast<int32_t>(group), old[static_cast<size_t>(source / kPage)],
                      static_cast<int32_t>(source % kPage), page, static_cast<int32_t>(to % kPage),
                      static_cast<int32_t>(run), -removal.count});
    to += run;
  }
}

void Sequence::remove_from_group(size_t group, const Removal& removal) {
  PagePool& pool = cache_->pool(group);
  Table& table = tables_[group];
  const std::vector<int32_t> old = table.pages;
  std::vector<bool> stays(old.size(), false);
  table.pages.resize(static_cast<size_t>(removal.entries()));
  for (int64_t entry = removal.first_entry(); entry < removal.entries(); ++entry) {
    const int64_t from = removal.entry_before(entry);
    const int32_t before = from >= table.first_page() ? old[static_cast<size_t>(from)] : kNoPage;
    int32_t page = before;
    if (before != kNoPage && pool.references(before) == 1) {
      pool.unpublish(before);
      stays[static_cast<size_t>(from)] = true;
    } else {
      page = pool.take();
      if (removal.keeps_earlier && entry == removal.first_entry()) {
        moves_.push_back(
            {static_cast<int32_t>(group), before, 0, page, 0, static_cast<int32_t>(removal.start % kPage), 0});
      }
    }
    table.pages[static_cast<size_t>(entry)] = page;
    add_moves(group, old, removal, entry);
  }
  cache_->store().move(moves_);
  moves_.clear();
  const int64_t touched = std::max(removal.first_entry(), table.first_page());
  for (int64_t entry = touched; entry < static_cast<int64_t>(old.size()); ++entry) {
    if (!stays[static_cast<size_t>(entry)]) pool.release(old[static_cast<size_t>(entry)]);
  }
  table.first_token = removal.first_token;
}

// With `first` of 0 a window moves as a whole, and a group that has given up nothing has no limit either. Else the
// first position that is seen after it must not be before those that move and are held.
int64_t Sequence::most_removable(int64_t first) const {
  int64_t most = length() - first;
  for (size_t group = 0; group < cache_->groups(); ++group) {
    const int64_t missing = std::min(first, tables_[group].first_token);
    if (missing > 0) most = std::min(most, length() - cache_->window(group) + 1 - missing);
  }
  return most;
}

bool Sequence::remove(int64_t first, int64_t count) {
  check(first >= 0 && count > 0 && first + count <= length(), "removal of tokens that are not there");
  if (first + count == length()) {
    truncate(first);
    return true;
  }
  for (size_t group = 0; group < cache_->groups(); ++group) check_window_keeps(group, removal(group, first, count));
  for (size_t group = 0; group < cache_->groups(); ++group) {
    if (!has_pages_for(group, removal(group, first, count))) return false;
  }
  for (size_t group = 0; group < cache_->groups(); ++group) remove_from_group(group, removal(group, first, count));
  tokens_.erase(tokens_.begin() + first, tokens_.begin() + first + count);
  keys_.resize(std::min(keys_.size(), static_cast<size_t>(first / kPage)));
  computed_ = false;
  return true;
}

}  // namespace minfer::engine
