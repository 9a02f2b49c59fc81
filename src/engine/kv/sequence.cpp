// Growing, sharing and cutting a sequence. See sequence.hpp; removal is in sequence_remove.cpp.
#include "engine/kv/sequence.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace minfer::engine {

Sequence::Sequence(KvCache& cache, bool publish) : cache_(&cache), publish_(publish) {
  const size_t pages = static_cast<size_t>(page_count(cache.sequence_tokens()));
  tokens_.reserve(static_cast<size_t>(cache.sequence_tokens()));
  for (size_t group = 0; group < cache.groups(); ++group) tables_[group].pages.reserve(pages);
  if (publish) keys_.reserve(pages);
}

Sequence::~Sequence() {
  if (cache_ != nullptr) clear();
}

Sequence::Sequence(Sequence&& other) noexcept
    : cache_(std::exchange(other.cache_, nullptr)),
      publish_(other.publish_),
      tokens_(std::move(other.tokens_)),
      tables_(std::move(other.tables_)),
      keys_(std::move(other.keys_)),
      moves_(std::move(other.moves_)) {}

Sequence& Sequence::operator=(Sequence&& other) noexcept {
  std::swap(cache_, other.cache_);
  std::swap(publish_, other.publish_);
  tokens_.swap(other.tokens_);
  tables_.swap(other.tables_);
  keys_.swap(other.keys_);
  moves_.swap(other.moves_);
  return *this;
}

void Sequence::clear() {
  for (size_t group = 0; group < cache_->groups(); ++group) {
    Table& table = tables_[group];
    // The last page first: a prefix is of use without its end, not the other way round.
    while (static_cast<int64_t>(table.pages.size()) > table.first) {
      cache_->pool(group).release(table.pages.back());
      table.pages.pop_back();
    }
    table.pages.clear();
    table.first = 0;
  }
  tokens_.clear();
  keys_.clear();
}

int64_t Sequence::reuse_prefix(std::span<const int32_t> ids) {
  check(tokens_.empty() && publish_, "a prefix is taken by an empty, publishing sequence");
  const auto page_tokens = [&](size_t page) {
    return ids.subspan(page * static_cast<size_t>(graph::kPageTokens), static_cast<size_t>(graph::kPageTokens));
  };
  const size_t most = ids.empty() ? 0 : (ids.size() - 1) / static_cast<size_t>(graph::kPageTokens);
  for (size_t page = 0; page < most; ++page) {
    keys_.push_back(cache_->key_after(page == 0 ? PageKey{} : keys_.back(), page_tokens(page)));
  }
  // The longest prefix of which every group has the pages that the next token sees.
  const auto has = [&](size_t group, size_t pages) {
    const int64_t next = static_cast<int64_t>(pages) * graph::kPageTokens;
    for (size_t page = static_cast<size_t>(cache_->first_visible_page(group, next)); page < pages; ++page) {
      if (cache_->pool(group).find(keys_[page]) == kNoPage) return false;
    }
    return true;
  };
  size_t pages = 0;
  for (size_t candidate = most; candidate > 0 && pages == 0; --candidate) {
    bool all = true;
    for (size_t group = 0; group < cache_->groups() && all; ++group) all = has(group, candidate);
    if (all) pages = candidate;
  }
  keys_.resize(pages);
  const int64_t length = static_cast<int64_t>(pages) * graph::kPageTokens;
  for (size_t group = 0; group < cache_->groups(); ++group) {
    Table& table = tables_[group];
    table.first = cache_->first_visible_page(group, length);
    table.pages.assign(static_cast<size_t>(table.first), kNoPage);
    for (size_t page = static_cast<size_t>(table.first); page < pages; ++page) {
      table.pages.push_back(cache_->pool(group).find(keys_[page]));
      cache_->pool(group).hold(table.pages.back());
    }
  }
  tokens_.assign(ids.begin(), ids.begin() + length);
  return length;
}

void Sequence::drop_unseen() {
  for (size_t group = 0; group < cache_->groups(); ++group) {
    Table& table = tables_[group];
    const int64_t first =
        std::min(cache_->first_visible_page(group, length()), static_cast<int64_t>(table.pages.size()));
    for (; table.first < first; ++table.first) {
      int32_t& page = table.pages[static_cast<size_t>(table.first)];
      cache_->pool(group).release(page);
      page = kNoPage;
    }
  }
}

bool Sequence::must_copy_last(size_t group) const {
  if (length() % graph::kPageTokens == 0) return false;
  const int32_t last = tables_[group].pages[static_cast<size_t>(length() / graph::kPageTokens)];
  return cache_->pool(group).references(last) > 1;
}

int64_t Sequence::pages_to_reserve(size_t group, int64_t tokens) const {
  const int64_t more = page_count(length() + tokens) - static_cast<int64_t>(tables_[group].pages.size());
  return std::max<int64_t>(more, 0) + (must_copy_last(group) ? 1 : 0);
}

void Sequence::make_last_writable(size_t group) {
  if (length() % graph::kPageTokens == 0) return;
  PagePool& pool = cache_->pool(group);
  int32_t& last = tables_[group].pages[static_cast<size_t>(length() / graph::kPageTokens)];
  if (pool.references(last) == 1) {
    pool.unpublish(last);
    return;
  }
  const int32_t copy = pool.take();
  const graph::KvMove move{
      static_cast<int32_t>(group), last, 0, copy, 0, static_cast<int32_t>(length() % graph::kPageTokens), 0};
  cache_->store().move({&move, 1});
  pool.release(last);
  last = copy;
}

bool Sequence::reserve(int64_t tokens) {
  if (length() + tokens > cache_->sequence_tokens()) {
    fail(ErrorCode::invalid_input, "a sequence of {} tokens; the context holds {}", length() + tokens,
         cache_->sequence_tokens());
  }
  drop_unseen();
  for (size_t group = 0; group < cache_->groups(); ++group) {
    if (pages_to_reserve(group, tokens) > cache_->pool(group).available_pages()) return false;
  }
  for (size_t group = 0; group < cache_->groups(); ++group) {
    make_last_writable(group);
    auto& pages = tables_[group].pages;
    while (static_cast<int64_t>(pages.size()) < page_count(length() + tokens))
      pages.push_back(cache_->pool(group).take());
  }
  return true;
}

graph::SequenceStep Sequence::step(int64_t first_row, int64_t rows) const {
  graph::SequenceStep step{first_row, rows, length(), {}};
  for (size_t group = 0; group < cache_->groups(); ++group) step.pages[group] = tables_[group].pages;
  return step;
}

void Sequence::publish_page(size_t index) {
  const auto tokens = std::span(tokens_).subspan(index * static_cast<size_t>(graph::kPageTokens));
  keys_.push_back(
      cache_->key_after(index == 0 ? PageKey{} : keys_.back(), tokens.first(static_cast<size_t>(graph::kPageTokens))));
  for (size_t group = 0; group < cache_->groups(); ++group) {
    cache_->pool(group).publish(tables_[group].pages[index], keys_.back());
  }
}

void Sequence::commit(std::span<const int32_t> ids) {
  tokens_.insert(tokens_.end(), ids.begin(), ids.end());
  if (!publish_) return;
  while (static_cast<int64_t>(keys_.size()) < length() / graph::kPageTokens) publish_page(keys_.size());
}

void Sequence::truncate(int64_t kept) {
  check(kept >= 0 && kept <= length(), "truncation to more tokens than there are");
  for (size_t group = 0; group < cache_->groups(); ++group) {
    if (cache_->first_visible_page(group, kept) < tables_[group].first && kept > 0) {
      fail(ErrorCode::unsupported,
           "can't go back to {} of {} tokens: layers with a window of {} have given up what the next token would see",
           kept, length(), cache_->window(group));
    }
  }
  if (kept == 0) return clear();
  for (size_t group = 0; group < cache_->groups(); ++group) {
    auto& pages = tables_[group].pages;
    while (static_cast<int64_t>(pages.size()) > page_count(kept)) {
      cache_->pool(group).release(pages.back());
      pages.pop_back();
    }
  }
  tokens_.resize(static_cast<size_t>(kept));
  keys_.resize(std::min(keys_.size(), static_cast<size_t>(kept / graph::kPageTokens)));
}

Sequence Sequence::fork() const {
  Sequence copy(*cache_, publish_);
  copy.tokens_.assign(tokens_.begin(), tokens_.end());
  copy.keys_.assign(keys_.begin(), keys_.end());
  for (size_t group = 0; group < cache_->groups(); ++group) {
    const Table& table = tables_[group];
    copy.tables_[group].pages.assign(table.pages.begin(), table.pages.end());
    copy.tables_[group].first = table.first;
    for (size_t i = static_cast<size_t>(table.first); i < table.pages.size(); ++i) {
      cache_->pool(group).hold(table.pages[i]);
    }
  }
  return copy;
}

bool Sequence::restore(std::span<const int32_t> tokens, std::span<const int64_t> first_pages) {
  check(tokens_.empty(), "only an empty sequence is restored");
  const int64_t pages = page_count(static_cast<int64_t>(tokens.size()));
  for (size_t group = 0; group < cache_->groups(); ++group) {
    if (pages - first_pages[group] > cache_->pool(group).available_pages()) return false;
  }
  for (size_t group = 0; group < cache_->groups(); ++group) {
    Table& table = tables_[group];
    table.first = first_pages[group];
    table.pages.assign(static_cast<size_t>(table.first), kNoPage);
    while (static_cast<int64_t>(table.pages.size()) < pages) table.pages.push_back(cache_->pool(group).take());
  }
  tokens_.assign(tokens.begin(), tokens.end());
  publish_ = false;  // a file's pages are not known to be what this process would compute
  return true;
}

}  // namespace minfer::engine
