// Taking tokens out of the middle of a sequence. See sequence.hpp.
//
// With count = 64 q + r, the token at position p >= first + count moves to p - count: from slot s of a page to slot
// s - r of the same page, or to the end of the one before. So table entry j of the shortened sequence is the page of
// entry j + q, into which the later tokens move down in ascending order; entry first / 64 stays where tokens before
// `first` are in it. Where r is 0, tokens keep their slots and only keys are rotated. A destination that others hold,
// or that a window group has no page for, is a new page.
#include <algorithm>

#include "base/error.hpp"
#include "engine/kv/sequence.hpp"

namespace minfer::engine {
namespace {

constexpr int64_t kPage = graph::kPageTokens;

}  // namespace

void Sequence::check_window_keeps(int64_t first, int64_t count) const {
  for (size_t group = 0; group < cache_->groups(); ++group) {
    const int64_t kept = tables_[group].first * kPage;
    if (kept == 0 || first + count <= kept) continue;
    fail(ErrorCode::unsupported,
         "can't remove tokens {} to {} of {}: layers with a window of {} have given up those before {}, which would "
         "become visible",
         first, first + count - 1, length(), cache_->window(group), kept);
  }
}

// The entry whose page becomes entry j.
int64_t Sequence::entry_before_removal(size_t group, int64_t j, int64_t first, int64_t count) const {
  const bool has_earlier = j == first / kPage && first % kPage != 0 && j >= tables_[group].first;
  return has_earlier ? j : j + count / kPage;
}

// Whether the pool of every group can replace the destination pages that are not this sequence's alone.
bool Sequence::has_pages_for_removal(int64_t first, int64_t count) const {
  for (size_t group = 0; group < cache_->groups(); ++group) {
    const Table& table = tables_[group];
    int64_t needed = 0;
    const int64_t begin = std::max(first, table.first * kPage - count) / kPage;
    for (int64_t j = begin; j < page_count(length() - count); ++j) {
      const int64_t from = entry_before_removal(group, j, first, count);
      const bool owned =
          from >= table.first && cache_->pool(group).references(table.pages[static_cast<size_t>(from)]) == 1;
      needed += owned ? 0 : 1;
    }
    if (needed > cache_->pool(group).available_pages()) return false;
  }
  return true;
}

void Sequence::remove_from_group(size_t group, int64_t first, int64_t count) {
  PagePool& pool = cache_->pool(group);
  Table& table = tables_[group];
  const std::vector<int32_t> old = table.pages;
  const auto old_page = [&](int64_t index) { return old[static_cast<size_t>(index)]; };
  const int64_t new_length = length() - count;
  // Moved tokens begin at `start` of the shortened sequence; a window group may have none of the earlier ones.
  const int64_t start = std::max(first, table.first * kPage - count);
  std::vector<bool> kept(old.size(), false);
  const int64_t begin = start / kPage;
  table.pages.resize(static_cast<size_t>(page_count(new_length)));
  for (int64_t j = begin; j < page_count(new_length); ++j) {
    const int64_t from = entry_before_removal(group, j, first, count);
    int32_t page = from >= table.first ? old_page(from) : kNoPage;
    const bool owned = page != kNoPage && pool.references(page) == 1;
    if (owned) {
      pool.unpublish(page);
      kept[static_cast<size_t>(from)] = true;
    } else {
      const int32_t shared = page;
      page = pool.take();
      const int32_t earlier = static_cast<int32_t>(start - j * kPage);
      if (shared != kNoPage && j * kPage < start && table.first == 0) {
        moves_.push_back({static_cast<int32_t>(group), shared, 0, page, 0, earlier, 0});
      }
    }
    table.pages[static_cast<size_t>(j)] = page;
    const int64_t end = std::min((j + 1) * kPage, new_length);
    for (int64_t to = std::max(start, j * kPage); to < end;) {
      const int64_t source = to + count;
      const int64_t run = std::min(end - to, kPage - source % kPage);
      moves_.push_back({static_cast<int32_t>(group), old_page(source / kPage), static_cast<int32_t>(source % kPage),
                        page, static_cast<int32_t>(to % kPage), static_cast<int32_t>(run), -count});
      to += run;
    }
  }
  cache_->store().move(moves_);
  moves_.clear();
  for (int64_t i = std::max(begin, table.first); i < static_cast<int64_t>(old.size()); ++i) {
    if (!kept[static_cast<size_t>(i)]) pool.release(old_page(i));
  }
  if (table.first > 0) {
    table.first = begin;
    std::fill_n(table.pages.begin(), begin, kNoPage);
  }
}

bool Sequence::remove(int64_t first, int64_t count) {
  check(first >= 0 && count > 0 && first + count <= length(), "removal of tokens that are not there");
  if (first + count == length()) {
    truncate(first);
    return true;
  }
  check_window_keeps(first, count);
  if (!has_pages_for_removal(first, count)) return false;
  for (size_t group = 0; group < cache_->groups(); ++group) remove_from_group(group, first, count);
  tokens_.erase(tokens_.begin() + first, tokens_.begin() + first + count);
  keys_.resize(std::min(keys_.size(), static_cast<size_t>(first / kPage)));
  publish_ = false;
  return true;
}

}  // namespace minfer::engine
