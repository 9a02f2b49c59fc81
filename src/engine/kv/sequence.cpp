// Growing, sharing and cutting a sequence. See sequence.hpp; removal is in sequence_remove.cpp.
#include "engine/kv/sequence.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace minfer::engine {

Sequence::Sequence(KvCache& cache, bool publish, std::span<const float> adapter_scales)
    : cache_(&cache), publish_(publish) {
  const std::span<const float> scales = adapter_scales.empty() ? cache.adapter_scales() : adapter_scales;
  adapter_scales_.assign(scales.begin(), scales.end());
  root_key_ = cache.root_key(adapter_scales_);
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
      computed_(other.computed_),
      tokens_(std::move(other.tokens_)),
      tables_(std::move(other.tables_)),
      keys_(std::move(other.keys_)),
      adapter_scales_(std::move(other.adapter_scales_)),
      root_key_(other.root_key_),
      moves_(std::move(other.moves_)) {}

Sequence& Sequence::operator=(Sequence&& other) noexcept {
  Sequence taken(std::move(other));  // and what this one holds goes when `taken` does
  std::swap(cache_, taken.cache_);
  std::swap(publish_, taken.publish_);
  std::swap(computed_, taken.computed_);
  tokens_.swap(taken.tokens_);
  tables_.swap(taken.tables_);
  keys_.swap(taken.keys_);
  adapter_scales_.swap(taken.adapter_scales_);
  std::swap(root_key_, taken.root_key_);
  moves_.swap(taken.moves_);
  return *this;
}

void Sequence::clear() {
  for (size_t group = 0; group < cache_->groups(); ++group) {
    Table& table = tables_[group];
    // The last page first: a prefix is of use without its end, not the other way round.
    while (static_cast<int64_t>(table.pages.size()) > table.first_page()) {
      cache_->pool(group).release(table.pages.back());
      table.pages.pop_back();
    }
    table.pages.clear();
    table.first_token = 0;
  }
  tokens_.clear();
  keys_.clear();
  computed_ = true;
}

int64_t Sequence::reuse_prefix(std::span<const int32_t> ids) {
  check(tokens_.empty() && publish_, "a prefix is taken by an empty, publishing sequence");
  clear();  // what is reserved
  constexpr size_t kTokens = graph::kPageTokens;
  const size_t most = ids.empty() ? 0 : (ids.size() - 1) / kTokens;
  // For each group, where the unbroken run of published pages that ends at the current one begins. A prefix is found
  // where every group's run reaches back to the first page that the next token sees.
  std::array<int64_t, graph::kMaxKvGroups> run_begins{};
  size_t pages = 0;
  bool open = true;
  for (size_t page = 0; page < most && open; ++page) {
    keys_.push_back(cache_->key_after(page == 0 ? root_key_ : keys_.back(), ids.subspan(page * kTokens, kTokens)));
    const int64_t next = static_cast<int64_t>((page + 1) * kTokens);
    bool found = true;
    for (size_t group = 0; group < cache_->groups(); ++group) {
      int64_t& begin = run_begins[group];
      if (cache_->pool(group).find(keys_.back()) == kNoPage) begin = static_cast<int64_t>(page) + 1;
      found = found && begin <= cache_->first_visible_page(group, next);
      open = open && (begin == 0 || cache_->window(group) != 0);
    }
    if (found) pages = page + 1;
  }
  keys_.resize(pages);
  const int64_t length = static_cast<int64_t>(pages * kTokens);
  for (size_t group = 0; group < cache_->groups(); ++group) {
    Table& table = tables_[group];
    const int64_t first = cache_->first_visible_page(group, length);
    table.first_token = first * graph::kPageTokens;
    table.pages.assign(static_cast<size_t>(first), kNoPage);
    for (size_t page = static_cast<size_t>(first); page < pages; ++page) {
      table.pages.push_back(cache_->pool(group).find(keys_[page]));
      cache_->pool(group).hold(table.pages.back());
    }
  }
  tokens_.assign(ids.begin(), ids.begin() + length);
  return length;
}

int64_t Sequence::unseen_pages(size_t group) const {
  const Table& table = tables_[group];
  int64_t unseen = 0;
  for (int64_t entry = table.first_page(); entry < cache_->first_visible_page(group, length()); ++entry) {
    unseen += cache_->pool(group).references(table.pages[static_cast<size_t>(entry)]) == 1 ? 1 : 0;
  }
  return unseen;
}

void Sequence::drop_unseen(size_t group) {
  Table& table = tables_[group];
  const int64_t first = cache_->first_visible_page(group, length());
  for (int64_t entry = table.first_page(); entry < first; ++entry) {
    int32_t& page = table.pages[static_cast<size_t>(entry)];
    cache_->pool(group).release(page);
    page = kNoPage;
  }
  table.first_token = std::max(table.first_token, first * graph::kPageTokens);
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
  for (size_t group = 0; group < cache_->groups(); ++group) {
    const int64_t available = cache_->pool(group).available_pages() + unseen_pages(group);
    if (pages_to_reserve(group, tokens) > available) return false;
  }
  for (size_t group = 0; group < cache_->groups(); ++group) {
    drop_unseen(group);
    make_last_writable(group);
    auto& pages = tables_[group].pages;
    while (static_cast<int64_t>(pages.size()) < page_count(length() + tokens))
      pages.push_back(cache_->pool(group).take());
  }
  return true;
}

graph::SequenceStep Sequence::step(int64_t first_row, int64_t rows, int64_t in_flight) const {
  graph::SequenceStep step{first_row, rows, length() + in_flight, {}, adapter_scales_};
  for (size_t group = 0; group < cache_->groups(); ++group) step.pages[group] = tables_[group].pages;
  return step;
}

void Sequence::publish_page(size_t index) {
  const auto tokens = std::span(tokens_).subspan(index * static_cast<size_t>(graph::kPageTokens));
  keys_.push_back(
      cache_->key_after(index == 0 ? root_key_ : keys_.back(), tokens.first(static_cast<size_t>(graph::kPageTokens))));
  for (size_t group = 0; group < cache_->groups(); ++group) {
    cache_->pool(group).publish(tables_[group].pages[index], keys_.back());
  }
}

void Sequence::commit(std::span<const int32_t> ids) {
  const int64_t pages = page_count(length() + static_cast<int64_t>(ids.size()));
  for (size_t group = 0; group < cache_->groups(); ++group) {
    check(static_cast<int64_t>(tables_[group].pages.size()) >= pages, "tokens were committed that were not reserved");
  }
  tokens_.insert(tokens_.end(), ids.begin(), ids.end());
  if (!publishes()) return;
  while (static_cast<int64_t>(keys_.size()) < length() / graph::kPageTokens) publish_page(keys_.size());
}

void Sequence::truncate(int64_t kept) {
  check(kept >= 0 && kept <= length(), "truncation to more tokens than there are");
  for (size_t group = 0; group < cache_->groups(); ++group) {
    if (cache_->first_visible_token(group, kept) < tables_[group].first_token && kept > 0) {
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
  Sequence copy(*cache_, publish_, adapter_scales_);
  copy.computed_ = computed_;
  copy.tokens_.assign(tokens_.begin(), tokens_.end());
  copy.keys_.assign(keys_.begin(), keys_.end());
  for (size_t group = 0; group < cache_->groups(); ++group) {
    const Table& table = tables_[group];
    // Not the reserved pages: both would write them.
    copy.tables_[group].pages.assign(table.pages.begin(), table.pages.begin() + page_count(length()));
    copy.tables_[group].first_token = table.first_token;
    for (int64_t entry = table.first_page(); entry < page_count(length()); ++entry) {
      cache_->pool(group).hold(table.pages[static_cast<size_t>(entry)]);
    }
  }
  return copy;
}

bool Sequence::restore(std::span<const int32_t> tokens, std::span<const int64_t> first_tokens) {
  check(tokens_.empty(), "only an empty sequence is restored");
  const int64_t pages = page_count(static_cast<int64_t>(tokens.size()));
  for (size_t group = 0; group < cache_->groups(); ++group) {
    const int64_t reserved = static_cast<int64_t>(tables_[group].pages.size());
    const int64_t available = cache_->pool(group).available_pages() + reserved;
    if (pages - first_tokens[group] / graph::kPageTokens > available) return false;
  }
  clear();  // what is reserved
  for (size_t group = 0; group < cache_->groups(); ++group) {
    Table& table = tables_[group];
    table.first_token = first_tokens[group];
    table.pages.assign(static_cast<size_t>(table.first_page()), kNoPage);
    while (static_cast<int64_t>(table.pages.size()) < pages) table.pages.push_back(cache_->pool(group).take());
  }
  tokens_.assign(tokens.begin(), tokens.end());
  computed_ = false;  // a file's pages are not known to be what this process would compute
  return true;
}

}  // namespace minfer::engine
