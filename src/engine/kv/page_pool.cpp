// Reference counts, the free heap, the idle list and the index of published pages. See page_pool.hpp.
#include "engine/kv/page_pool.hpp"

#include <algorithm>
#include <functional>

#include "base/error.hpp"

namespace minfer::engine {

PagePool::PagePool(int64_t pages)
    : pages_(static_cast<size_t>(pages)), buckets_(static_cast<size_t>(std::max<int64_t>(pages, 1)), kNoPage) {
  free_.reserve(static_cast<size_t>(pages));
  for (int64_t page = 0; page < pages; ++page) free_.push_back(static_cast<int32_t>(page));  // ascending: a heap
}

void PagePool::push_free(int32_t page) {
  free_.push_back(page);
  std::push_heap(free_.begin(), free_.end(), std::greater<>());
}

void PagePool::push_idle(int32_t page) {
  at(page).older = newest_;
  at(page).newer = kNoPage;
  (newest_ == kNoPage ? oldest_ : at(newest_).newer) = page;
  newest_ = page;
  ++idle_pages_;
}

void PagePool::unlink_idle(int32_t page) {
  Page& p = at(page);
  (p.older == kNoPage ? oldest_ : at(p.older).newer) = p.newer;
  (p.newer == kNoPage ? newest_ : at(p.newer).older) = p.older;
  p.older = p.newer = kNoPage;
  --idle_pages_;
}

int32_t PagePool::take() {
  check(available_pages() > 0, "a page was taken from an empty pool");
  if (free_.empty()) {
    ++evictions_;
    unpublish(oldest_);
  }
  const int32_t page = free_.front();
  std::pop_heap(free_.begin(), free_.end(), std::greater<>());
  free_.pop_back();
  at(page).references = 1;
  return page;
}

void PagePool::hold(int32_t page) {
  Page& p = at(page);
  check(p.references > 0 || p.published, "a free page was held");
  if (p.references++ == 0) unlink_idle(page);
}

void PagePool::release(int32_t page) {
  Page& p = at(page);
  check(p.references > 0, "a page was released that nobody holds");
  if (--p.references > 0) return;
  if (p.published) {
    push_idle(page);
  } else {
    push_free(page);
  }
}

void PagePool::publish(int32_t page, const PageKey& key) {
  Page& p = at(page);
  check(p.references > 0 && !p.published, "only a held page is published, once");
  if (find(key) != kNoPage) return;
  p.published = true;
  p.key = key;
  int32_t& head = bucket(key);
  p.next_in_bucket = head;
  head = page;
}

void PagePool::unpublish(int32_t page) {
  Page& p = at(page);
  if (!p.published) return;
  int32_t* link = &bucket(p.key);
  while (*link != page) link = &at(*link).next_in_bucket;
  *link = p.next_in_bucket;
  p.next_in_bucket = kNoPage;
  p.published = false;
  if (p.references > 0) return;
  unlink_idle(page);
  push_free(page);
}

int32_t PagePool::find(const PageKey& key) const {
  int32_t page = buckets_[key.low % buckets_.size()];
  while (page != kNoPage && !(at(page).key == key)) page = at(page).next_in_bucket;
  return page;
}

}  // namespace minfer::engine
